//! OpenSSL's own test of EVP with its own data, for the algorithms that the module serves: `make test-clients`. One of its
//! programs wants a libcrypto.so, the other one has libcrypto in it.

mod lab;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lab::{Lab, TAKEN, text};

/// The data files that are run.
const RUN: [&str; 6] = ["evpciph_aes_", "evpciph_des3", "evpciph_chacha", "evpmac_", "evpmd_", "evppkey_ecx"];

/// Those with something that devices have. The others have what is near to it, or what is made of it.
const LED: [&str; 10] = [
    "evpciph_aes_ccm_cavs.txt",
    "evpciph_aes_common.txt",
    "evpciph_aes_cts.txt",
    "evpciph_chacha.txt",
    "evpciph_des3_common.txt",
    "evpmac_common.txt",
    "evpmac_poly1305.txt",
    "evpmd_md.txt",
    "evpmd_sha.txt",
    "evppkey_ecx.txt",
];

/// Runs all data files with everything led to another device, with what proves faster there, and with everything made to fail.
fn own_test(series: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/evp-test");
    let built = Command::new(script).arg(series).output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let folder = Path::new(std::str::from_utf8(&built.stdout).unwrap().trim());
    let data = folder.join("test/recipes/30-test_evp_data");
    let names = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = names.filter(|name| RUN.iter().any(|start| name.starts_with(start))).collect();
    assert!(LED.iter().all(|name| files.iter().any(|file| file == name)), "{files:?}");

    let lab = Lab::new(&format!("evp-test-{series}"));
    fs::create_dir(lab.path("stats")).unwrap();
    let taken = lab.configuration(&format!("{TAKEN}\nSTATS = {}", lab.path("stats").display()));
    let served = [TAKEN, "CIPHERS = ALL\nDIGESTS = ALL\nMACS = ALL\nSIGNATURES = ALL\nKEY_EXCHANGE = ALL"]
        .map(|section| lab.configuration(section));
    let failed = lab.configuration("FORCE_FAIL = yes");
    for program in ["evp_test", "evp_test-static"] {
        let run = |configuration: &Path, file: &str| -> Output {
            let mut command = lab.command(folder.join("test").join(program).to_str().unwrap(), Path::new("/dev/null"));
            command.env("LD_LIBRARY_PATH", folder).arg("-config").arg(configuration).arg(data.join(file));
            command.output().unwrap()
        };
        for file in &files {
            let what = format!("{program} of {series}, {file}");
            for configuration in [&served[0], &served[1], &taken] {
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
