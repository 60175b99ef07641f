//! `gantry openssl config`: the provider put into a configuration, and taken out again.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gantry_runtime::bounded;

use super::conf::{self, Conf};
use super::measured::{Row, WORTH, ask};
use super::merge::{Plan, without};
use super::replace::Old;
use super::{folders, module};
use crate::output::{Failure, Output};
use crate::temporary::Folder;

/// Returns a configuration of gantry alone, with these lines in the provider's section.
pub(crate) fn alone(module: &Path, keys: &str) -> Result<String, Failure> {
    with("", Path::new(""), module, || Ok(keys.to_owned()))
}

/// Returns the sentence with which `gantry openssl config` refuses the configuration that programs read. Hand-written lines about gantry are not
/// judged.
pub(crate) fn refusal() -> Option<String> {
    if let Some(fips) = fips_of_the_kernel() {
        return Some(fips);
    }
    let path = conf::in_use().ok()?;
    let text = bounded::read_to_string(&path).ok()?;
    let theirs = without(&text);
    let conf = Conf::of(theirs.as_ref().unwrap_or(&text), &path);
    let refused = Plan::of(&conf, &path).err().filter(|_| !conf.names_gantry())?;
    Some(if theirs.is_some() { refused + UNDO } else { refused })
}

/// The remedy for lines of an earlier run.
const UNDO: &str = "; --undo takes out the lines of gantry that are in it";

/// In the kernel's FIPS mode, OpenSSL of several distributions activates `fips` and sets `fips=yes` by itself, unless a configuration differs.
fn fips_of_the_kernel() -> Option<String> {
    says_fips(Path::new("/proc/sys/crypto/fips_enabled"))
}

fn says_fips(switch: &Path) -> Option<String> {
    let on = bounded::read_to_string(switch).is_ok_and(|text| text.trim() == "1");
    on.then(|| {
        format!("{}: this machine runs in FIPS mode, and gantry's algorithms are not validated", switch.display())
    })
}

/// The lines of the provider's section that say what is served: what gains on this machine with its `openssl`. None where nothing can be
/// measured: then the provider goes by what is known of OpenSSL's releases.
fn measured(module: &Path) -> Result<String, Failure> {
    let folder = Folder::new()?;
    let conf = folder.path().join("openssl.cnf");
    fs::write(&conf, alone(module, "")?).map_err(|error| Failure::at(conf.display(), &error))?;
    match ask(&conf, &folder, Some(&gantry_openssl::measured_names().join(","))) {
        Ok(Ok(answer)) => Ok(lines(&answer.release, &answer.rows)),
        _ => Ok(String::new()),
    }
}

/// The keys whose algorithms may be worth serving on the devices of every machine.
pub(crate) const MEASURED_KEYS: [&str; 4] = ["CIPHERS", "SIGNATURES", "KEY_EXCHANGE", "KDFS"];

/// The algorithms of a key that `gantry openssl config` would name: those with a measured gain on this machine.
pub(crate) fn gaining<'r>(rows: &'r [Row], key: &str) -> Vec<&'r str> {
    let gains = |row: &&Row| row.key == key && MEASURED_KEYS.contains(&key) && row.measured && row.is_worth_it();
    let mut names: Vec<&str> = rows.iter().filter(gains).map(|row| &*row.named).collect();
    // PBKDF2 has a row for each hash function.
    names.dedup();
    names
}

fn lines(release: &str, rows: &[Row]) -> String {
    let mut text = format!("# Measured with {release}: what a device does {WORTH} times as fast, or more.\n");
    for key in MEASURED_KEYS {
        let names = gaining(rows, key);
        let _ = writeln!(text, "{key} = {}", if names.is_empty() { "NONE".to_owned() } else { names.join(",") });
        let untried = rows.iter().filter(|row| row.key == key && row.served && !row.measured);
        let untried: Vec<&str> = untried.map(|row| &*row.named).collect();
        if !untried.is_empty() {
            let _ = writeln!(text, "# Served if added to {key}, and not measured: {}", untried.join(","));
        }
    }
    text
}

/// The lines of a section, but for those of some keys.
fn text_of(conf: &Conf, section: &str, but: &[&str]) -> String {
    let lines = conf.section(section).filter(|line| !but.contains(&&*line.key));
    lines.flat_map(|line| [&*line.text, "\n"]).collect()
}

pub(crate) fn run(system: bool, file: Option<&Path>, undo: bool, output: &mut Output) -> Result<(), Failure> {
    let path = match (system, file) {
        (false, None) => {
            if let Some(refused) = refusal() {
                return Err(Failure::Failed(refused));
            }
            return output.write(&match module() {
                Some(module) => alone(&module, &measured(&module)?)?,
                None => alone(Path::new("/usr/lib/ossl-modules/gantry.so"), "")?,
            });
        }
        (_, Some(file)) => file.to_owned(),
        (true, None) => conf::of_the_system().map_err(|none| Failure::Failed(format!("{none}; --file names one")))?,
    };
    // The file itself, not a link to it, of which Debian has one.
    let path = path.canonicalize().map_err(|error| Failure::at(path.display(), &error))?;
    let failed = |error| Failure::at(path.display(), &error);
    // What is put in the place of a device is none any more.
    if !fs::metadata(&path).map_err(failed)?.is_file() {
        return Err(Failure::Failed(format!("{}: not a regular file", path.display())));
    }
    let old = Old::open(&path).map_err(failed)?;
    let new = if undo {
        without(&old.text).ok_or_else(|| Failure::Failed(format!("{}: nothing of gantry is in it", path.display())))?
    } else {
        if let Some(fips) = fips_of_the_kernel() {
            return Err(Failure::Failed(fips));
        }
        let module = module().ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", folders())))?;
        let owner = |file: &Path| fs::metadata(file).map(|metadata| metadata.uid());
        if owner(&path).map_err(failed)? == 0 && owner(&module).map_err(failed)? != 0 {
            let said = "is not root's, and programs of all users would load it: install it as root first";
            return Err(Failure::Failed(format!("{} {said}", module.display())));
        }
        with(&old.text, &path, &module, || measured(&module))?
    };
    let mut said =
        format!("{}: {}\n", path.display(), if undo { "gantry is taken out" } else { "gantry is activated" });
    if !undo {
        let backup = PathBuf::from(format!("{}.before-gantry", path.display()));
        if old.keep(&backup).map_err(|error| Failure::at(backup.display(), &error))? {
            let _ = writeln!(said, "{}: as it was before", backup.display());
        }
        for complaint in Conf::of(&new, &path).complaints() {
            let _ = writeln!(said, "{complaint}");
        }
    }
    old.replace(&new).map_err(failed)?;
    output.write(&said)
}

/// Adds gantry to the text of the file at `path`. The keys of an earlier run stay; otherwise `measured` has them. The error is a sentence that names
/// the line in the way.
fn with(
    text: &str,
    path: &Path,
    module: &Path,
    measured: impl FnOnce() -> Result<String, Failure>,
) -> Result<String, Failure> {
    let keys = text_of(&Conf::of(text, path), "gantry_provider", &["module", "activate"]);
    let theirs = without(text);
    let hint = if theirs.is_some() { UNDO } else { "" };
    let text = theirs.as_deref().unwrap_or(text);
    let plan = Plan::of(&Conf::of(text, path), path).map_err(|why| Failure::Failed(why + hint))?;
    let keys = if keys.is_empty() { measured()? } else { keys };
    let keys = if keys.is_empty() { "# CIPHERS = ALL, POLICY, DEVICES, ...: see the book\n" } else { &keys };
    Ok(plan.apply(text, &format!("module = {}\nactivate = 1\n{keys}", module.display())))
}

#[cfg(test)]
mod tests {
    use super::super::measured;
    use super::*;

    const HERE: &str = "/nowhere/openssl.cnf";

    fn put_into(old: &str) -> Result<String, String> {
        let nothing = || Ok(String::new());
        with(old, Path::new(HERE), Path::new("/x/gantry.so"), nothing).map_err(|failure| failure.to_string())
    }

    #[test]
    fn what_gains_is_served_unasked() {
        let row = |key, name, measured, gains: &[f64]| {
            let cells: Vec<_> = gains.iter().map(|gain| ("seal", 64, "x", *gain)).collect();
            measured::tests::row(key, name, measured, &cells)
        };
        let mut rows = [
            row("CIPHERS", "A", true, &[0.8, 1.15, 1.0]),
            row("CIPHERS", "B", true, &[1.1, 1.14, 0.0]),
            row("CIPHERS", "C", false, &[5.0]),
            row("CIPHERS", "D", true, &[0.0, 0.0, 2.0]),
            row("SIGNATURES", "E", true, &[1.0]),
            // Too little of so short a request for it to leave the host.
            measured::tests::row("CIPHERS", "G", true, &[("seal", 64, "host", 1.5)]),
            row("ENCODERS", "F", true, &[9.0]),
            // Of several rows of an algorithm one is enough.
            row("KDFS", "P", true, &[3.0]),
            row("KDFS", "P", true, &[1.0]),
            row("KDFS", "P", true, &[2.0]),
            // Served by default, and nothing shows here that it gains.
            row("SIGNATURES", "S", false, &[]),
        ];
        rows[rows.len() - 1].served = true;
        let text = lines("openssl 3.0", &rows);
        let said: Vec<&str> = text.lines().collect();
        assert!(said[0].starts_with("# Measured with openssl 3.0"));
        let untried = "# Served if added to SIGNATURES, and not measured: S";
        assert_eq!(said[1..], ["CIPHERS = A,D", "SIGNATURES = NONE", untried, "KEY_EXCHANGE = NONE", "KDFS = P"]);
    }

    #[test]
    fn what_is_in_the_section_is_not_measured_again() {
        let measured = || Ok("# Measured\nCIPHERS = AES-128-GCM\n".to_owned());
        let put_into = |old: &str, measured: &dyn Fn() -> Result<String, Failure>| {
            with(old, Path::new(HERE), Path::new("/x/gantry.so"), measured).map_err(|failure| failure.to_string())
        };
        let new = put_into("", &measured).unwrap();
        assert!(
            new.contains("[gantry_provider]\nmodule = /x/gantry.so\nactivate = 1\n# Measured\nCIPHERS = AES-128-GCM\n")
        );
        let again = put_into(&new, &|| unreachable!("there are keys")).unwrap();
        assert!(Conf::of(&again, Path::new(HERE)).section("gantry_provider").any(|line| line.value == "AES-128-GCM"));
    }

    #[test]
    fn what_was_put_in_comes_out_again() {
        for old in [
            "",
            "a = b\n",
            "a = b",
            "a = b\r\n[c]\r\nd = e\r\n",
            "\u{feff}a = b\n",
            "a = b \\",
            "openssl_conf = openssl_init\n[openssl_init]\nproviders = p\n[p]\n",
            "openssl_conf = i\n[i]\nproviders = p\nalg_section \\\n = \\\na # theirs\nssl_conf = s\n[p]\n[a]\n",
            "[x]\ny = 1\nopenssl_conf = z\n",
        ] {
            let new = put_into(old).unwrap();
            let complaints = Conf::of(&new, Path::new(HERE)).complaints();
            assert!(complaints.len() == 1 && complaints[0].ends_with(": there is no /x/gantry.so"), "{complaints:?}");
            assert_eq!(without(&new).unwrap(), old);
            // Once more changes nothing.
            assert_eq!(put_into(&new).unwrap(), new);
        }
        assert_eq!(without("a = b\n"), None);
    }

    /// Generators of other providers, which have no choice where the default provider is required.
    #[test]
    fn no_provider_is_required_for_random_numbers() {
        let new = put_into("").unwrap();
        let conf = Conf::of(&new, Path::new(HERE));
        let asked = conf.section("gantry_random").find(|line| line.key == "properties").unwrap();
        assert!(asked.value.split(',').all(|property| property.starts_with(['?', '-'])), "{}", asked.text);
    }

    #[test]
    fn what_people_wrote_into_the_section_stays() {
        let new = put_into("").unwrap();
        let edited = new.replace("[gantry_provider]\n", "[gantry_provider]\nCIPHERS = ALL # all\n");
        let again = put_into(&edited).unwrap();
        let conf = Conf::of(&again, Path::new(HERE));
        assert!(conf.section("gantry_provider").any(|line| line.text == "CIPHERS = ALL"), "{again}");
        assert_eq!(without(&again).unwrap(), "");
    }

    /// Also lines that others add later.
    #[test]
    fn what_others_configured_stays_in_force() {
        let old = "openssl_conf = init # theirs\n[init]\nproviders = list\nssl_conf = ssl_sect\nalg_section = a\n[list]\ndefault = d\n\
                   legacy = l\n[l]\nactivate = 1\n[d]\nactivate = 1\n[a]\n";
        let new = put_into(old).unwrap();
        let new = new.replace("[list]\ndefault = d\n", "[list]\nx = l\ndefault = d\n").replace("[a]\n", "[a]\nx = 1\n");
        let conf = Conf::of(&new, Path::new(HERE));
        let keys = |section: &str| conf.section(section).map(|line| line.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys("init"), ["alg_section", "random", "providers", "ssl_conf"], "{new}");
        assert_eq!(keys("list"), ["x", "default", "legacy", "gantry"], "{new}");
        assert_eq!(keys("a"), ["default_properties", "x"], "{new}");
    }

    /// Lines of an earlier run, in whose configuration another provider was activated since.
    #[test]
    fn lines_that_do_harm_now_can_be_taken_out() {
        let new = put_into("openssl_conf = i\n[i]\nproviders = p\n[p]\n# fips = f\n[f]\nactivate = 1\n").unwrap();
        let refused = put_into(&new.replace("# fips", "fips")).unwrap_err();
        assert!(refused.contains(": fips is activated, and gantry, "), "{refused}");
        assert!(refused.ends_with("; --undo takes out the lines of gantry that are in it"), "{refused}");
    }

    #[test]
    fn the_kernels_fips_mode_is_seen() {
        let folder = Folder::new().unwrap();
        let switch = folder.path().join("fips_enabled");
        for (text, on) in [("1\n", true), ("0\n", false), ("", false)] {
            fs::write(&switch, text).unwrap();
            assert_eq!(says_fips(&switch).is_some(), on, "{text:?}");
        }
        assert_eq!(says_fips(&folder.path().join("none")), None);
    }
}
