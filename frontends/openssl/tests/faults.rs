//! Faults around the module: programs continue as without it, or fail with OpenSSL's own error. Also unusual programs: with
//! threads, two libcryptos, or set-user-ID rights.

mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gantry_runtime::stats::VARIABLE;
use lab::{EVERYTHING, Lab, OFFLOADED, has_models, is_installed, is_root, noise, text};

/// Returns the complete output of three kinds of programs.
fn programs(lab: &Lab, configuration: &Path) -> String {
    let script = "openssl dgst -sha256 plain; echo $?; openssl enc -aes-128-cbc -K 00 -iv 00 -in plain | openssl dgst -md5; \
                  python3 -c 'import hashlib, ssl; ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); print(hashlib.sha1(b\"x\").hexdigest())'";
    text(&lab.sh(script, configuration))
}

#[test]
fn a_damaged_module_is_ignored() {
    let lab = Lab::new("damaged");
    lab.write("plain", "some text");
    let configuration = lab.configuration(OFFLOADED);
    let expected = programs(&lab, Path::new("/dev/null"));
    assert_eq!(programs(&lab, &configuration), expected, "the module as it is");
    let module = fs::read(lab.path("gantry.so")).unwrap();
    let damages: [(&str, &[u8]); 4] = [
        ("nothing", b""),
        ("text", b"GROUP ( /nowhere/else.so )\n"),
        ("a header", &module[..100]),
        ("a half", &module[..module.len() / 2]),
    ];
    for (what, damaged) in damages {
        lab.write("gantry.so", damaged);
        assert_eq!(programs(&lab, &configuration), expected, "{what}");
    }
    // Another kind of library: it loads, but is no provider.
    let libc = "cp $(ldd /bin/sh | sed -n 's/.*libc.so.6 => \\([^ ]*\\) .*/\\1/p') gantry.so";
    assert!(lab.sh(libc, Path::new("/dev/null")).status.success());
    assert_eq!(programs(&lab, &configuration), expected, "another library");
    fs::remove_file(lab.path("gantry.so")).unwrap();
    fs::create_dir(lab.path("gantry.so")).unwrap();
    assert_eq!(programs(&lab, &configuration), expected, "a folder");
}

#[test]
fn a_wrong_configuration_fails_as_without_gantry() {
    let lab = Lab::new("configuration");
    lab.write("plain", "some text");
    let valid = fs::read_to_string(lab.configuration(OFFLOADED)).unwrap();
    // Removes the lines that refer to gantry.
    let without_lines = valid
        .replace("gantry = gantry_provider\n", "")
        .replace("default_properties = ?provider=gantry,?gantry.serves=yes", "");
    for (what, wrong, instead) in [
        ("a section that is not there", "providers = providers", "providers = nobody"),
        ("a line that is none", "[default_provider]", "[default_provider]\nactivate"),
        ("a section without an end", "[default_provider]", "[default_provider"),
        ("no property", "[random]", "[algorithms]\ndefault_properties = ?=\n[random]"),
    ] {
        assert!(valid.contains(wrong));
        let (with_gantry, without_gantry) = (valid.replace(wrong, instead), without_lines.replace(wrong, instead));
        // Both have one file name, because OpenSSL's errors may contain the name.
        let path = lab.write("openssl.cnf", without_gantry);
        let expected = programs(&lab, &path);
        lab.write("openssl.cnf", with_gantry);
        assert_eq!(programs(&lab, &path), expected, "{what}");
    }
    // Folders for statistics that do not exist or are not writable.
    let expected = programs(&lab, Path::new("/dev/null"));
    for section in ["STATS = /nowhere", "STATS = /proc", "STATS = /dev/null"] {
        assert_eq!(programs(&lab, &lab.configuration(section)), expected, "{section}");
    }
}

#[test]
fn the_module_works_without_a_writable_folder() {
    let lab = Lab::new("read-only");
    lab.write("plain", noise(100_000));
    fs::create_dir(lab.path("place")).unwrap();
    let place = lab.path("place");
    let stats = lab.configuration(&format!("{OFFLOADED}\nSTATS = {}", place.display()));
    // The adaptive policy keeps costs in the cache folder.
    let adaptive = lab.configuration("CIPHERS = ALL\nPOLICY = latency");
    let work =
        "openssl dgst -sha256 plain; openssl enc -aes-128-cbc -K 00 -iv 00 -in plain 2>/dev/null | openssl dgst -md5";
    let expected = text(&lab.sh(work, Path::new("/dev/null")));
    let script = format!(
        "mount -t tmpfs none place; mount -o remount,ro place\n\
         export HOME=$PWD/place XDG_CACHE_HOME=$PWD/place XDG_CONFIG_HOME=$PWD/place XDG_RUNTIME_DIR=$PWD/place TMPDIR=$PWD/place\n\
         if touch place/file 2>/dev/null; then exit 9; fi\n{work}"
    );
    let run_without_writable_folder = |configuration: &Path| {
        lab.command("unshare", configuration).args(["-rm", "sh", "-ec", &script]).output().unwrap()
    };
    if !lab.sh("unshare -rm mount -t tmpfs none place", Path::new("/dev/null")).status.success() {
        return gantry_lab::skip("file systems of one's own");
    }
    for configuration in [&stats, &adaptive] {
        assert_eq!(text(&run_without_writable_folder(configuration)), expected);
    }
}

#[test]
fn a_query_for_fips_is_never_served() {
    let lab = Lab::new("promise");
    let who = lab.compile("tests/who.c");
    let ask = |configuration: &Path, properties: &str| {
        let output =
            lab.command(who.to_str().unwrap(), Path::new("/dev/null")).arg(configuration).arg(properties).output();
        text(&output.unwrap())
    };
    let configuration = lab.configuration(OFFLOADED);
    for properties in ["", "provider=gantry", "gantry.serves=yes", "provider!=fips", "-fips", "?fips=yes"] {
        assert_eq!(ask(&configuration, properties), "plain, gantry, 66e94bd4\n", "{properties}");
    }
    for properties in
        ["fips=yes", "fips=yes,provider=gantry", "fips=yes,gantry.serves=yes", "fips=yes,?provider=gantry"]
    {
        assert_eq!(ask(&configuration, properties), "plain, nobody, failed\n", "{properties}");
    }
    let wanted = fs::read_to_string(&configuration).unwrap().replace("?provider=gantry", "fips=yes,?provider=gantry");
    assert_eq!(ask(&lab.write("fips.cnf", wanted), ""), "plain, nobody, failed\n");
}

#[test]
fn a_set_user_id_program_reads_no_variable() {
    // Only root can make a program that runs as root.
    if !is_root() {
        return gantry_lab::skip("root");
    }
    if !is_installed("setpriv") {
        return;
    }
    let lab = Lab::new("rights");
    let who = lab.compile("tests/who.c");
    let offloaded = lab.configuration(OFFLOADED);
    lab.collect_statistics();
    let open = "chmod 777 . socket";
    assert!(lab.sh(open, &offloaded).status.success());
    let run = |configuration: &PathBuf| {
        let mut command = lab.command("setpriv", Path::new("/dev/null"));
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&who).arg(configuration).arg("");
        command.env("GANTRY_DISABLE", "1").env(VARIABLE, lab.path("socket"));
        text(&command.output().unwrap())
    };
    let failing = lab.configuration("FORCE_FAIL = yes");
    assert_eq!(run(&failing), "plain, default, 66e94bd4\n");
    assert!(lab.sh("chmod u+s program", &offloaded).status.success());
    assert_eq!(run(&failing), "secure, gantry, failed\n");
    assert_eq!(run(&offloaded), "secure, gantry, 66e94bd4\n");
    assert_eq!(lab.take_statistics().pages.len(), 0);
}

#[test]
fn sixteen_threads_share_fetched_algorithms() {
    let lab = Lab::new("threads");
    let program = lab.compile("tests/threads.c");
    for (policy, expected) in [
        ("", "the same\n"),
        ("POLICY = pin:software", "the same\n"),
        ("POLICY = pin:lanes", "the same\n"),
        ("FORCE_FAIL = yes", "failed\n"),
    ] {
        let configuration = lab.configuration(&format!("{EVERYTHING}\n{policy}"));
        let output = Command::new(&program).arg(&configuration).output().unwrap();
        assert_eq!(text(&output), expected, "{policy}");
    }
}

/// Unloads the module in every way that a program can, with a device that runs in the calling thread and with a device that has its own
/// thread.
#[test]
fn the_module_can_be_reloaded_and_leaves_nothing_behind() {
    let lab = Lab::new("unload");
    let program = lab.compile("tests/unload.c");
    let engine = "CIPHERS = ALL\nDEVICES = model:kirkwood=on\n\
                  POLICY = size-threshold:1024,host,model:kirkwood";
    // Like the module, the page of statistics stays with the process: there is one page, regardless of how often the module is loaded.
    let engine = has_models().then_some((engine, "on", 1));
    for (section, stats, descriptors) in [(OFFLOADED, "off", 0), (OFFLOADED, "on", 1)].into_iter().chain(engine) {
        let active = lab.configuration(section);
        let inactive = fs::read_to_string(&active).unwrap().replace("gantry.so\nactivate = 1", "gantry.so");
        let passive = lab.write("passive.cnf", inactive);
        let mut command = lab.command(program.to_str().unwrap(), &active);
        command.arg(&active).arg(&passive).arg(lab.path("gantry.so"));
        // Keeps the C library's cache of freed memory out of the count.
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0").env("GANTRY_STATS", stats);
        let output = command.output().unwrap();
        let printed = text(&output);
        let (bytes, rest) = printed.split_once(" bytes a round, ").unwrap_or_else(|| panic!("{printed}"));
        assert_eq!(rest, format!("0 threads, {descriptors} descriptors more\n"));
        // A session alone takes more than 1,024 bytes; OpenSSL 3.0 itself leaks some bytes.
        assert!(bytes.parse::<i64>().unwrap() < 1024, "{printed}");
    }
}

/// Runs under a core that checks the callbacks, and that they are unregistered before their data is freed.
#[test]
fn no_callback_follows_the_teardown() {
    let lab = Lab::new("children");
    let program = lab.compile_with("tests/children.c", &["-lcrypto".into(), "-ldl".into()]);
    // Freed memory is overwritten.
    let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
    let output = command.arg(lab.path("gantry.so")).env("MALLOC_PERTURB_", "165").output().unwrap();
    assert_eq!(text(&output), "as it should\n");
}

#[test]
fn other_providers_come_and_go_while_the_module_does() {
    let lab = Lab::new("loads");
    let program = lab.compile("tests/loads.c");
    let inactive =
        fs::read_to_string(lab.configuration(OFFLOADED)).unwrap().replace("gantry.so\nactivate = 1", "gantry.so");
    let passive = lab.write("passive.cnf", inactive.replace("default_properties", "# default_properties"));
    let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
    let output = command.arg(&passive).env("MALLOC_PERTURB_", "165").output().unwrap();
    assert_eq!(text(&output), "as it should\n");
}

/// Checks that a freed key leaves no more copies on heap and stack than with the default provider. Keys of our own TLS groups leave none.
fn assert_no_key_is_left(lab: &Lab, program: &Path, algorithms: usize, own_groups: usize) {
    let copies_left = |configuration: &Path| {
        // Binds early: lazy binding would spill registers, with their contents, to the stack.
        let printed = text(&Command::new(program).arg(configuration).env("LD_BIND_NOW", "1").output().unwrap());
        let parse_line =
            |line: &str| Some((line.split_once(' ')?.0.to_owned(), line.split_once(' ')?.1.parse::<u32>().ok()?));
        printed.lines().map(|line| parse_line(line).unwrap_or_else(|| panic!("{printed}"))).collect::<Vec<_>>()
    };
    let default = copies_left(Path::new("/dev/null"));
    assert_eq!(default.len(), algorithms, "{default:?}");
    for policy in ["pin:software", "pin:lanes", "pin:host"] {
        let ours = copies_left(&lab.configuration(&OFFLOADED.replace("pin:software", policy)));
        let groups = &ours[default.len()..];
        assert_eq!(groups.len(), own_groups, "{ours:?}");
        assert!(groups.iter().all(|(_, places)| *places == 0), "{policy}: seeds of ML-KEM or secrets in {groups:?}");
        for ((name, places), (_, before)) in ours.iter().zip(&default) {
            assert!(places <= before, "{policy}, {name}: in {places} places, and without gantry in {before}");
        }
    }
}

#[test]
fn a_freed_key_leaves_no_copies_in_memory() {
    let lab = Lab::new("wiped");
    let version = text(&Command::new("openssl").arg("version").output().unwrap());
    let is_before_3_5 =
        ["3.0.", "3.1.", "3.2.", "3.3.", "3.4."].iter().any(|old| version.contains(&format!("OpenSSL {old}")));
    let serves_groups = is_before_3_5 && cfg!(feature = "software");
    assert_no_key_is_left(&lab, &lab.compile("tests/wiped.c"), 10, if serves_groups { 3 } else { 0 });
}

/// Includes pipelines, SLH-DSA and three TLS groups.
#[test]
#[ignore = "long: make test-clients"]
fn a_freed_key_leaves_no_copies_in_memory_with_4_0() {
    let lab = Lab::new("wiped-4.0");
    let program = lab.compile_with("tests/wiped.c", &lab::libcrypto(&lab::openssl("4.0"), true));
    assert_no_key_is_left(&lab, &program, 14, 0);
}

#[test]
fn two_libcryptos_in_one_process_do_not_mix() {
    let lab = Lab::new("twice");
    let program = lab.compile("tests/twice.c");
    // The system's libcrypto and a copy of it, which the loader takes for another library.
    let copy = "first=$(ldd program | sed -n 's/.*libcrypto[^ ]* => \\([^ ]*\\) .*/\\1/p'); cp $first one.so; cp $first other.so";
    assert!(lab.sh(copy, Path::new("/dev/null")).status.success());
    for (section, expected) in [(OFFLOADED, "the same\n"), ("FORCE_FAIL = yes", "failed\n")] {
        let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
        let output = command.arg(lab.configuration(section)).args(["./one.so", "./other.so"]).output().unwrap();
        assert_eq!(text(&output), expected, "{section}");
    }
}
