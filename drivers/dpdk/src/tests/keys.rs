//! Tests that keys leave the memory of the process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use gantry_core::{Algorithm, Gantry, Request, SessionParams};
use gantry_lab::secrets;
use zeroize::Zeroizing;

use super::framework;

/// Variable that marks the child process, which has the key.
const CHILD_MARKER: &str = "GANTRY_TEST_HAS_KEY";

#[test]
#[ignore = "needs DPDK, and the shim of scripts/dpdk"]
fn a_key_is_gone_when_its_session_is_closed() {
    if std::env::var_os(CHILD_MARKER).is_some() {
        return use_key();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::keys::a_key_is_gone_when_its_session_is_closed", "--include-ignored", "--nocapture"])
        .env(CHILD_MARKER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut go_on = child.stdin.take().unwrap();
    let mut copies_when = |state: &str| {
        assert!(lines.any(|line| line == state), "the child ended");
        let copies = secrets::count_copies(child.id(), &secrets::key(32)).unwrap();
        go_on.write_all(b"\n").unwrap();
        copies
    };
    for algorithm in ALGORITHMS {
        assert!(copies_when("open") > 0, "{algorithm}: no copy of the key found while it is used");
        assert_eq!(copies_when("closed"), 0, "{algorithm}");
    }
    assert!(child.wait().unwrap().success());
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Aes256Cbc, Algorithm::Aes256Gcm, Algorithm::HmacSha256];

fn use_key() {
    let gantry = framework(&["crypto_openssl_keys"], 1);
    // The first run makes the objects that exist once in a process.
    run(&gantry, Algorithm::Aes256Cbc, &[1; 32], || ());
    let pause = |state| {
        println!("\n{state}");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    };
    for algorithm in ALGORITHMS {
        run(&gantry, algorithm, &Zeroizing::new(secrets::key(32)), || pause("open"));
        pause("closed");
    }
}

/// Runs a batch on the device, and calls `meanwhile` while its session is open.
fn run(gantry: &Gantry, algorithm: Algorithm, key: &[u8], meanwhile: impl FnOnce()) {
    let session = gantry.session(SessionParams::new(algorithm, key)).unwrap();
    let (mut data, mut tag) = ([7; 64], [0; 32]);
    let mut requests = [match algorithm {
        Algorithm::Aes256Cbc => Request::encrypt(&[3; 16], &mut data[..]),
        Algorithm::Aes256Gcm => Request::seal(&[3; 12], b"header", &mut data[..], &mut tag[..16]),
        _ => Request::mac(&data, &mut tag),
    }];
    session.process(&mut requests).unwrap();
    assert_eq!(requests[0].route().unwrap().device, 0, "{algorithm} did not run on the device");
    meanwhile();
}
