//! Keys in the memory of the server: they are there while a session is open, and at no other time.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use common::server::Server;
use gantry_abi_virtio_crypto::constants::{cipher, operation};
use gantry_vhost_user::Limits;
use gantry_vhost_user_front::parameters::{Cipher, Parameters};
use gantry_vhost_user_front::request::{By, Operands};
use gantry_vhost_user_front::{Guest, Session, Setup};

/// The front end of each of these.
const SETUPS: [fn() -> Setup; 2] = [Setup::qemu, Setup::generic];
/// How long a request that is under way may hold the keys of its session.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_key_is_gone_when_its_session_is_closed() {
    for setup in SETUPS {
        let server = Server::new(&[Limits::default()]);
        let mut guest = Guest::connect(&server.socket(0), &setup()).unwrap();
        let session = use_key(&mut guest);
        assert!(copies(server.pid()) > 0, "the key is nowhere while it is used");
        guest.close(session).unwrap();
        assert_gone(&server);
    }
}

#[test]
fn a_key_of_a_request_without_a_session_is_gone_with_its_answer() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::generic()).unwrap();
    let key = key();
    let encrypt = Parameters::Cipher(Cipher { algorithm: cipher::AES_CBC, key: &key, encrypt: true });
    let operands = Operands::Cipher { iv: &[0; 16], data: &[0; 64] };
    let reply = guest.ask(operation::CIPHER_ENCRYPT, By::Itself(&encrypt), &operands).unwrap();
    assert_eq!(reply.status(), common::OK);
    assert_gone(&server);
}

/// This process is the front end that is killed, when the variables have the path of a socket and the number of a setup.
const KILLED: &str = "GANTRY_TEST_KEYS";

#[test]
fn a_key_is_gone_when_its_front_end_is_killed() {
    if let Ok(text) = env::var(KILLED) {
        let (setup, path) = text.split_once(' ').unwrap();
        let mut guest = Guest::connect(path.as_ref(), &SETUPS[setup.parse::<usize>().unwrap()]()).unwrap();
        use_key(&mut guest);
        println!("\nrunning");
        loop {
            thread::park();
        }
    }
    for setup in 0..SETUPS.len() {
        let server = Server::new(&[Limits::default()]);
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "a_key_is_gone_when_its_front_end_is_killed"])
            .env(KILLED, format!("{setup} {}", server.socket(0).display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "running"));
        assert!(copies(server.pid()) > 0, "the key is nowhere while it is used");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_gone(&server);
    }
}

/// A key of AES-256, which is a constant of no program.
fn key() -> Vec<u8> {
    let mut state = std::hint::black_box(0x9e37_79b9_u32);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..32).map(|_| next()).collect()
}

/// A session that has encrypted something.
fn use_key(guest: &mut Guest) -> Session {
    let key = key();
    let encrypt = Cipher { algorithm: cipher::AES_CBC, key: &key, encrypt: true };
    let session = guest.open(&Parameters::Cipher(encrypt)).unwrap();
    let operands = Operands::Cipher { iv: &[0; 16], data: &[0; 64] };
    let reply = guest.ask(operation::CIPHER_ENCRYPT, By::Session(session.id), &operands).unwrap();
    assert_eq!(reply.status(), common::OK);
    session
}

fn assert_gone(server: &Server) {
    let begin = Instant::now();
    while copies(server.pid()) > 0 {
        assert!(begin.elapsed() < SOON, "{} copies of the key are left", copies(server.pid()));
        thread::sleep(Duration::from_millis(20));
    }
}

/// How often the key lies in a process's memory. The memory of guests is theirs.
fn copies(pid: u32) -> usize {
    let key = key();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut found = 0;
    for line in fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().lines() {
        let (range, about) = line.split_once(' ').unwrap();
        if !about.starts_with("rw") || about.contains("/memfd:") {
            continue;
        }
        let (begin, end) = range.split_once('-').unwrap();
        let [begin, end] = [begin, end].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; (end - begin) as usize];
        // It may have been unmapped meanwhile.
        if memory.read_exact_at(&mut bytes, begin).is_ok() {
            found += bytes.windows(key.len()).filter(|window| window[0] == key[0] && **window == key[..]).count();
        }
    }
    found
}
