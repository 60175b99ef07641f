//! `gantry openssl config`: adds the provider to a configuration, and removes it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gantry_runtime::bounded;

use super::conf::{self, Conf};
use super::groups;
use super::measured::{MIN_GAIN, Row, query_module};
use super::merge::{MergePlan, remove_gantry};
use super::replace::OpenedFile;
use super::{candidate_list, find_module};
use crate::output::{Failure, Output};
use crate::temporary::Folder;

/// Returns a configuration of gantry alone, with the lines `keys` in the provider's section.
pub(crate) fn standalone_configuration(module: &Path, keys: &str) -> Result<String, Failure> {
    add_gantry("", Path::new(""), module, false, || Ok(keys.to_owned()))
}

/// Returns the reason why `gantry openssl config` refuses the configuration that programs read. Does not judge hand-written lines about
/// gantry.
pub(crate) fn refusal() -> Option<String> {
    if let Some(fips) = kernel_fips_refusal() {
        return Some(fips);
    }
    let path = conf::file_in_use().ok()?;
    let text = bounded::read_to_string(&path).ok()?;
    let without_gantry = remove_gantry(&text);
    let conf = Conf::parse(without_gantry.as_ref().unwrap_or(&text), &path);
    let refused = MergePlan::of(&conf, &path, false).err().filter(|_| !conf.lists_gantry())?;
    Some(if without_gantry.is_some() { refused + UNDO_HINT } else { refused })
}

/// The remedy for lines of an earlier run.
const UNDO_HINT: &str = "; --undo removes gantry's lines from it";

/// Returns the reason if the kernel is in FIPS mode. In this mode, the OpenSSL of several distributions activates `fips` and sets
/// `fips=yes`, unless a configuration says otherwise.
fn kernel_fips_refusal() -> Option<String> {
    fips_refusal(Path::new("/proc/sys/crypto/fips_enabled"))
}

fn fips_refusal(switch: &Path) -> Option<String> {
    let on = bounded::read_to_string(switch).is_ok_and(|text| text.trim() == "1");
    on.then(|| {
        format!("{}: this machine runs in FIPS mode, but gantry's algorithms are not validated", switch.display())
    })
}

/// The comment in place of the lists if measuring fails. The provider then uses its table of OpenSSL's releases.
const UNMEASURED_COMMENT: &str = "# Not measured: ";

/// Returns the lines of the provider's section for the algorithms that gain on this machine.
fn measured_lines(module: &Path) -> Result<String, Failure> {
    let folder = Folder::new()?;
    let conf = folder.path().join("openssl.cnf");
    fs::write(&conf, standalone_configuration(module, "")?).map_err(|error| Failure::at(conf.display(), &error))?;
    let reason = match query_module(&conf, &folder, Some(&gantry_openssl::measured_names().join(","))) {
        Ok(Ok(answer)) => return Ok(measured_lists(&answer.release, &answer.rows)),
        Ok(Err(reason)) if reason.is_empty() => "openssl did not load gantry".to_owned(),
        Ok(Err(reason)) => reason.join("; "),
        Err(failure) => failure.to_string(),
    };
    Ok(format!("{UNMEASURED_COMMENT}{}\n", reason.replace('\n', "; ")))
}

/// Keys whose algorithms are measured.
pub(crate) const MEASURED_KEYS: [&str; 4] = ["CIPHERS", "SIGNATURES", "KEY_EXCHANGE", "KDFS"];

/// Returns the algorithms of a key with a measured gain on this machine, which `gantry openssl config` names.
pub(crate) fn gaining_algorithms<'r>(rows: &'r [Row], key: &str) -> Vec<&'r str> {
    let gains =
        |row: &&Row| row.key == key && MEASURED_KEYS.contains(&key) && row.covers_whole_cost && row.is_worth_it();
    let mut names: Vec<&str> = rows.iter().filter(gains).map(|row| &*row.config_name).collect();
    // PBKDF2 has a row for each hash function.
    names.dedup();
    names
}

fn measured_lists(release: &str, rows: &[Row]) -> String {
    let mut text =
        format!("# Measured with {release}: algorithms that a device runs at least {MIN_GAIN} times as fast.\n");
    for key in MEASURED_KEYS {
        let names = gaining_algorithms(rows, key);
        let _ = writeln!(text, "{key} = {}", if names.is_empty() { "NONE".to_owned() } else { names.join(",") });
        let untried = rows.iter().filter(|row| row.key == key && row.served && !row.covers_whole_cost);
        let untried: Vec<&str> = untried.map(|row| &*row.config_name).collect();
        if !untried.is_empty() {
            let _ = writeln!(text, "# Served if added to {key}, and not measured: {}", untried.join(","));
        }
    }
    text
}

/// Returns the lines of a section, except lines with a key in `but`.
fn section_text(conf: &Conf, section: &str, but: &[&str]) -> String {
    let lines = conf.section(section).filter(|line| !but.contains(&&*line.key));
    lines.flat_map(|line| [&*line.text, "\n"]).collect()
}

pub(crate) fn run(
    system: bool,
    file: Option<&Path>,
    undo: bool,
    post_quantum: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    // From 3.5 on, OpenSSL itself prefers X25519MLKEM768.
    let is_native = post_quantum && super::installed_release().is_some_and(|release| release >= (3, 5));
    let post_quantum = post_quantum && !is_native;
    let path = match (system, file) {
        (false, None) => {
            if let Some(refused) = refusal() {
                return Err(Failure::Failed(refused));
            }
            return output.write(&match find_module() {
                Some(module) => add_gantry("", Path::new(""), &module, post_quantum, || measured_lines(&module))?,
                None => {
                    add_gantry("", Path::new(""), Path::new("/usr/lib/ossl-modules/gantry.so"), post_quantum, || {
                        Ok(String::new())
                    })?
                }
            });
        }
        (_, Some(file)) => file.to_owned(),
        (true, None) => conf::system_file().map_err(|none| Failure::Failed(format!("{none}; --file names one")))?,
    };
    // Change the file itself: Debian's path is a link to it.
    let path = path.canonicalize().map_err(|error| Failure::at(path.display(), &error))?;
    let failed = |error| Failure::at(path.display(), &error);
    // Replacing a device would turn it into a file.
    if !fs::metadata(&path).map_err(failed)?.is_file() {
        return Err(Failure::Failed(format!("{}: not a regular file", path.display())));
    }
    let old = OpenedFile::open(&path).map_err(failed)?;
    let new = if undo {
        remove_gantry(&old.text)
            .ok_or_else(|| Failure::Failed(format!("{}: has no lines of gantry", path.display())))?
    } else {
        if let Some(fips) = kernel_fips_refusal() {
            return Err(Failure::Failed(fips));
        }
        let module =
            find_module().ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", candidate_list())))?;
        let owner = |file: &Path| fs::metadata(file).map(|metadata| metadata.uid());
        if owner(&path).map_err(failed)? == 0 && owner(&module).map_err(failed)? != 0 {
            let message = "does not belong to root, but programs of all users would load it: install it as root first";
            return Err(Failure::Failed(format!("{} {message}", module.display())));
        }
        add_gantry(&old.text, &path, &module, post_quantum, || measured_lines(&module))?
    };
    let mut message =
        format!("{}: {}\n", path.display(), if undo { "gantry is removed" } else { "gantry is activated" });
    if !undo {
        let backup = PathBuf::from(format!("{}.before-gantry", path.display()));
        if old.copy_to(&backup).map_err(|error| Failure::at(backup.display(), &error))? {
            let _ = writeln!(message, "{}: copy of the old file", backup.display());
        }
        let conf = Conf::parse(&new, &path);
        for problem in conf.problems() {
            let _ = writeln!(message, "{problem}");
        }
        if let Some(why) = new.lines().find_map(|line| line.strip_prefix(UNMEASURED_COMMENT)) {
            let _ = writeln!(
                message,
                "no algorithm was measured: {why}; without lists, gantry serves no cipher from OpenSSL 3.5 on"
            );
        }
        if is_native {
            message += "X25519MLKEM768 needs no line: the installed OpenSSL prefers it, unless a list of groups \
                        leaves it out\n";
        } else if post_quantum {
            message += groups::PREFERENCE_MESSAGE;
        }
    }
    old.replace(&new).map_err(failed)?;
    output.write(&message)
}

/// Adds gantry to the text of the file at `path`. Keeps the keys and the TLS groups of an earlier run. Calls `measure` if there are no
/// lists of algorithms. The error names the line that prevents it.
fn add_gantry(
    text: &str,
    path: &Path,
    module: &Path,
    post_quantum: bool,
    measure: impl FnOnce() -> Result<String, Failure>,
) -> Result<String, Failure> {
    let earlier = Conf::parse(text, path);
    let keys = section_text(&earlier, "gantry_provider", &["module", "activate"]);
    let without_gantry = remove_gantry(text);
    let post_quantum = post_quantum || (without_gantry.is_some() && groups::prefers_group(&earlier));
    let hint = if without_gantry.is_some() { UNDO_HINT } else { "" };
    let text = without_gantry.as_deref().unwrap_or(text);
    let plan =
        MergePlan::of(&Conf::parse(text, path), path, post_quantum).map_err(|reason| Failure::Failed(reason + hint))?;
    let has_lists = earlier.section("gantry_provider").any(|line| MEASURED_KEYS.contains(&&*line.key));
    let keys = if has_lists { keys } else { keys + &measure()? };
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
        add_gantry(old, Path::new(HERE), Path::new("/x/gantry.so"), false, nothing)
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn algorithms_that_gain_are_listed() {
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
            // A cell that stays on the host does not count.
            measured::tests::row("CIPHERS", "G", true, &[("seal", 64, "host", 1.5)]),
            row("ENCODERS", "F", true, &[9.0]),
            // One of several rows of an algorithm is enough.
            row("KDFS", "P", true, &[3.0]),
            row("KDFS", "P", true, &[1.0]),
            row("KDFS", "P", true, &[2.0]),
            // Served by default, but without a measured gain.
            row("SIGNATURES", "S", false, &[]),
        ];
        rows[rows.len() - 1].served = true;
        let text = measured_lists("openssl 3.0", &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("# Measured with openssl 3.0"));
        let untried = "# Served if added to SIGNATURES, and not measured: S";
        assert_eq!(lines[1..], ["CIPHERS = A,D", "SIGNATURES = NONE", untried, "KEY_EXCHANGE = NONE", "KDFS = P"]);
    }

    #[test]
    fn present_keys_are_kept_and_lists_are_not_measured_again() {
        let measured = || Ok("# Measured\nCIPHERS = AES-128-GCM\n".to_owned());
        let put_into = |old: &str, measured: &dyn Fn() -> Result<String, Failure>| {
            add_gantry(old, Path::new(HERE), Path::new("/x/gantry.so"), false, measured)
                .map_err(|failure| failure.to_string())
        };
        let new = put_into("", &measured).unwrap();
        assert!(
            new.contains("[gantry_provider]\nmodule = /x/gantry.so\nactivate = 1\n# Measured\nCIPHERS = AES-128-GCM\n")
        );
        let values = |text: &str| {
            let conf = Conf::parse(text, Path::new(HERE));
            conf.section("gantry_provider").map(|line| line.value.clone()).collect::<Vec<_>>()
        };
        let again = put_into(&new, &|| unreachable!("there are lists")).unwrap();
        assert_eq!(values(&again), ["/x/gantry.so", "1", "AES-128-GCM"]);
        let without_lists = new.replace("CIPHERS = AES-128-GCM\n", "POLICY = latency\n");
        assert_eq!(
            values(&put_into(&without_lists, &measured).unwrap()),
            ["/x/gantry.so", "1", "latency", "AES-128-GCM"]
        );
    }

    #[test]
    fn undo_restores_the_file() {
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
            let problems = Conf::parse(&new, Path::new(HERE)).problems();
            assert!(problems.len() == 1 && problems[0].ends_with(": there is no /x/gantry.so"), "{problems:?}");
            assert_eq!(remove_gantry(&new).unwrap(), old);
            // A second run changes nothing.
            assert_eq!(put_into(&new).unwrap(), new);
        }
        assert_eq!(remove_gantry("a = b\n"), None);
    }

    /// Programs may name generators of other providers, which would fail if the default provider were required.
    #[test]
    fn no_provider_is_required_for_random_numbers() {
        let new = put_into("").unwrap();
        let conf = Conf::parse(&new, Path::new(HERE));
        let asked = conf.section("gantry_random").find(|line| line.key == "properties").unwrap();
        assert!(asked.value.split(',').all(|property| property.starts_with(['?', '-'])), "{}", asked.text);
    }

    #[test]
    fn groups_of_an_earlier_run_stay_and_are_removed_with_the_rest() {
        for old in ["", "openssl_conf = i\n[i]\nssl_conf = s\n[s]\nsystem_default = d\n[d]\nGroups = P-256\n"] {
            let put = |old: &str, post_quantum| {
                let nothing = || Ok(String::new());
                add_gantry(old, Path::new(HERE), Path::new("/x/gantry.so"), post_quantum, nothing)
                    .map_err(|failure| failure.to_string())
                    .unwrap()
            };
            let new = put(old, true);
            assert!(new.contains("\nGroups = X25519MLKEM768:"), "{new}");
            assert_eq!(put(&new, false), new);
            assert_eq!(put(&new, true), new);
            assert_eq!(remove_gantry(&new).unwrap(), old);
            assert!(!put(old, false).contains("X25519MLKEM768"));
        }
    }

    #[test]
    fn edited_keys_stay() {
        let new = put_into("").unwrap();
        let edited = new.replace("[gantry_provider]\n", "[gantry_provider]\nCIPHERS = ALL # all\n");
        let again = put_into(&edited).unwrap();
        let conf = Conf::parse(&again, Path::new(HERE));
        assert!(conf.section("gantry_provider").any(|line| line.text == "CIPHERS = ALL"), "{again}");
        assert_eq!(remove_gantry(&again).unwrap(), "");
    }

    /// Settings that users add after gantry's lines stay in force, too.
    #[test]
    fn other_settings_stay_in_force() {
        let old = "openssl_conf = init # theirs\n[init]\nproviders = list\nssl_conf = ssl_sect\nalg_section = a\n[list]\ndefault = d\n\
                   legacy = l\n[l]\nactivate = 1\n[d]\nactivate = 1\n[a]\n";
        let new = put_into(old).unwrap();
        let new = new.replace("[list]\ndefault = d\n", "[list]\nx = l\ndefault = d\n").replace("[a]\n", "[a]\nx = 1\n");
        let conf = Conf::parse(&new, Path::new(HERE));
        let keys = |section: &str| conf.section(section).map(|line| line.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys("init"), ["alg_section", "random", "providers", "ssl_conf"], "{new}");
        assert_eq!(keys("list"), ["x", "default", "legacy", "gantry"], "{new}");
        assert_eq!(keys("a"), ["default_properties", "x"], "{new}");
    }

    /// Red Hat's section is empty or has a key of its own.
    #[test]
    fn a_section_of_algorithms_without_a_choice_of_providers_is_merged() {
        let file = |line: &str| {
            format!("openssl_conf = i\n[i]\nproviders = p\nalg_section = evp_properties\n[p]\n[evp_properties]\n{line}")
        };
        for (line, keys) in [
            ("", &["default_properties"][..]),
            ("rh-allow-sha1-signatures = yes\n", &["default_properties", "rh-allow-sha1-signatures"]),
        ] {
            let new = put_into(&file(line)).unwrap();
            let conf = Conf::parse(&new, Path::new(HERE));
            assert_eq!(conf.section("evp_properties").map(|line| &*line.key).collect::<Vec<_>>(), keys, "{new}");
            assert_eq!(remove_gantry(&new).unwrap(), file(line));
        }
        for line in ["default_properties = fips=yes\n", "fips_mode = yes\n"] {
            let refused = put_into(&file(line)).unwrap_err();
            assert!(refused.contains("chooses among providers"), "{refused}");
        }
    }

    /// The user may activate another provider after gantry was added.
    #[test]
    fn lines_that_conflict_now_can_be_removed() {
        let new = put_into("openssl_conf = i\n[i]\nproviders = p\n[p]\n# fips = f\n[f]\nactivate = 1\n").unwrap();
        let refused = put_into(&new.replace("# fips", "fips")).unwrap_err();
        assert!(refused.contains(": fips is activated, and could be replaced by gantry"), "{refused}");
        assert!(refused.ends_with("; --undo removes gantry's lines from it"), "{refused}");
    }

    #[test]
    fn the_kernels_fips_mode_is_detected() {
        let folder = Folder::new().unwrap();
        let switch = folder.path().join("fips_enabled");
        for (text, on) in [("1\n", true), ("0\n", false), ("", false)] {
            fs::write(&switch, text).unwrap();
            assert_eq!(fips_refusal(&switch).is_some(), on, "{text:?}");
        }
        assert_eq!(fips_refusal(&folder.path().join("none")), None);
    }
}
