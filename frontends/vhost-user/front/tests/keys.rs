//! Keys in the memory of the server: they exist only while a session is open.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::{env, thread};

use common::server::Server;
use gantry_abi_virtio_crypto::constants::{cipher, operation};
use gantry_lab::{secrets, wait_until};
use gantry_vhost_user::Limits;
use gantry_vhost_user_front::parameters::{Cipher, Parameters};
use gantry_vhost_user_front::request::{Operands, ParameterSource};
use gantry_vhost_user_front::{Guest, Session, Setup};

/// The setup of each kind of front end.
const SETUPS: [fn() -> Setup; 2] = [Setup::qemu, Setup::generic];

#[test]
fn a_key_is_wiped_when_its_session_is_closed() {
    for setup in SETUPS {
        let server = Server::new(&[Limits::default()]);
        let mut guest = Guest::connect(&server.socket(0), &setup()).unwrap();
        let session = use_key(&mut guest);
        assert!(key_copies(server.pid()) > 0, "the key is not in memory while it is used");
        guest.close(session).unwrap();
        assert_key_is_gone(&server);
    }
}

#[test]
fn a_key_of_a_request_without_a_session_is_wiped_with_its_answer() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::generic()).unwrap();
    let key = key();
    let encrypt = Parameters::Cipher(Cipher { algorithm: cipher::AES_CBC, key: &key, encrypt: true });
    let operands = Operands::Cipher { iv: &[0; 16], data: &[0; 64] };
    let reply = guest.run_operation(operation::CIPHER_ENCRYPT, ParameterSource::Inline(&encrypt), &operands).unwrap();
    assert_eq!(reply.status(), common::OK);
    assert_key_is_gone(&server);
}

/// If the variable has the index of a setup and the path of a socket, this process is the front end that is killed.
const KILLED_VARIABLE: &str = "GANTRY_TEST_KEYS";

#[test]
fn a_key_is_gone_when_its_front_end_is_killed() {
    if let Ok(text) = env::var(KILLED_VARIABLE) {
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
            .env(KILLED_VARIABLE, format!("{setup} {}", server.socket(0).display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "running"));
        assert!(key_copies(server.pid()) > 0, "the key is not in memory while it is used");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_key_is_gone(&server);
    }
}

/// Returns a key of AES-256.
fn key() -> Vec<u8> {
    secrets::key(32)
}

/// Opens a session, and encrypts with it.
fn use_key(guest: &mut Guest) -> Session {
    let key = key();
    let encrypt = Cipher { algorithm: cipher::AES_CBC, key: &key, encrypt: true };
    let session = guest.open(&Parameters::Cipher(encrypt)).unwrap();
    let operands = Operands::Cipher { iv: &[0; 16], data: &[0; 64] };
    let reply =
        guest.run_operation(operation::CIPHER_ENCRYPT, ParameterSource::Session(session.id), &operands).unwrap();
    assert_eq!(reply.status(), common::OK);
    session
}

fn assert_key_is_gone(server: &Server) {
    wait_until("no copy of the key is left", || key_copies(server.pid()) == 0);
}

/// Counts the copies of the key in a process' memory.
fn key_copies(pid: u32) -> usize {
    secrets::count_copies(pid, &key()).unwrap()
}
