//! `gantry serve` with several clients at once: programs over /dev/crypto, guests, and a hostile guest.

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
use gantry_lab::wait_until;
use gantry_runtime::Config;
use gantry_vhost_user_front::load::LoadGenerator;
use gantry_vhost_user_front::parameters::{Cipher, Layout, Parameters};
use gantry_vhost_user_front::request::{Operands, ParameterSource, Request};
use gantry_vhost_user_front::{Guest, Setup};
use serde_json::Value;

const KEY: [u8; 16] = [9; 16];
const IV: [u8; 16] = [4; 16];
/// Requests that a guest has in flight, and rounds of each well-behaved client.
const IN_FLIGHT: usize = 8;
const ROUNDS: usize = 40;

gantry_lab::in_guest! {
    ["--modules", "cuse", "--timeout", "300"]
    fn a_program_and_two_guests_share_batches_unharmed_by_a_hostile_guest() {
        let folder = Folder::new("serve-all");
        let mut server = Server::new(&folder, &["--devcrypto"]);
        wait_until("there is /dev/crypto", || {
            assert!(server.child.try_wait().unwrap().is_none());
            Path::new("/dev/crypto").exists()
        });
        let peace = run_all_clients(&folder);
        // Only these two guests have requests in flight, eight each, so larger bursts are shared.
        for name in ["vm1", "vm2"] {
            let [requests, burst_sum] = ["requests", "burst_sum"].map(|number| server.number(name, number));
            assert!(burst_sum > IN_FLIGHT as u64 * requests, "{name}: {burst_sum} for {requests}");
        }
        let stop = AtomicBool::new(false);
        let war = thread::scope(|scope| {
            let _peace = StopOnDrop(&stop);
            scope.spawn(|| attack(&socket(&folder, "vm3"), &stop));
            run_all_clients(&folder)
        });
        for name in ["vm1", "vm2"] {
            let counter = |number| server.number(name, number);
            assert_eq!([counter("connections"), counter("requests"), counter("refused"), counter("broken")], [2, (peace + war) / 3, 0, 0], "{name}");
        }
        assert!(server.number("vm3", "refused") > 0 && server.number("vm3", "broken") > 0);
        // Requests of the program are counted by device only.
        let requests = server.requests(Algorithm::Aes128Cbc);
        assert!(requests >= peace + war, "{requests} of {peace} and {war}");
        assert!(server.child.try_wait().unwrap().is_none());
    }
}

/// Runs the conformance suite through the kernels and drivers of two guests at once.
#[test]
#[ignore = "needs a guest: make lab"]
fn the_kernels_of_two_guests_conform_beside_a_hostile_guest() {
    let folder = Folder::new("serve-linux");
    let server = Server::new(&folder, &[]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _peace = StopOnDrop(&stop);
        scope.spawn(|| attack(&socket(&folder, "vm3"), &stop));
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
        let counter = |number| server.number(name, number);
        assert_eq!([counter("connections"), counter("refused"), counter("broken")], [1, 0, 0], "{name}");
        assert!(counter("requests") > 100, "{name}: {}", counter("requests"));
    }
    assert!(server.number("vm3", "refused") > 0 && server.number("vm3", "broken") > 0);
}

/// Sets the flag on drop, also on a panic, so that waiting threads end.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// `gantry serve` with three guests, `vm1` to `vm3`.
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
        // The last line: the server is ready.
        assert!(lines.any(|line| line.unwrap().contains("serving vm3")), "the server did not start");
        Self { child }
    }

    /// Returns the report of `gantry stat` about the server.
    fn stat(&self) -> Value {
        serde_json::from_str(&stdout(&["stat", &self.child.id().to_string(), "--json"])).unwrap()
    }

    /// Returns the counter `name` of a guest.
    fn number(&self, guest: &str, name: &str) -> u64 {
        let report = self.stat();
        let guests = report["guests"].as_array().unwrap();
        let row = guests.iter().find(|row| row["name"] == guest).unwrap();
        row["numbers"][name].as_u64().unwrap()
    }

    /// Returns the requests of an algorithm on all devices.
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

/// Runs a program over /dev/crypto and two guests at once, and checks their results. Returns the number of requests.
fn run_all_clients(folder: &Folder) -> u64 {
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

/// Returns data for a request, and its ciphertext.
fn known_answer(reference: &::gantry_core::Session, round: usize, at: usize) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..64 * (1 + at)).map(|byte| (byte * 7 + round + at) as u8).collect();
    let mut sealed = data.clone();
    reference.encrypt(&IV, &mut sealed[..]).unwrap();
    (data, sealed)
}

/// Opens a session in this process under a configuration.
fn session(settings: &[(&str, &str)]) -> ::gantry_core::Session {
    let mut config = Config::default();
    for (key, value) in settings {
        config.set(key, value, "the test").unwrap();
    }
    let gantry: Gantry = gantry_runtime::open(config).unwrap();
    gantry.session(SessionParams::new(Algorithm::Aes128Cbc, &KEY)).unwrap()
}

/// Encrypts as a program with one request at a time.
fn encrypt_as_program() -> u64 {
    let reference = session(&[]);
    let served = session(&[("devices.devcrypto", "on"), ("policy", "pin:devcrypto:cpu")]);
    for round in 0..ROUNDS {
        for at in 0..IN_FLIGHT {
            let (data, sealed) = known_answer(&reference, round, at);
            // Not in place, so that another device could take over if the server failed halfway.
            let mut found = vec![0; data.len()];
            served.encrypt(&IV, (&data[..], &mut found[..])).unwrap();
            assert!(found == sealed, "round {round}, {} bytes", data.len());
        }
    }
    (ROUNDS * IN_FLIGHT) as u64
}

/// Encrypts as a guest with several requests in flight. The total number of requests is the same as the program's.
fn encrypt_as_guest(path: &Path) -> u64 {
    let reference = session(&[]);
    let mut guest = Guest::connect(path, &Setup { answer_timeout: Duration::from_mins(1), ..Setup::qemu() }).unwrap();
    let encrypt = Cipher { algorithm: cipher::AES_CBC, key: &KEY, encrypt: true };
    let by = ParameterSource::Session(guest.open(&Parameters::Cipher(encrypt)).unwrap().id);
    for round in 0..ROUNDS {
        let answers: Vec<_> = (0..IN_FLIGHT).map(|at| known_answer(&reference, round, at)).collect();
        let request = |(data, _): &(Vec<u8>, Vec<u8>)| {
            guest.format().build_request(operation::CIPHER_ENCRYPT, by, &Operands::Cipher { iv: &IV, data })
        };
        let requests: Vec<Request> = answers.iter().map(request).collect();
        for (reply, (_, sealed)) in guest.run_all(0, &requests).unwrap().iter().zip(&answers) {
            assert!(reply.status() == 0 && reply.output == *sealed, "round {round}, {} bytes", sealed.len());
        }
    }
    (ROUNDS * IN_FLIGHT) as u64
}

/// Acts as a guest that floods its device with requests for unknown sessions, breaks its ring, and restarts.
fn attack(path: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let lies = LoadGenerator::new(path, Layout::Qemu10, 1024, 64).and_then(LoadGenerator::with_unknown_sessions);
        let done = lies.and_then(|mut lies| lies.run(Duration::from_millis(200))).unwrap();
        assert_eq!(done.refused, done.requests);
        let mut guest = Guest::connect(path, &Setup::qemu()).unwrap();
        // An index beyond the ring's descriptors.
        guest.queues[0].ring.offer_head(60_000).unwrap();
        guest.queues[0].ring.publish().unwrap();
        assert_eq!(guest.queues[0].ring.wait_for_used(Duration::from_millis(100)).unwrap(), None);
    }
}

/// Boots a guest with a crypto device served at `path`, which runs the conformance suite on that device.
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
