//! Isolation of the guests of one server: they share only batches.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gantry_abi_virtio_crypto::constants::{cipher, operation};
use gantry_core::Gantry;
use gantry_lab::wait_until;
use gantry_vhost_user::{CounterSnapshot, Counters, Limits, Server, Socket};
use gantry_vhost_user_front::parameters::{Cipher, Parameters};
use gantry_vhost_user_front::request::{Operands, ParameterSource, Reply, Request};
use gantry_vhost_user_front::{Error, Guest, Setup};

const OK: u8 = 0;
const INVALID_SESSION: u8 = 4;
const KEY: [u8; 16] = [7; 16];
const CBC: Parameters<'_> = Parameters::Cipher(Cipher { algorithm: cipher::AES_CBC, key: &KEY, encrypt: true });

#[test]
fn a_session_is_valid_only_for_its_own_guest() {
    let server = Host::new();
    let [mut one, mut other] = [Limits::default(); 2].map(|limits| server.guest(limits));
    let session = one.guest.open(&CBC).unwrap();
    assert_eq!(encrypt(&mut one.guest, session.id, &[1; 64]).output, expected(&[1; 64]));
    assert_eq!(encrypt(&mut other.guest, session.id, &[1; 64]).status(), INVALID_SESSION);
    let refused = other.guest.close(session).unwrap_err();
    assert!(matches!(refused, Error::SessionRefused(_)), "{refused}");
    one.guest.close(session).unwrap();
    assert_eq!(encrypt(&mut one.guest, session.id, &[1; 64]).status(), INVALID_SESSION);
}

#[test]
fn the_limit_of_sessions_applies_to_each_guest() {
    let server = Host::new();
    let three_sessions = Limits { sessions: 3, ..Limits::default() };
    let mut peer = server.guest(three_sessions);
    let sessions: Vec<_> = (0..3).map(|_| peer.guest.open(&CBC).unwrap()).collect();
    assert!(matches!(peer.guest.open(&CBC), Err(Error::SessionRefused(-1))));
    assert!(server.guest(three_sessions).guest.open(&CBC).is_ok());
    peer.guest.close(sessions[1]).unwrap();
    assert!(peer.guest.open(&CBC).is_ok());
    assert_eq!(server.counters(&peer.name).sessions, 3);
}

#[test]
fn sessions_end_with_their_connection_and_the_next_one_is_served() {
    let server = Host::new();
    let Peer { guest: mut before, name, path } = server.guest(Limits::default());
    let session = before.open(&CBC).unwrap();
    assert_eq!(encrypt(&mut before, session.id, &[1; 64]).status(), OK);
    drop(before);
    let mut peer = Peer { guest: Guest::connect(&path, &Setup::qemu()).unwrap(), name, path };
    assert_eq!(encrypt(&mut peer.guest, session.id, &[1; 64]).status(), INVALID_SESSION);
    let session = peer.guest.open(&CBC).unwrap();
    assert_eq!(encrypt(&mut peer.guest, session.id, &[2; 32]).output, expected(&[2; 32]));
    assert_eq!(server.counters(&peer.name).connections, 2);
}

#[test]
fn memory_truncated_by_a_front_end_breaks_only_its_own_device() {
    let server = Host::new();
    let mut setup = Setup::generic();
    // The rings stay; the memory of requests is removed.
    setup.regions.push((0x1000_0000, 8 << 20));
    setup.queue_layout.region = 1;
    let [mut truncating, mut good] = [server.guest_as(Limits::default(), &setup), server.guest(Limits::default())];
    let lost = truncating.guest.open(&CBC).unwrap();
    let session = good.guest.open(&CBC).unwrap();
    assert_eq!(encrypt(&mut truncating.guest, lost.id, &[1; 64]).status(), OK);
    let request = request(&truncating.guest, lost.id, &[1; 64]);
    for _ in 0..4 {
        let prepared = truncating.guest.queues[0].prepare(&request).unwrap();
        truncating.guest.queues[0].offer(prepared).unwrap();
    }
    // From here on this process must not touch that memory either: only the server's mapping is protected.
    truncating.guest.memory().truncate(1, 0).unwrap();
    truncating.guest.queues[0].ring.publish().unwrap();
    wait_until("the device is broken", || server.counters(&truncating.name).broken == 1);
    assert_eq!(truncating.guest.config().unwrap().status, 0, "the device is no longer ready");
    assert_eq!(encrypt(&mut good.guest, session.id, &[3; 48]).output, expected(&[3; 48]));
}

#[test]
fn a_guest_with_a_rate_waits_and_another_does_not() {
    let server = Host::new();
    // Each request has 8 KiB in and 8 KiB out, so 16 requests cost 0.8 seconds. The first tenth of a second is free.
    let mut slow = server.guest(Limits { rate: Some(320 << 10), ..Limits::default() });
    let mut fast = server.guest(Limits::default());
    let [one, other] = [&mut slow, &mut fast].map(|peer| peer.guest.open(&CBC).unwrap().id);
    let data = vec![5; 8 << 10];
    let duration = |peer: &mut Peer, session: u64| {
        let start = Instant::now();
        for _ in 0..16 {
            assert_eq!(encrypt(&mut peer.guest, session, &data).status(), OK);
        }
        start.elapsed()
    };
    let waited = duration(&mut slow, one);
    assert!(waited >= Duration::from_millis(600), "{waited:?}");
    // A stalled machine is slow, too, but not every time.
    assert!((0..5).any(|_| duration(&mut fast, other) < waited));
}

#[test]
fn a_guest_at_its_limit_of_bytes_is_served_in_pieces() {
    let server = Host::new();
    // A request has 8 KiB, in and out. Below its limit, a guest may take one more request, even if that request exceeds the limit.
    let mut peer = server.guest(Limits { bytes: 12 << 10, ..Limits::default() });
    let session = peer.guest.open(&CBC).unwrap().id;
    let requests = vec![request(&peer.guest, session, &[6; 4096]); 16];
    for _ in 0..20 {
        let replies = peer.guest.run_all(0, &requests).unwrap();
        assert!(replies.iter().all(|reply| reply.output == expected(&[6; 4096])));
    }
    let counters = server.counters(&peer.name);
    assert!(counters.burst_sum <= 2 * counters.requests, "more than two were in flight at a time: {counters:?}");
}

#[test]
fn the_weight_of_a_guest_sets_its_requests_per_visit() {
    let server = Host::new();
    // If the kick arrives after the end of the first visit, one burst has two visits: the mean is then 40 instead of 32.
    for (weight, expected_mean) in [(1, 32..=40), (2, 64..=64), (4, 128..=128)] {
        let mut peer = server.guest_as(Limits { weight, ..Limits::default() }, &Setup::qemu());
        let session = peer.guest.open(&CBC).unwrap().id;
        let requests = vec![request(&peer.guest, session, &[6; 64]); 256];
        let replies = peer.guest.run_all(0, &requests).unwrap();
        assert!(replies.iter().all(|reply| reply.output == expected(&[6; 64])));
        // All requests were offered at once, so that every visit found a full share.
        let counters = server.counters(&peer.name);
        assert_eq!(counters.requests, 256);
        assert!(expected_mean.contains(&(counters.burst_sum / 256)), "weight {weight}: {counters:?}");
    }
}

#[test]
fn requests_of_several_guests_share_bursts() {
    let server = Host::new();
    let mut peers: Vec<Peer> = (0..2).map(|_| server.guest(Limits::default())).collect();
    std::thread::scope(|scope| {
        for peer in &mut peers {
            scope.spawn(|| {
                let session = peer.guest.open(&CBC).unwrap().id;
                let requests: Vec<_> = (0..8).map(|n| request(&peer.guest, session, &[n; 4096])).collect();
                for _ in 0..200 {
                    for (n, reply) in peer.guest.run_all(0, &requests).unwrap().iter().enumerate() {
                        assert_eq!((reply.status(), &reply.output), (OK, &expected(&[n as u8; 4096])));
                    }
                }
            });
        }
    });
    for peer in &peers {
        let counters = server.counters(&peer.name);
        assert_eq!((counters.requests, counters.refused), (1600, 0));
        assert!(counters.burst_sum > counters.requests, "no burst had more than one request: {counters:?}");
    }
}

/// A server with sockets of its own.
struct Host {
    server: Server,
    folder: PathBuf,
}

/// A guest, its name, and its socket.
struct Peer {
    guest: Guest,
    name: String,
    path: PathBuf,
}

impl Host {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("gantry-partitions-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { server: Server::new(framework().clone()).unwrap(), folder }
    }

    fn guest(&self, limits: Limits) -> Peer {
        self.guest_as(limits, &Setup::qemu().with_request_room(64 << 10, 16))
    }

    fn guest_as(&self, limits: Limits, setup: &Setup) -> Peer {
        let name = format!("vm{}", self.server.guests().len());
        let path = self.folder.join(format!("{name}.sock"));
        let socket = Socket { path: path.clone(), mode: 0o600, owner: (None, None) };
        self.server.listen(&socket, limits, Counters::default()).unwrap();
        Peer { guest: Guest::connect(&path, setup).unwrap(), name, path }
    }

    fn counters(&self, name: &str) -> CounterSnapshot {
        self.server.guests().into_iter().find(|(other_name, _)| other_name == name).unwrap().1
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn framework() -> &'static Gantry {
    static GANTRY: OnceLock<Gantry> = OnceLock::new();
    GANTRY.get_or_init(|| gantry_runtime::open(gantry_runtime::Config::default()).unwrap())
}

fn request(guest: &Guest, session: u64, data: &[u8]) -> Request {
    let operands = Operands::Cipher { iv: &[9; 16], data };
    guest.format().build_request(operation::CIPHER_ENCRYPT, ParameterSource::Session(session), &operands)
}

fn encrypt(guest: &mut Guest, session: u64, data: &[u8]) -> Reply {
    let request = request(guest, session, data);
    guest.run(0, &request).unwrap()
}

/// Returns the framework's result without a guest.
fn expected(data: &[u8]) -> Vec<u8> {
    let session =
        framework().session(gantry_core::SessionParams::new(gantry_core::Algorithm::Aes128Cbc, &KEY)).unwrap();
    let mut data = data.to_vec();
    session.encrypt(&[9; 16], &mut data[..]).unwrap();
    data
}
