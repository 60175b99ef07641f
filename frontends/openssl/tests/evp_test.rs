//! OpenSSL's own test of EVP with its own data, and our random calls, with the libcrypto of other releases than this machine's:
//! once as a libcrypto.so, once with libcrypto in the program, and in valgrind; and what only they have. `make test-clients`.

mod lab;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lab::{EVERYTHING, Lab, TAKEN, text};

/// Data files with nothing that is served, which take long; those of SLH-DSA have a test of their own (`slhdsa.rs`).
const NOTHING_HERE: [&str; 3] = ["evppkey_ml_", "evppkey_slh_", "evppkey_lms_"];

/// The data files of what is near to devices.
const NEAR: [&str; 4] = ["evpciph_aes_", "evpciph_des3", "evpciph_chacha", "evppkey_ec"];

/// Those with something that devices have.
const LED: [&str; 5] = [
    "evpciph_aes_common.txt",
    "evpciph_aes_cts.txt",
    "evpciph_chacha.txt",
    "evpciph_des3_common.txt",
    "evppkey_ecx.txt",
];

/// Where a source of OpenSSL has the data.
const DATA: &str = "test/recipes/30-test_evp_data";

/// A run of OpenSSL's own test over one of its data files.
fn evp_test(command: &mut Command, folder: &Path, program: &str, configuration: &Path, file: &str) -> Output {
    // A wrapper has it as its argument.
    command.env("LD_LIBRARY_PATH", folder).arg(folder.join("test").join(program));
    command.arg("-config").arg(configuration).arg(folder.join(DATA).join(file)).output().unwrap()
}

/// Runs the data files with everything led to another device, with what proves faster there, and with everything made to fail.
fn own_test(series: &str) {
    let folder = lab::openssl(series);
    let names = fs::read_dir(folder.join(DATA)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = names.filter(|name| !NOTHING_HERE.iter().any(|start| name.starts_with(start))).collect();
    assert!(LED.iter().all(|name| files.iter().any(|file| file == name)), "{files:?}");

    let lab = Lab::new(&format!("evp-test-{series}"));
    lab.watch();
    let taken = lab.configuration(TAKEN);
    let served = [TAKEN, EVERYTHING].map(|section| lab.configuration(section));
    let failed = lab.configuration("FORCE_FAIL = yes");
    for program in ["evp_test", "evp_test-static"] {
        let run = |configuration: &Path, file: &str| {
            evp_test(&mut lab.command("env", Path::new("/dev/null")), &folder, program, configuration, file)
        };
        for file in &files {
            let what = format!("{program} of {series}, {file}");
            let is_near = NEAR.iter().any(|start| file.starts_with(start));
            for configuration in served.iter().filter(|_| is_near).chain([&taken]) {
                let output = run(configuration, file);
                assert!(output.status.success(), "{what}: {}", text(&output));
            }
            let counted = lab::counted(&lab);
            if LED.contains(&file.as_str()) {
                let devices = |[_, _, there, _, _, _, back, _]: &[u64; 8]| there + back;
                assert_ne!(counted.values().map(devices).sum::<u64>(), 0, "{what}: no device");
                assert!(!run(&failed, file).status.success(), "{what}: not used");
            }
        }
    }
}

/// A CPU without MOVBE: valgrind takes what OpenSSL's fastest AES-GCM makes for memory that was never written, without gantry, too.
const NO_MOVBE: &str = "~0x40000000000000";

/// Random calls give what the default provider gives.
fn same_as_the_default(series: &str) {
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

/// Valgrind sees no use of memory that is not there or was never written, and nothing that was lost.
fn clean(series: &str) {
    let (folder, lab) = (lab::openssl(series), Lab::new(&format!("clean-{series}")));
    let taken = lab.configuration(TAKEN);
    let valgrind = || {
        let mut command = lab.command("valgrind", Path::new("/dev/null"));
        command.args(["-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=9"]);
        command.env("OPENSSL_ia32cap", NO_MOVBE);
        command
    };
    for file in LED {
        let output = evp_test(&mut valgrind(), &folder, "evp_test", &taken, file);
        assert!(output.status.success(), "{series}, {file}: {}", text(&output));
    }
    let program = lab.compile_with("tests/differential.c", &lab::libcrypto(&folder, true));
    let output = valgrind().arg(&program).arg(&taken).arg("5").output().unwrap();
    assert_eq!(text(&output), "the same\n", "{series}");
}

#[test]
#[ignore = "long: make test-clients"]
fn openssl_3_0_passes_its_own_test() {
    own_test("3.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn openssl_4_0_passes_its_own_test() {
    own_test("4.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn random_calls_of_3_0_give_what_the_default_provider_gives() {
    same_as_the_default("3.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn random_calls_of_4_0_give_what_the_default_provider_gives() {
    same_as_the_default("4.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn valgrind_finds_nothing_with_3_0() {
    clean("3.0");
}

#[test]
#[ignore = "long: make test-clients"]
fn valgrind_finds_nothing_with_4_0() {
    clean("4.0");
}

/// OpenSSL 4.0 tears nothing down when a program ends: whatever way it ends, with contexts left as they were and a thread still at work,
/// it does so quietly, everything works to the last, and what was done is written down.
#[test]
#[ignore = "long: make test-clients"]
fn programs_of_4_0_end_without_a_teardown() {
    let lab = Lab::new("exits");
    lab.watch();
    for shared in [true, false] {
        let program = lab.compile_with("tests/exits.c", &lab::libcrypto(&lab::openssl("4.0"), shared));
        for (way, said) in [("return", "still there\n"), ("exit", "still there\n"), ("_exit", "")] {
            for section in [TAKEN, EVERYTHING] {
                let configuration = lab.configuration(section);
                let output = lab.command(program.to_str().unwrap(), &configuration).arg(way).output().unwrap();
                assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), said), "{way}, {section}");
                let counted = lab::counted(&lab);
                let messages = |name: &str| counted[name].iter().step_by(2).sum::<u64>();
                // Two threads at least.
                assert!(messages("AES-128-GCM") >= 2, "{way}, {section}");
            }
            let mut checked = lab.command("valgrind", &lab.configuration(TAKEN));
            checked.args(["-q", "--leak-check=no", "--error-exitcode=9"]).env("OPENSSL_ia32cap", NO_MOVBE);
            let output = checked.arg(&program).arg(way).output().unwrap();
            assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), said), "{way}, in valgrind");
        }
    }
}

/// A program may link one release, and have another come with a library that it loads.
#[test]
#[ignore = "long: make test-clients"]
fn libcryptos_of_two_releases_in_one_process_do_not_mix() {
    let lab = Lab::new("releases");
    let program = lab.compile("tests/twice.c");
    let [old, new] = ["3.0", "4.0"].map(|series| lab::openssl(series).join("libcrypto.so"));
    for (section, expected) in [(TAKEN, "the same\n"), ("FORCE_FAIL = yes", "failed\n")] {
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
fn pipelines_are_what_one_message_at_a_time_is() {
    let lab = Lab::new("pipelines");
    lab.watch();
    let program = lab.compile_with("tests/pipelines.c", &lab::libcrypto(&lab::openssl("4.0"), true));
    for (section, expected, led) in [
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
        let [_, _, there, ..] = lab::counted(&lab)["AES-128-CBC"];
        assert!(led.is_none_or(|led| (there > 0) == led), "{section}: {there} on devices");
    }
    if !lab::has_models() {
        return;
    }
    // Requests of a batch that an engine fails to do, loses, or never answers, are done elsewhere; no pipe notices.
    fs::create_dir(lab.path("gantry")).unwrap();
    let engine = lab.configuration("CIPHERS = ALL\nDEVICES = model:faulty=on\nPOLICY = pin:model:faulty");
    for (faults, expected) in [
        ("errors=1/3", "the same\n"),
        ("gone=200", "the same\n"),
        ("after=100,stalls=1/1", "the same\n"),
        ("full=1/2,late=1/2", "the same\n"),
        // It is really in it.
        ("after=100,wrong=1/1", "different\n"),
    ] {
        let model = "faulty = \"like=faulty,aes-128-cbc=2000+4000\"";
        lab.write("gantry/gantry.toml", format!("faults = \"{faults}\"\n[models]\n{model}\n"));
        let output = Command::new(&program).arg(&engine).env("XDG_CONFIG_HOME", &lab.folder).output().unwrap();
        assert_eq!(text(&output), expected, "{faults}");
    }
}
