//! Transport of requests: sizes, descriptors, batches, queues, and several guests at once.

mod common;

use std::thread;
use std::time::Duration;

use common::server::Server;
use common::{ANSWER_TIMEOUT, KEY, OK, assert_served, assert_session_serves, is_known_answer};
use gantry_abi_virtio_crypto::constants::{cipher, operation};
use gantry_core::{Algorithm, Direction, SessionParams};
use gantry_vhost_user::Limits;
use gantry_vhost_user_front::connection::EnableMode;
use gantry_vhost_user_front::parameters::{Cipher, Layout, Parameters};
use gantry_vhost_user_front::queue::QueueLayout;
use gantry_vhost_user_front::request::{Operands, ParameterSource, Request};
use gantry_vhost_user_front::ring::Part;
use gantry_vhost_user_front::{Error, FrontEnd, Guest, Session, Setup};

const SIZES: [usize; 14] = [1, 15, 16, 17, 64, 1000, 1024, 4095, 4096, 4097, 16 << 10, 65_535, 64 << 10, 128 << 10];
const IV: [u8; 16] = [0xa5; 16];

/// Reference results of AES-128-CTR by the framework itself.
struct Expected(gantry_core::Session);

impl Expected {
    fn new() -> Self {
        let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
        let params = SessionParams::new(Algorithm::Aes128Ctr, &KEY).with_direction(Direction::Encrypt);
        Self(gantry.session(params).unwrap())
    }

    fn encrypt(&self, data: &[u8]) -> Vec<u8> {
        let mut output = data.to_vec();
        self.0.encrypt(&IV, &mut output[..]).unwrap();
        output
    }
}

fn open_ctr(guest: &mut Guest) -> Session {
    guest.open(&Parameters::Cipher(Cipher { algorithm: cipher::AES_CTR, key: &KEY, encrypt: true })).unwrap()
}

fn encrypt(guest: &Guest, session: Session, data: &[u8]) -> Request {
    let operands = Operands::Cipher { iv: &IV, data };
    guest.format().build_request(operation::CIPHER_ENCRYPT, ParameterSource::Session(session.id), &operands)
}

/// Returns bytes that differ in each request.
fn data(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + seed * 31 + (at >> 8)) as u8).collect()
}

#[test]
fn requests_of_one_byte_to_128_kib_are_answered_correctly() {
    let server = Server::new(&[Limits::default()]);
    let expected = Expected::new();
    for setup in [Setup::qemu(), Setup::generic()] {
        let mut guest = Guest::connect(&server.socket(0), &setup.with_request_room(256 << 10, 1)).unwrap();
        let session = open_ctr(&mut guest);
        for bytes in SIZES {
            let data = data(bytes, bytes);
            let request = encrypt(&guest, session, &data);
            let reply = guest.run(0, &request).unwrap();
            assert_eq!((reply.status(), reply.written as usize), (OK, bytes + 1), "{bytes}");
            assert!(reply.output == expected.encrypt(&data), "{bytes} bytes");
        }
    }
}

#[test]
fn requests_in_batches_of_1_to_256_get_their_own_answers() {
    let server = Server::new(&[Limits::default()]);
    let expected = Expected::new();
    let mut guest = Guest::connect(&server.socket(0), &Setup::qemu().with_request_room(2048, 256)).unwrap();
    let session = open_ctr(&mut guest);
    for count in [1, 2, 3, 8, 31, 64, 255, 256] {
        let data: Vec<Vec<u8>> = (0..count).map(|at| data(at, 16 + at * 3)).collect();
        let requests: Vec<Request> = data.iter().map(|data| encrypt(&guest, session, data)).collect();
        // The ring's indices wrap.
        for _ in 0..3 {
            let replies = guest.run_all(0, &requests).unwrap();
            for (data, reply) in data.iter().zip(replies) {
                assert_eq!(reply.status(), OK);
                assert!(reply.output == expected.encrypt(data), "of {count}");
            }
        }
    }
}

/// All ways in which a driver may describe the same request.
#[test]
fn descriptors_may_be_split_anywhere_and_be_direct_or_indirect() {
    let server = Server::new(&[Limits::default()]);
    for setup in [Setup::qemu(), Setup::generic()] {
        for indirect in [true, false] {
            for event_index in [true, false] {
                for piece in [1, 3, 16, 40, usize::MAX] {
                    let queue_layout = QueueLayout {
                        indirect,
                        event_index,
                        max_descriptor_bytes: piece,
                        slots: 4,
                        ..QueueLayout::default()
                    };
                    let mut guest =
                        Guest::connect(&server.socket(0), &Setup { queue_layout, ..setup.clone() }).unwrap();
                    // With the smallest pieces, a request has more than 200 descriptors.
                    let session = common::open_cbc(&mut guest);
                    for _ in 0..3 {
                        assert_session_serves(&mut guest, session);
                    }
                }
            }
        }
    }
}

#[test]
fn a_request_may_lie_across_two_regions() {
    let server = Server::new(&[Limits::default()]);
    let border = 0x20_0000;
    let regions = vec![(0x10_0000, 0x10_0000), (border, 0x10_0000)];
    let queue_layout = QueueLayout { slots: 4, ..QueueLayout::default() };
    let mut guest = Guest::connect(&server.socket(0), &Setup { regions, queue_layout, ..Setup::qemu() }).unwrap();
    let session = common::open_cbc(&mut guest);
    let request = common::known_answer_request(&guest, session);
    let mut prepared = guest.queues[0].prepare(&request).unwrap();
    let (_, plain, sealed) = common::known_answer();
    // The source crosses the border, and the destination is in the second region; the rest is unchanged.
    let (source, destination) = (border - 5, border + 0x800);
    guest.memory().write(source, &plain).unwrap();
    prepared.parts[2].address = source;
    prepared.parts[3].address = destination;
    guest.queues[0].offer(prepared).unwrap();
    guest.queues[0].ring.publish().unwrap();
    let (prepared, written) = guest.queues[0].wait_for_finished(ANSWER_TIMEOUT).unwrap().unwrap();
    assert_eq!(guest.queues[0].take_reply(&prepared, written).unwrap().status(), OK);
    assert_eq!(guest.memory().read(destination, sealed.len()).unwrap(), sealed);
    // Now the destination crosses the border.
    let mut prepared = guest.queues[0].prepare(&request).unwrap();
    prepared.parts[3].address = border - 33;
    guest.queues[0].offer(prepared).unwrap();
    guest.queues[0].ring.publish().unwrap();
    let (prepared, written) = guest.queues[0].wait_for_finished(ANSWER_TIMEOUT).unwrap().unwrap();
    assert_eq!(guest.queues[0].take_reply(&prepared, written).unwrap().status(), OK);
    assert_eq!(guest.memory().read(border - 33, sealed.len()).unwrap(), sealed);
}

/// Linux' driver repeats the tail of a scattered buffer, so a chain may have more bytes than its header says.
#[test]
fn extra_bytes_in_a_chain_are_accepted() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::qemu()).unwrap();
    let session = common::open_cbc(&mut guest);
    let request = common::known_answer_request(&guest, session);
    let mut prepared = guest.queues[0].prepare(&request).unwrap();
    let [source, destination] = [2, 3].map(|at| prepared.parts[at]);
    let tail = |part: Part| Part { address: part.address + 32, length: part.length - 32, ..part };
    prepared.parts.insert(4, tail(destination));
    prepared.parts.insert(3, tail(source));
    guest.queues[0].offer(prepared).unwrap();
    guest.queues[0].ring.publish().unwrap();
    let (prepared, written) = guest.queues[0].wait_for_finished(ANSWER_TIMEOUT).unwrap().unwrap();
    assert!(is_known_answer(&guest.queues[0].take_reply(&prepared, written).unwrap()));
}

/// QEMU negotiates protocol features and then enables no ring; other front ends enable theirs.
#[test]
fn rings_run_even_if_the_front_end_does_not_enable_them() {
    let server = Server::new(&[Limits::default()]);
    for layout in [Layout::Qemu7, Layout::Qemu10, Layout::Dpdk22] {
        for enable in [EnableMode::Never, EnableMode::Explicit] {
            let setup = Setup { front_end: FrontEnd::Messages(layout, enable), ..Setup::qemu() };
            assert_served(&mut Guest::connect(&server.socket(0), &setup).unwrap());
        }
    }
}

#[test]
fn queues_run_concurrently_and_share_the_sessions_of_their_guest() {
    let server = Server::new(&[Limits::default()]);
    for setup in [Setup { queues: 4, ..Setup::qemu() }, Setup { queues: 4, ..Setup::generic() }] {
        let mut guest = Guest::connect(&server.socket(0), &setup.with_request_room(1024, 32)).unwrap();
        assert_eq!(guest.queues.len(), 4);
        let session = common::open_cbc(&mut guest);
        let requests = vec![common::known_answer_request(&guest, session); 32];
        thread::scope(|scope| {
            for queue in &mut guest.queues {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let replies = queue.run(&requests, Duration::from_secs(10)).unwrap();
                        assert!(replies.iter().all(is_known_answer));
                    }
                });
            }
        });
    }
}

#[test]
fn two_concurrent_guests_get_their_own_answers() {
    let server = Server::new(&[Limits::default(), Limits::default()]);
    thread::scope(|scope| {
        for (number, setup) in [Setup::qemu(), Setup::generic()].into_iter().enumerate() {
            let socket = server.socket(number);
            scope.spawn(move || {
                let mut guest = Guest::connect(&socket, &setup).unwrap();
                // Session numbers are equal in both guests, but the keys differ.
                let key = [number as u8; 16];
                let parameters = Parameters::Cipher(Cipher { algorithm: cipher::AES_CTR, key: &key, encrypt: true });
                let session = guest.open(&parameters).unwrap();
                let request = encrypt(&guest, session, &[0; 64]);
                let first = guest.run(0, &request).unwrap();
                for _ in 0..300 {
                    for reply in guest.run_all(0, &vec![request.clone(); 8]).unwrap() {
                        assert_eq!((reply.status(), &reply.output), (OK, &first.output));
                    }
                }
                first.output
            });
        }
    });
}

/// A front end may stop a ring, learn the index at which the back end stopped, and continue at this index.
#[test]
fn a_stopped_ring_continues_where_it_stopped() {
    let server = Server::new(&[Limits::default()]);
    let mut guest = Guest::connect(&server.socket(0), &Setup::qemu()).unwrap();
    let session = common::open_cbc(&mut guest);
    for round in 1..=3_u32 {
        for _ in 0..5 {
            assert_session_serves(&mut guest, session);
        }
        assert_eq!(guest.connection.stop_queue(0).unwrap(), round * 5 + (round - 1));
        // Requests offered while the ring is stopped are answered when it runs again.
        let request = common::known_answer_request(&guest, session);
        let prepared = guest.queues[0].prepare(&request).unwrap();
        guest.queues[0].offer(prepared).unwrap();
        guest.queues[0].ring.publish().unwrap();
        assert!(guest.queues[0].wait_for_finished(Duration::from_millis(50)).unwrap().is_none(), "the ring is stopped");
        guest.restart_queue(0).unwrap();
        let (prepared, written) = guest.queues[0].wait_for_finished(ANSWER_TIMEOUT).unwrap().unwrap();
        assert!(is_known_answer(&guest.queues[0].take_reply(&prepared, written).unwrap()));
    }
}

#[test]
fn a_front_end_that_reconnects_keeps_its_requests_and_loses_its_sessions() {
    let server = Server::new(&[Limits::default()]);
    for setup in [Setup::qemu(), Setup::generic()] {
        let mut guest = Guest::connect(&server.socket(0), &setup).unwrap();
        let session = common::open_cbc(&mut guest);
        assert_session_serves(&mut guest, session);
        guest.reconnect(&server.socket(0)).unwrap();
        let request = common::known_answer_request(&guest, session);
        assert_eq!(guest.run(0, &request).unwrap().status(), common::INVSESS);
        assert_served(&mut guest);
    }
}

#[test]
fn a_path_without_a_server_is_an_error() {
    let connected = Guest::connect("/nowhere/guest.sock".as_ref(), &Setup::qemu());
    assert!(matches!(connected, Err(Error::Io(_))));
}
