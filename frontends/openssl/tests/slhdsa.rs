//! SLH-DSA with the command and the library of OpenSSL 3.5 and 4.0, which are fetched. `make test-clients`.

mod lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gantry_core::Algorithm;
use lab::{Lab, OFFLOADED, text};

/// One set for each choice of hash functions, and a small one, whose signatures take long.
const SETS: [&str; 4] = ["SLH-DSA-SHA2-128f", "SLH-DSA-SHA2-192f", "SLH-DSA-SHAKE-128f", "SLH-DSA-SHA2-128s"];

/// Returns the `openssl` command of a release.
fn command(series: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/openssl-command");
    let fetched = Command::new(script).arg(series).output().unwrap();
    assert!(fetched.status.success(), "{}", text(&fetched));
    PathBuf::from(std::str::from_utf8(&fetched.stdout).unwrap().trim())
}

/// Each side accepts the keys, messages, certificates and mails of the other; `cms` are the options for signing mails.
fn check_both_directions(series: &str, cms: &str) {
    let lab = Lab::new(&format!("slhdsa-{series}"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slhdsa.sh");
    for section in [OFFLOADED, ""] {
        let ours = lab.configuration(section);
        let mut run = lab.command("sh", &ours);
        run.arg("-eu").arg(&script).args(SETS).env("OPENSSL", command(series)).env("OURS", &ours).env("CMS", cms);
        assert_eq!(text(&run.output().unwrap()), "the same\n", "{series}, {section}");
    }
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn keys_signatures_certificates_and_mails_are_interchangeable_with_4_0() {
    check_both_directions("4.0", "");
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn keys_signatures_certificates_and_mails_are_interchangeable_with_3_5() {
    // 3.5 has to be told the digest of a mail.
    check_both_directions("3.5", "-md sha256");
}

/// Runs the command, and returns the requests of the default provider and of devices: signatures of both, then verifications of both.
fn count_requests(lab: &Lab, configuration: &Path, set: &str, arguments: &[&str]) -> [u64; 4] {
    let openssl = command("4.0");
    let output = lab.command(openssl.to_str().unwrap(), configuration).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    let [default, _, device, _, default_back, _, device_back, _] = lab::counters(lab)[set];
    [default, device, default_back, device_back]
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn a_device_serves_slow_requests_and_all_that_a_policy_pins_to_it() {
    let lab = Lab::new("slhdsa-served");
    lab.collect_statistics();
    lab.write("message", "a message");
    let sign = ["pkeyutl", "-sign", "-inkey", "key.pem", "-rawin", "-in", "message", "-out", "signature"];
    let verify = ["pkeyutl", "-verify", "-inkey", "key.pem", "-rawin", "-in", "message", "-sigfile", "signature"];
    let [empty, offloaded, hardware, pinned_to_default] =
        ["", OFFLOADED, "USE_SOFTDRIVERS = 0", "SIGNATURES = ALL\nPOLICY = pin:host"]
            .map(|section| lab.configuration(section));
    for (set, alone) in [("SLH-DSA-SHA2-128s", [0, 1, 0, 0]), ("SLH-DSA-SHA2-128f", [1, 0, 0, 0])] {
        count_requests(&lab, &empty, set, &["genpkey", "-algorithm", set, "-out", "key.pem"]);
        assert_eq!(count_requests(&lab, &empty, set, &sign), alone, "{set}");
        assert_eq!(
            count_requests(&lab, &empty, set, &verify),
            [0, 0, 1, 0],
            "{set}: the known-answer tests of a device take longer"
        );
        assert_eq!(count_requests(&lab, &offloaded, set, &sign), [0, 1, 0, 0], "{set}");
        assert_eq!(count_requests(&lab, &offloaded, set, &verify), [0, 0, 0, 1], "{set}");
        assert_eq!(count_requests(&lab, &hardware, set, &sign), [1, 0, 0, 0], "{set}: software is not allowed");
        assert_eq!(count_requests(&lab, &pinned_to_default, set, &sign), [1, 0, 0, 0], "{set}");
        let random = [&sign[..], &["-pkeyopt", "message-encoding:0"]].concat();
        assert_eq!(
            count_requests(&lab, &offloaded, set, &random),
            [1, 0, 0, 0],
            "{set}: only the default provider takes messages that are already framed"
        );
    }
}

/// The report for `gantry advise` has no measurements, because signatures take too long.
#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn a_report_names_the_device_without_a_measurement() {
    let lab = Lab::new("slhdsa-report");
    let file = lab.path("measured");
    for (section, serves) in [
        ("", "software\tnot-measured"),
        ("USE_SOFTDRIVERS = 0", "host\tonly-choice"),
        ("SIGNATURES = ALL\nPOLICY = pin:host", "host\tonly-choice"),
        ("SIGNATURES = ALL\nPOLICY = pin:software\nUSE_SOFTDRIVERS = 0", "host\tonly-choice"),
    ] {
        let _ = fs::remove_file(&file);
        let mut list = lab.command(command("3.5").to_str().unwrap(), &lab.configuration(section));
        list.args(["list", "-providers"]).env("GANTRY_OPENSSL_MEASURED", &file);
        let output = list.env("GANTRY_OPENSSL_MEASURE", "SLH-DSA-SHA2-128s").output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let report = fs::read_to_string(&file).unwrap();
        for operation in ["sign", "verify"] {
            assert!(report.contains(&format!("cell\t{operation}\t64\t{serves}\n")), "{section}: {report}");
        }
    }
}

/// NIST's vectors (ACVP), from OpenSSL's own test.
#[test]
#[ignore = "long: make test-clients"]
fn openssl_4_0_passes_its_own_tests_of_slh_dsa() {
    let (folder, lab) = (lab::openssl("4.0"), Lab::new("slhdsa-evp-test"));
    lab.collect_statistics();
    let configuration = lab.configuration(OFFLOADED);
    for (file, made, verified) in [("keygen", false, false), ("siggen", true, false), ("sigver", false, true)] {
        let data = folder.join(format!("test/recipes/30-test_evp_data/evppkey_slh_dsa_{file}.txt"));
        assert!(fs::exists(&data).unwrap());
        let mut command = lab.command(folder.join("test/evp_test").to_str().unwrap(), Path::new("/dev/null"));
        command.env("LD_LIBRARY_PATH", &folder).arg("-config").arg(&configuration).arg(&data);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{file}: {}", text(&output));
        let counters = lab::counters(&lab);
        let all = |index: usize| {
            let sets = Algorithm::ALL.iter().filter(|algorithm| algorithm.is_slh_dsa());
            sets.map(|set| counters[set.name()][index]).sum::<u64>()
        };
        assert_eq!((all(2) > 0, all(6) > 0), (made, verified), "{file}: by a device, {counters:?}");
    }
}
