//! Keys in the memory of the server: they are there while a session is open, and at no other time.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use common::server::Server;
use gantry_abi_virtio_crypto::constants::{cipher, operation};
use gantry_lab::secrets;
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

/// A key of AES-256.
fn key() -> Vec<u8> {
    secrets::key(32)
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

/// How often the key lies in a process's memory.
fn copies(pid: u32) -> usize {
    secrets::copies(pid, &key()).unwrap()
}
