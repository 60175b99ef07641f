//! OpenSSL's own EVP test with its own data, and our random calls, with other releases than this machine's. They run with libcrypto.so,
//! with libcrypto in the program, and in valgrind. Tests of features that only these releases have are here, too. `make test-clients`.

mod lab;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lab::{EVERYTHING, Lab, OFFLOADED, text};

/// The beginnings of the names of slow data files without any served algorithm. The files of SLH-DSA have their own test (`slhdsa.rs`).
const SKIPPED_FILES: [&str; 3] = ["evppkey_ml_", "evppkey_slh_", "evppkey_lms_"];

/// The beginnings of the names of data files whose algorithms devices may serve.
const MAYBE_SERVED_FILES: [&str; 4] = ["evpciph_aes_", "evpciph_des3", "evpciph_chacha", "evppkey_ec"];

/// Data files with algorithms that devices serve.
const SERVED_FILES: [&str; 5] = [
    "evpciph_aes_common.txt",
    "evpciph_aes_cts.txt",
    "evpciph_chacha.txt",
    "evpciph_des3_common.txt",
    "evppkey_ecx.txt",
];

/// The place of the data in OpenSSL's source.
const DATA: &str = "test/recipes/30-test_evp_data";

/// Runs OpenSSL's own test on one of its data files.
fn evp_test(command: &mut Command, folder: &Path, program: &str, configuration: &Path, file: &str) -> Output {
    // `command` may be a wrapper, which takes the program as its argument.
    command.env("LD_LIBRARY_PATH", folder).arg(folder.join("test").join(program));
    command.arg("-config").arg(configuration).arg(folder.join(DATA).join(file)).output().unwrap()
}

/// Runs the data files three times: everything on another device, each request on the faster side, everything made to fail.
fn run_own_test(series: &str) {
    let folder = lab::openssl(series);
    let names = fs::read_dir(folder.join(DATA)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = names.filter(|name| !SKIPPED_FILES.iter().any(|start| name.starts_with(start))).collect();
    assert!(SERVED_FILES.iter().all(|name| files.iter().any(|file| file == name)), "{files:?}");

    let lab = Lab::new(&format!("evp-test-{series}"));
    lab.collect_statistics();
    let offloaded = lab.configuration(OFFLOADED);
    let served = [OFFLOADED, EVERYTHING].map(|section| lab.configuration(section));
    let failed = lab.configuration("FORCE_FAIL = yes");
    for program in ["evp_test", "evp_test-static"] {
        let run = |configuration: &Path, file: &str| {
            evp_test(&mut lab.command("env", Path::new("/dev/null")), &folder, program, configuration, file)
        };
        for file in &files {
            let case = format!("{program} of {series}, {file}");
            let may_be_served = MAYBE_SERVED_FILES.iter().any(|start| file.starts_with(start));
            for configuration in served.iter().filter(|_| may_be_served).chain([&offloaded]) {
                let output = run(configuration, file);
                assert!(output.status.success(), "{case}: {}", text(&output));
            }
            let counters = lab::counters(&lab);
            if SERVED_FILES.contains(&file.as_str()) {
                let devices = |[_, _, encrypted, _, _, _, decrypted, _]: &[u64; 8]| encrypted + decrypted;
                assert_ne!(counters.values().map(devices).sum::<u64>(), 0, "{case}: no device");
                assert!(!run(&failed, file).status.success(), "{case}: not used");
            }
        }
    }
}

/// Hides MOVBE from OpenSSL. With it, valgrind reports uninitialised memory in the fastest AES-GCM, without gantry too.
const NO_MOVBE: &str = "~0x40000000000000";

/// Compares random calls with the default provider.
fn compare_with_the_default(series: &str) {
    let lab = Lab::new(&format!("random-{series}"));
    for shared in [true, false] {
        let program = lab.compile_with("tests/differential.c", &lab::libcrypto(&lab::openssl(series), shared));
        for policy in ["", "POLICY = pin:software", "POLICY = pin:lanes", "POLICY = pin:host"] {
            let configuration = lab.configuration(&format!("{EVERYTHING}\n{policy}"));
            for seed in ["3", "4"] {
                let output = Command::new(&program).arg(&configuration).arg(seed).output().unwrap();
                assert_eq!(text(&output), "the same\n", "{series}, shared: {shared}, {policy}, seed {seed}");
            }
        }
    }
}

/// Runs valgrind, which must report no invalid or uninitialised memory and no leak.
fn check_with_valgrind(series: &str) {
    let (folder, lab) = (lab::openssl(series), Lab::new(&format!("clean-{series}")));
    let offloaded = lab.configuration(OFFLOADED);
    let valgrind = || {
        let mut command = lab.command("valgrind", Path::new("/dev/null"));
        command.args(["-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=9"]);
        command.env("OPENSSL_ia32cap", NO_MOVBE);
        command
    };
    for file in SERVED_FILES {
        let output = evp_test(&mut valgrind(), &folder, "evp_test", &offloaded, file);
        assert!(output.status.success(), "{series}, {file}: {}", text(&output));
    }
    let program = lab.compile_with("tests/differential.c", &lab::libcrypto(&folder, true));
    let output = valgrind().arg(&program).arg(&offloaded).arg("5").output().unwrap();
    assert_eq!(text(&output), "the same\n", "{series}");
}

#[test]
#[ignore = "long: make test-clients"]
fn openssl_3_0_passes_its_own_test() {
    run_own_test("3.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn openssl_4_0_passes_its_own_test() {
    run_own_test("4.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn random_calls_of_3_0_match_the_default_provider() {
    compare_with_the_default("3.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn random_calls_of_4_0_match_the_default_provider() {
    compare_with_the_default("4.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn valgrind_finds_no_error_with_3_0() {
    check_with_valgrind("3.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn valgrind_finds_no_error_with_4_0() {
    check_with_valgrind("4.0");
}

/// OpenSSL 4.0 has no teardown at the end of a program. However the program ends, with live contexts and a thread at work, it is
/// quiet, everything works to the last moment, and the statistics are written.
#[test]
#[ignore = "long: make test-clients"]
fn programs_of_4_0_end_without_a_teardown() {
    let lab = Lab::new("exits");
    lab.collect_statistics();
    for shared in [true, false] {
        let program = lab.compile_with("tests/exits.c", &lab::libcrypto(&lab::openssl("4.0"), shared));
        for (ending, printed) in [("return", "still there\n"), ("exit", "still there\n"), ("_exit", "")] {
            for section in [OFFLOADED, EVERYTHING] {
                let configuration = lab.configuration(section);
                let output = lab.command(program.to_str().unwrap(), &configuration).arg(ending).output().unwrap();
                assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), printed), "{ending}, {section}");
                let counters = lab::counters(&lab);
                let messages = |name: &str| counters[name].iter().step_by(2).sum::<u64>();
                // At least two threads.
                assert!(messages("AES-128-GCM") >= 2, "{ending}, {section}");
            }
            let mut checked = lab.command("valgrind", &lab.configuration(OFFLOADED));
            checked.args(["-q", "--leak-check=no", "--error-exitcode=9"]).env("OPENSSL_ia32cap", NO_MOVBE);
            let output = checked.arg(&program).arg(ending).output().unwrap();
            assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), printed), "{ending}, in valgrind");
        }
    }
}

/// A program may link one release, and load a library that brings another.
#[test]
#[ignore = "long: make test-clients"]
fn libcryptos_of_two_releases_in_one_process_do_not_mix() {
    let lab = Lab::new("releases");
    let program = lab.compile("tests/twice.c");
    let [old, new] = ["3.0", "4.0"].map(|series| lab::openssl(series).join("libcrypto.so"));
    for (section, expected) in [(OFFLOADED, "the same\n"), ("FORCE_FAIL = yes", "failed\n")] {
        let configuration = lab.configuration(section);
        for libraries in [[&old, &new], [&new, &old]] {
            let output = Command::new(&program).arg(&configuration).args(libraries).output().unwrap();
            assert_eq!(text(&output), expected, "{section}, {libraries:?}");
        }
    }
}

/// Pipelines came with 3.5.
#[test]
#[ignore = "long: make test-clients"]
fn pipelines_give_the_results_of_single_messages() {
    let lab = Lab::new("pipelines");
    lab.collect_statistics();
    let program = lab.compile_with("tests/pipelines.c", &lab::libcrypto(&lab::openssl("4.0"), true));
    for (section, expected, on_devices) in [
        ("", "the same\n", None),
        ("POLICY = pin:lanes", "the same\n", Some(true)),
        ("POLICY = pin:software", "the same\n", Some(true)),
        ("POLICY = pin:host", "the same\n", Some(false)),
        ("USE_SOFTDRIVERS = 0", "the same\n", Some(false)),
        ("FORCE_FAIL = yes", "failed\n", None),
    ] {
        let configuration = lab.configuration(&format!("CIPHERS = ALL\n{section}"));
        let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
        let output = command.arg(configuration).output().unwrap();
        assert_eq!(text(&output), expected, "{section}");
        let [_, _, encrypted, ..] = lab::counters(&lab)["AES-128-CBC"];
        assert!(on_devices.is_none_or(|on_devices| (encrypted > 0) == on_devices), "{section}: {encrypted} on devices");
    }
    if !lab::has_models() {
        return;
    }
    // Requests of a batch that an engine fails, loses or never answers run elsewhere, and every pipe gets its result.
    fs::create_dir(lab.path("gantry")).unwrap();
    let engine = lab.configuration("CIPHERS = ALL\nDEVICES = model:faulty=on\nPOLICY = pin:model:faulty");
    for (faults, expected) in [
        ("errors=1/3", "the same\n"),
        ("gone=200", "the same\n"),
        ("after=100,stalls=1/1", "the same\n"),
        ("full=1/2,late=1/2", "the same\n"),
        // Proves that the engine is used.
        ("after=100,wrong=1/1", "different\n"),
    ] {
        let model = "faulty = \"like=faulty,aes-128-cbc=2000+4000\"";
        lab.write("gantry/gantry.toml", format!("faults = \"{faults}\"\n[models]\n{model}\n"));
        let output = Command::new(&program).arg(&engine).env("XDG_CONFIG_HOME", &lab.folder).output().unwrap();
        assert_eq!(text(&output), expected, "{faults}");
    }
}
