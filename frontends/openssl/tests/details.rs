//! Details that OpenSSL's own tests check in addition to results: errors left on the stack, refusals, random number generators, and keys
//! of every curve.

mod lab;

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::{EVERYTHING, Lab, everything, text};

#[test]
fn a_call_that_succeeds_leaves_no_error() {
    let lab = Lab::new("errors");
    let program = lab.compile("tests/errors.c");
    for policy in ["", "POLICY = pin:software", "POLICY = pin:host", "USE_SOFTDRIVERS = 0"] {
        let output = Command::new(&program).arg(lab.configuration(&everything(policy))).output().unwrap();
        assert_eq!(text(&output), "no errors\n", "{policy}");
    }
}

#[test]
fn the_first_connection_of_a_process_works() {
    let lab = Lab::new("first");
    lab.certificate("ec -pkeyopt ec_paramgen_curve:prime256v1");
    let program = lab.compile_with("tests/first.c", &["-lssl".into(), "-lcrypto".into()]);
    let configuration = lab.configuration(EVERYTHING);
    for suite in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
        let output = command.arg(&configuration).arg(suite).output().unwrap();
        assert_eq!(text(&output), format!("{suite}\n"));
    }
}

/// Changing the nonce length discards the nonce, because of CVE-2023-5363.
#[test]
fn a_message_cannot_continue_after_its_nonce_length_changed() {
    let lab = Lab::new("lengths");
    let program = lab.compile("tests/lengths.c");
    for policy in ["POLICY = pin:software", "POLICY = pin:lanes", "POLICY = pin:host", ""] {
        let mut command = Command::new(&program);
        command.arg(lab.configuration(&everything(policy)));
        command.args(["AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "ChaCha20-Poly1305"]);
        assert_eq!(text(&command.output().unwrap()), "compared\n", "{policy}");
    }
}

/// In OpenSSL 3.0 to 3.4, random numbers come from AES-CTR, which the default properties would otherwise take from gantry.
#[test]
fn random_numbers_come_from_the_generator_in_the_configuration_and_never_from_gantry() {
    let lab = Lab::new("random");
    lab.collect_statistics();
    let configuration = lab.configuration(&everything("POLICY = pin:software"));
    let default_first = fs::read_to_string(&configuration).unwrap();
    let gantry_first = default_first.replace(
        "default = default_provider\ngantry = gantry_provider",
        "gantry = gantry_provider\ndefault = default_provider",
    );
    assert_ne!(default_first, gantry_first);
    for text_of in [&default_first, &gantry_first] {
        let configuration = lab.write("random.cnf", text_of);
        let output = lab.sh("openssl rand -hex 4096", &configuration);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(lab::counters(&lab)["AES-256-CTR"], [0; 8]);
    }
    let program = lab.compile("tests/random.c");
    let named = lab.write("random.cnf", default_first.replace("[random]\n", "[random]\nrandom = FAKE\n"));
    assert_eq!(text(&Command::new(program).arg(named).output().unwrap()), "its own\n");
}
