//! `gantry serve` with everybody at once: programs over /dev/crypto, guests, and one that means harm.

mod gantry;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ::gantry_core::{Algorithm, Gantry, SessionParams};
use gantry::{Folder, command, stdout};
use gantry_abi_virtio_crypto::constants::{cipher, operation};
use gantry_runtime::Config;
use gantry_vhost_user_front::load::Load;
use gantry_vhost_user_front::parameters::{Cipher, Layout, Parameters};
use gantry_vhost_user_front::request::{By, Operands, Request};
use gantry_vhost_user_front::{Guest, Setup};
use serde_json::Value;

const KEY: [u8; 16] = [9; 16];
const IV: [u8; 16] = [4; 16];
/// Requests that a guest has in flight, and how often each of those who mean well has its requests answered.
const IN_FLIGHT: usize = 8;
const ROUNDS: usize = 40;

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "300"]
    fn a_program_and_two_guests_share_batches_and_a_hostile_guest_harms_none_of_them() {
        let folder = Folder::new("serve-all");
        let mut server = Server::new(&folder, &["--devcrypto"]);
        while !Path::new("/dev/crypto").exists() {
            assert!(server.child.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(5));
        }
        let peace = everybody(&folder);
        // Nobody but the two has requests in flight there, and each of them has eight.
        for name in ["vm1", "vm2"] {
            let [requests, company] = ["requests", "company"].map(|number| server.number(name, number));
            assert!(company > IN_FLIGHT as u64 * requests, "{name}: {company} for {requests}");
        }
        let stop = AtomicBool::new(false);
        let war = thread::scope(|scope| {
            let _peace = AtTheEnd(&stop);
            scope.spawn(|| mean_harm(&socket(&folder, "vm3"), &stop));
            everybody(&folder)
        });
        for name in ["vm1", "vm2"] {
            let of = |number| server.number(name, number);
            assert_eq!([of("connections"), of("requests"), of("refused"), of("broken")], [2, (peace + war) / 3, 0, 0], "{name}");
        }
        assert!(server.number("vm3", "refused") > 0 && server.number("vm3", "broken") > 0);
        // Those of the program are in no row but the devices'.
        let requests = server.requests(Algorithm::Aes128Cbc);
        assert!(requests >= peace + war, "{requests} of {peace} and {war}");
        assert!(server.child.try_wait().unwrap().is_none());
    }
}

/// The suite, through the guest's kernel and its driver, in two guests at once.
#[test]
#[ignore = "in a guest: make lab"]
fn the_kernels_of_two_guests_conform_beside_a_hostile_guest() {
    let folder = Folder::new("serve-linux");
    let server = Server::new(&folder, &[]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _peace = AtTheEnd(&stop);
        scope.spawn(|| mean_harm(&socket(&folder, "vm3"), &stop));
        let guests = ["vm1", "vm2"].map(|name| boot(&socket(&folder, name)));
        for output in guests.map(|guest| guest.wait_with_output().unwrap()) {
            let [text, errors] =
                [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            assert!(
                output.status.success() && text.contains("afalg:virtio_crypto"),
                "{}\n{text}\n{errors}",
                output.status
            );
        }
    });
    for name in ["vm1", "vm2"] {
        let of = |number| server.number(name, number);
        assert_eq!([of("connections"), of("refused"), of("broken")], [1, 0, 0], "{name}");
        assert!(of("requests") > 100, "{name}: {}", of("requests"));
    }
    assert!(server.number("vm3", "refused") > 0 && server.number("vm3", "broken") > 0);
}

/// Sets it when it is dropped, be it by a panic: whoever waits for it ends.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// `gantry serve` with three guests, whose names are `vm1` to `vm3`.
struct Server {
    child: Child,
}

impl Server {
    fn new(folder: &Folder, more: &[&str]) -> Self {
        let mut server = command(&["serve"]);
        server.args(more).env("GANTRY_STATS", "on").stderr(Stdio::piped());
        for name in ["vm1", "vm2", "vm3"] {
            server.arg("--vhost-user").arg(socket(folder, name));
        }
        let mut child = server.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // The last line when everything is there.
        assert!(lines.any(|line| line.unwrap().contains("serving vm3")), "the server did not start");
        Self { child }
    }

    /// What `gantry stat` says of it.
    fn stat(&self) -> Value {
        serde_json::from_str(&stdout(&["stat", &self.child.id().to_string(), "--json"])).unwrap()
    }

    /// A number of a guest.
    fn number(&self, guest: &str, name: &str) -> u64 {
        let report = self.stat();
        let guests = report["guests"].as_array().unwrap();
        let row = guests.iter().find(|row| row["name"] == guest).unwrap();
        row["numbers"][name].as_u64().unwrap()
    }

    /// Requests of an algorithm that any device had.
    fn requests(&self, algorithm: Algorithm) -> u64 {
        let report = self.stat();
        let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["algorithm"] == algorithm.name());
        rows.map(|row| row["requests"].as_u64().unwrap()).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program over /dev/crypto and two guests at once, each until its requests have had the right answers. Returns how many requests that
/// were.
fn everybody(folder: &Folder) -> u64 {
    thread::scope(|scope| {
        let guests = ["vm1", "vm2"].map(|name| scope.spawn(move || encrypt_as_guest(&socket(folder, name))));
        let program = scope.spawn(encrypt_as_program);
        let guests = guests.into_iter().map(|guest| guest.join().unwrap()).sum::<u64>();
        guests + program.join().unwrap()
    })
}

fn socket(folder: &Folder, guest: &str) -> PathBuf {
    folder.path().join(format!("{guest}.sock"))
}

/// Data of a request, and what they are encrypted.
fn known(reference: &::gantry_core::Session, round: usize, at: usize) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..64 * (1 + at)).map(|byte| (byte * 7 + round + at) as u8).collect();
    let mut sealed = data.clone();
    reference.encrypt(&IV, &mut sealed[..]).unwrap();
    (data, sealed)
}

/// A session in this process, by the devices of a configuration.
fn session(settings: &[(&str, &str)]) -> ::gantry_core::Session {
    let mut config = Config::default();
    for (key, value) in settings {
        config.set(key, value, "the test").unwrap();
    }
    let gantry: Gantry = gantry_runtime::open(config).unwrap();
    gantry.session(SessionParams::new(Algorithm::Aes128Cbc, &KEY)).unwrap()
}

/// A program that has one request at a time.
fn encrypt_as_program() -> u64 {
    let reference = session(&[]);
    let served = session(&[("devices.devcrypto", "on"), ("policy", "pin:devcrypto:cpu")]);
    for round in 0..ROUNDS {
        for at in 0..IN_FLIGHT {
            let (data, sealed) = known(&reference, round, at);
            // Not in place: what a server fails in the middle could be done nowhere else.
            let mut found = vec![0; data.len()];
            served.encrypt(&IV, (&data[..], &mut found[..])).unwrap();
            assert!(found == sealed, "round {round}, {} bytes", data.len());
        }
    }
    (ROUNDS * IN_FLIGHT) as u64
}

/// A guest that has some requests in flight, and as many as a program in all.
fn encrypt_as_guest(path: &Path) -> u64 {
    let reference = session(&[]);
    let mut guest = Guest::connect(path, &Setup { patience: Duration::from_mins(1), ..Setup::qemu() }).unwrap();
    let encrypt = Cipher { algorithm: cipher::AES_CBC, key: &KEY, encrypt: true };
    let by = By::Session(guest.open(&Parameters::Cipher(encrypt)).unwrap().id);
    for round in 0..ROUNDS {
        let known: Vec<_> = (0..IN_FLIGHT).map(|at| known(&reference, round, at)).collect();
        let request = |(data, _): &(Vec<u8>, Vec<u8>)| {
            guest.format().request(operation::CIPHER_ENCRYPT, by, &Operands::Cipher { iv: &IV, data })
        };
        let requests: Vec<Request> = known.iter().map(request).collect();
        for (reply, (_, sealed)) in guest.run_all(0, &requests).unwrap().iter().zip(&known) {
            assert!(reply.status() == 0 && reply.output == *sealed, "round {round}, {} bytes", sealed.len());
        }
    }
    (ROUNDS * IN_FLIGHT) as u64
}

/// A guest that floods its device with requests for sessions that it does not have, breaks its ring, and begins anew.
fn mean_harm(path: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let lies = Load::new(path, Layout::Qemu10, 1024, 64).and_then(Load::lying);
        let done = lies.and_then(|mut lies| lies.run(Duration::from_millis(200))).unwrap();
        assert_eq!(done.refused, done.requests);
        let mut guest = Guest::connect(path, &Setup::qemu()).unwrap();
        // No ring has so many descriptors.
        guest.queues[0].ring.offer(60_000).unwrap();
        guest.queues[0].ring.publish().unwrap();
        assert_eq!(guest.queues[0].ring.wait(Duration::from_millis(100)).unwrap(), None);
    }
}

/// A guest whose crypto device is served at `path`, in which the suite runs over that device.
fn boot(path: &Path) -> Child {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/guest"))
        .args(["run", "--vhost-user", path.to_str().unwrap(), "--timeout", "300", "--"])
        .arg(env!("CARGO_BIN_EXE_gantry"))
        .args(["check", "--devices", "afalg=on", "--device", "afalg:virtio_crypto", "--seconds", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lab/guest starts")
}
