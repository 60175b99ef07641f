//! Key derivations in programs: OpenSSL's own commands, Python, PKCS #12, threads and children.

mod lab;

use std::path::Path;
use std::process::Command;

use lab::{Lab, everything, is_installed, libcrypto, openssl, text};

/// Key derivations are served, and fail.
const FAILED: &str = "CIPHERS = NONE\nSIGNATURES = NONE\nKEY_EXCHANGE = NONE\nKDFS = ALL\nFORCE_FAIL = yes";

#[test]
fn keys_and_errors_are_those_of_the_default_provider() {
    let lab = Lab::new("kdf");
    let program = lab.compile("tests/kdf.c");
    for policy in ["", "POLICY = pin:host"] {
        let output = Command::new(&program).arg(lab.configuration(&everything(policy))).output().unwrap();
        assert_eq!(text(&output), "the same\n", "{policy}");
    }
}

#[test]
#[ignore = "long: make test-clients"]
fn keys_and_errors_are_those_of_openssl_4() {
    let lab = Lab::new("kdf4");
    let program = lab.compile_with("tests/kdf.c", &libcrypto(&openssl("4.0"), true));
    let output = Command::new(&program).arg(lab.configuration(&everything(""))).output().unwrap();
    assert_eq!(text(&output), "the same\n");
}

#[test]
fn threads_that_derive_at_once_share_lanes_and_get_their_own_keys() {
    let lab = Lab::new("logins");
    let program = lab.compile("tests/logins.c");
    lab.collect_statistics();
    let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
    let output = command.arg(lab.configuration("")).output().unwrap();
    assert_eq!(text(&output), "the same\n");
    // The program has more threads than most machines have CPUs; the child's page comes last.
    let pages = lab.take_statistics().pages;
    let rows: Vec<_> = pages.iter().flat_map(|page| page.read().unwrap().rows).collect();
    let derived = |name: &str| rows.iter().filter(|row| &*row.algorithm == name).map(|row| row.requests).sum::<u64>();
    let (single, shared) = (derived("PBKDF2"), derived("PBKDF2 in shared lanes"));
    assert_eq!(single + shared, 3 * 16 + 1);
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert!(shared > 0 || cpus >= 16, "{single} alone");
}

/// `gantry advise` and `gantry openssl config` use the measurements.
#[test]
fn the_gain_of_lanes_is_measured_on_request() {
    let lab = Lab::new("derived");
    let measured = |only: &str, section: &str| {
        let script = format!(
            "rm -f measured; GANTRY_OPENSSL_MEASURED=$PWD/measured GANTRY_OPENSSL_MEASURE={only} openssl list -providers"
        );
        let output = lab.sh(&script, &lab.configuration(section));
        assert!(output.status.success(), "{}", text(&output));
        std::fs::read_to_string(lab.path("measured")).unwrap()
    };
    let all = measured("PBKDF2", "");
    for hash in ["SHA1", "SHA256", "SHA512"] {
        let row = format!("row\tKDFS\tPBKDF2-{hash}\tPBKDF2\t69\t\tyes\tyes\n");
        let (_, cells) = all.split_once(&row).expect(&all);
        let cells: Vec<&str> = cells.lines().take_while(|line| line.starts_with("cell")).collect();
        assert_eq!(cells.len(), 2, "{all}");
        for (cell, bytes) in cells.into_iter().zip(["32", "128"]) {
            let fields: Vec<&str> = cell.split('\t').collect();
            assert_eq!((fields[1], fields[2], fields[5]), ("derive", bytes, "lanes"), "{cell}");
            let [default, lanes] = [6, 7].map(|index: usize| fields[index].parse::<f64>().unwrap());
            assert!(default > 10_000.0 && lanes > 10_000.0, "a thousand iterations take longer: {cell}");
        }
    }
    // Nothing is measured unless a command asks for it, or without lanes.
    assert!(!measured("AES-128-GCM", "").contains("derive\t32"));
    assert!(!measured("PBKDF2", "DEVICES = lanes=off").contains("derive\t32"));
}

#[test]
fn openssl_and_python_derive_the_keys_of_the_default_provider() {
    let lab = Lab::new("commands");
    let (with, failed, none) = (lab.configuration(""), lab.configuration(FAILED), Path::new("/dev/null").to_owned());
    lab.write("plain", "contents of the file");
    let kdf = "openssl kdf -keylen 48 -kdfopt digest:SHA256 -kdfopt pass:password -kdfopt salt:salt -kdfopt iter:5000";
    for command in [
        format!("{kdf} PBKDF2"),
        // Fails the checks of SP 800-132.
        format!("{kdf} -kdfopt pkcs5:0 PBKDF2 2>&1 || true"),
        "openssl kdf -keylen 42 -kdfopt digest:SHA384 -kdfopt key:secret -kdfopt salt:s -kdfopt info:i HKDF".to_owned(),
        "openssl kdf -keylen 10 -kdfopt digest:SHA999 -kdfopt pass:p -kdfopt salt:s PBKDF2 >/dev/null 2>&1 || echo no"
            .to_owned(),
        "openssl enc -aes-256-cbc -pbkdf2 -iter 20000 -pass pass:x -S 0011223344556677 -in plain | openssl base64"
            .to_owned(),
    ] {
        // Removes addresses and places in OpenSSL's own code.
        let printed = |configuration| {
            let output = text(&lab.sh(&command, configuration));
            output
                .lines()
                .map(|line| line.split_once(":error:").map_or(line, |(_, rest)| rest).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(printed(&with), printed(&none), "{command}");
    }
    assert!(!lab.sh(&format!("{kdf} PBKDF2"), &failed).status.success());
    if is_installed("python3") {
        let derive = "import hashlib; print(hashlib.pbkdf2_hmac('sha256', b'password', b'salt', 100000, 100).hex())";
        let python =
            |configuration: &Path| lab.command("python3", configuration).args(["-c", derive]).output().unwrap();
        assert_eq!(text(&python(&with)), text(&python(&none)));
        assert!(!python(&failed).status.success(), "the module was not used");
    }
}

#[test]
fn a_pkcs12_file_made_on_one_side_opens_on_the_other() {
    let lab = Lab::new("pkcs12");
    lab.certificate("ec -pkeyopt ec_paramgen_curve:prime256v1");
    let (with, failed, none) = (lab.configuration(""), lab.configuration(FAILED), Path::new("/dev/null").to_owned());
    let make = "openssl pkcs12 -export -inkey key.pem -in cert.pem -out file.p12 -passout pass:x -iter 50000";
    let open = "openssl pkcs12 -in file.p12 -passin pass:x -nodes | openssl ec 2>/dev/null >got; openssl ec -in key.pem 2>/dev/null | cmp - got";
    for (one, other) in [(&none, &with), (&with, &none)] {
        for (script, configuration) in [(make, one), (open, other)] {
            let output = lab.sh(script, configuration);
            assert!(output.status.success(), "{script}: {}", text(&output));
        }
    }
    assert!(!lab.sh("openssl pkcs12 -in file.p12 -passin pass:x -nodes", &failed).status.success());
}

/// Takes OpenSSL 3.0 about a minute.
#[test]
#[ignore = "long: make test-clients"]
fn ten_million_iterations_give_the_key_of_the_default_provider() {
    let lab = Lab::new("long");
    let command = "openssl kdf -keylen 20 -kdfopt digest:SHA1 -kdfopt pass:password -kdfopt salt:salt -kdfopt iter:10000000 PBKDF2";
    let [with, without] =
        [lab.configuration(""), Path::new("/dev/null").to_owned()].map(|side| text(&lab.sh(command, &side)));
    assert_eq!(with, without);
}
