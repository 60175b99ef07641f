//! `gantry openssl config`: the provider put into a configuration, and taken out again.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gantry_runtime::bounded;

use super::conf::{self, Conf};
use super::measured::{Row, WORTH, ask};
use super::{folders, module};
use crate::output::{Failure, Output};
use crate::temporary::Folder;

/// Between these lines everything is ours, so that it can be taken out again.
const BEGIN: &str = "# gantry: begin";
const END: &str = "# gantry: end";

/// What is added: the sections, and at the top of the file the line that leads to them.
///
/// The default provider is activated by name, so that programs go on if the module is not there.
///
/// Random numbers do not come through gantry, as they would in 3.0 to 3.4: the default provider is preferred for them (`?`, so that a
/// generator of another provider can be named), and gantry's own property counts for nothing (`-`).
///
/// For everything else, two properties are asked for, because where a program names one itself, what the configuration says of it is
/// gone: `?provider=tpm2` is to find the keys of that provider, and `provider!=fips` (stunnel) the ciphers of gantry.
fn sections(module: &Path, kept: &Kept) -> String {
    format!(
        "{BEGIN}\n[gantry_init]\nproviders = gantry_providers\nalg_section = gantry_algorithms\nrandom = gantry_random\n{}\
         \n[gantry_providers]\ndefault = gantry_default\ngantry = gantry_provider\n{}\n[gantry_default]\nactivate = 1\n\n\
         [gantry_provider]\nmodule = {}\nactivate = 1\n{}\n\
         [gantry_algorithms]\ndefault_properties = ?provider=gantry,?gantry.serves=yes\n\n[gantry_random]\nproperties = ?provider=default,-gantry.serves\n{END}\n",
        kept.init,
        kept.providers,
        module.display(),
        if kept.keys.is_empty() {
            "# CIPHERS = ALL, DIGESTS = ALL, POLICY, DEVICES, ...: see the book\n"
        } else {
            &kept.keys
        },
    )
}

/// A configuration that has nothing else in it but these lines of the provider's section.
pub(crate) fn alone(module: &Path, keys: &str) -> String {
    let kept = Kept { keys: keys.to_owned(), ..Kept::default() };
    format!("openssl_conf = gantry_init\n\n{}", sections(module, &kept))
}

/// The lines of the provider's section that say what is served: what gains on this machine with its `openssl`. None where nothing can be
/// measured: then the provider goes by what is known of OpenSSL's releases.
fn measured(module: &Path) -> Result<String, Failure> {
    let folder = Folder::new()?;
    let conf = folder.path().join("openssl.cnf");
    fs::write(&conf, alone(module, "")).map_err(|error| Failure::at(conf.display(), &error))?;
    match ask(&conf, &folder, Some(&gantry_openssl::measured_names().join(","))) {
        Ok(Ok(answer)) => Ok(lines(&answer.release, &answer.rows)),
        _ => Ok(String::new()),
    }
}

/// The keys whose algorithms gain by themselves, without requests of other threads.
pub(crate) const MEASURED_KEYS: [&str; 4] = ["CIPHERS", "SIGNATURES", "KEY_EXCHANGE", "KDFS"];

/// Those algorithms of a key that `gantry openssl config` would name: what gains, and what is served without a measurement, as SLH-DSA, of which
/// a single request may take the better part of a second.
pub(crate) fn gaining<'r>(rows: &'r [Row], key: &str) -> Vec<&'r str> {
    let is_worth_it = |row: &Row| if row.measured { row.is_worth_it() } else { row.served };
    let gains = |row: &&Row| row.key == key && MEASURED_KEYS.contains(&key) && is_worth_it(row);
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
    }
    text
}

/// What the sections that were in use say beside what ours say.
#[derive(Default)]
struct Kept {
    /// Lines of the first section, such as the one that leads to the settings of TLS.
    init: String,
    /// Lines that name other providers.
    providers: String,
    /// Lines that somebody wrote into our own provider's section.
    keys: String,
}

impl Kept {
    /// Of the sections that the configuration at `path` leads to. The error is a line that ours would have to say differently.
    fn of(conf: &Conf, path: &Path) -> Result<Self, String> {
        let mut kept = Self::default();
        let Some(begin) = conf.begin() else { return Ok(kept) };
        if *begin.file != *path {
            return Err(format!("{}: '{}' has to be merged by hand", begin.file.display(), begin.text));
        }
        if let Some(line) = conf.section(&begin.value).find(|line| ["alg_section", "random"].contains(&&*line.key)) {
            return Err(format!("{}: '{}' has to be merged by hand", line.file.display(), line.text));
        }
        kept.init = text_of(conf, &begin.value, &["providers"]);
        for line in conf.section(&begin.value).filter(|line| line.key == "providers") {
            kept.providers = text_of(conf, &line.value, &["default", "gantry"]);
        }
        Ok(kept)
    }
}

/// The lines of a section, but for those of some keys.
fn text_of(conf: &Conf, section: &str, but: &[&str]) -> String {
    let lines = conf.section(section).filter(|line| !but.contains(&&*line.key));
    lines.flat_map(|line| [&*line.text, "\n"]).collect()
}

pub(crate) fn run(system: bool, file: Option<&Path>, undo: bool, output: &mut Output) -> Result<(), Failure> {
    let path = match (system, file) {
        (false, None) => {
            return output.write(&match module() {
                Some(module) => alone(&module, &measured(&module)?),
                None => alone(Path::new("/usr/lib/ossl-modules/gantry.so"), ""),
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
    let old = bounded::read_to_string(&path).map_err(failed)?;
    let new = if undo {
        without(&old).ok_or_else(|| Failure::Failed(format!("{}: nothing of gantry is in it", path.display())))?
    } else {
        let module = module().ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", folders())))?;
        with(&old, &path, &module, || measured(&module))?
    };
    let backup = PathBuf::from(format!("{}.before-gantry", path.display()));
    if !undo {
        match write_new(&backup, &old, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            written => written.map_err(|error| Failure::at(backup.display(), &error))?,
        }
    }
    replace(&path, &new)?;
    let mut said =
        format!("{}: {}\n", path.display(), if undo { "gantry is taken out" } else { "gantry is activated" });
    if !undo {
        let _ = writeln!(said, "{}: as it was before", backup.display());
        for complaint in Conf::of(&new, &path).complaints() {
            let _ = writeln!(said, "{complaint}");
        }
    }
    output.write(&said)
}

/// A file is the old one or the new one, whatever happens in between.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = PathBuf::from(format!("{}.gantry-new", path.display()));
    // What a run left that was interrupted.
    let _ = fs::remove_file(&beside);
    write_new(&beside, text, path)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| Failure::at(path.display(), &error))
}

/// Writes a new file, with the permissions of another one. A link that somebody has put there is not followed.
fn write_new(path: &Path, text: &str, like: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::metadata(like)?.permissions())
}

/// The old line stays, as a comment that `without` knows.
const WAS: &str = "# gantry: was: ";

/// The text of the file at `path` with ours in it. What the provider's section said before stays; if that was nothing, `measured` says it.
/// The error is a sentence about somebody else's sections that stand in the way.
fn with(
    text: &str,
    path: &Path,
    module: &Path,
    measured: impl FnOnce() -> Result<String, Failure>,
) -> Result<String, Failure> {
    let keys = text_of(&Conf::of(text, path), "gantry_provider", &["module", "activate"]);
    let text = &without(text).unwrap_or_else(|| text.to_owned());
    let conf = Conf::of(text, path);
    let kept = Kept::of(&conf, path).map_err(Failure::Failed)?;
    let kept = Kept { keys: if keys.is_empty() { measured()? } else { keys }, ..kept };
    let mut new = String::new();
    let begin = conf.begin().map(|line| line.number);
    if begin.is_none() {
        let _ = writeln!(new, "{WAS}\nopenssl_conf = gantry_init");
    }
    for (at, line) in text.lines().enumerate() {
        let _ = if begin == Some(at + 1) {
            writeln!(new, "{WAS}{line}\nopenssl_conf = gantry_init")
        } else {
            writeln!(new, "{line}")
        };
    }
    new += &sections(module, &kept);
    Ok(new)
}

/// The text without ours, if there was any.
fn without(text: &str) -> Option<String> {
    let mut new = String::new();
    let (mut ours, mut found, mut skip) = (false, false, false);
    for line in text.lines() {
        match line {
            _ if skip => skip = false,
            BEGIN => (ours, found) = (true, true),
            END => ours = false,
            _ if ours => {}
            _ => match line.strip_prefix(WAS.trim_end()) {
                Some(was) => {
                    (skip, found) = (true, true);
                    if !was.trim().is_empty() {
                        let _ = writeln!(new, "{}", was.trim_start());
                    }
                }
                None => {
                    let _ = writeln!(new, "{line}");
                }
            },
        }
    }
    found.then_some(new)
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
        let rows = [
            row("CIPHERS", "A", true, &[0.8, 1.15, 1.0]),
            row("CIPHERS", "B", true, &[1.1, 1.14, 0.0]),
            row("CIPHERS", "C", false, &[5.0]),
            row("CIPHERS", "D", true, &[0.0, 0.0, 2.0]),
            row("SIGNATURES", "E", true, &[1.0]),
            // Too little of so short a request for it to leave the host.
            measured::tests::row("CIPHERS", "G", true, &[("seal", 64, "host", 1.5)]),
            row("DIGESTS", "F", true, &[9.0]),
            // Of several rows of an algorithm one is enough.
            row("KDFS", "P", true, &[3.0]),
            row("KDFS", "P", true, &[1.0]),
            row("KDFS", "P", true, &[2.0]),
        ];
        let text = lines("openssl 3.0", &rows);
        let said: Vec<&str> = text.lines().collect();
        assert!(said[0].starts_with("# Measured with openssl 3.0"));
        assert_eq!(said[1..], ["CIPHERS = A,D", "SIGNATURES = NONE", "KEY_EXCHANGE = NONE", "KDFS = P"]);
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
            "openssl_conf = openssl_init\n[openssl_init]\nproviders = p\n",
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

    #[test]
    fn what_others_configured_stays_in_force() {
        let old = "openssl_conf = init # theirs\n[init]\nproviders = list\nssl_conf = ssl_sect\n[list]\ndefault = d\n\
                   legacy = l\n[l]\nactivate = 1\n";
        let new = put_into(old).unwrap();
        let conf = Conf::of(&new, Path::new(HERE));
        assert!(conf.section("gantry_init").any(|line| line.text == "ssl_conf = ssl_sect"), "{new}");
        assert!(conf.section("gantry_providers").any(|line| line.key == "legacy"), "{new}");
        let taken = put_into("openssl_conf = init\n[init]\nalg_section = fips\n");
        assert_eq!(taken, Err(format!("{HERE}: 'alg_section = fips' has to be merged by hand")));
    }
}
