//! Messages of a hostile front end: about memory, about rings, and invalid messages.

mod common;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::hostile::Hostile;
use gantry_vhost_user_front::connection::{NEED_REPLY, REPLY, VERSION, message};
use gantry_vhost_user_front::memory::Memory;
use gantry_vhost_user_front::{Error, Guest, Setup};
use vhost::vhost_user::message::FrontendReq;
use vmm_sys_util::eventfd::EventFd;

fn hostile() -> Hostile {
    Hostile::new(&Setup::qemu())
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Builds `VHOST_USER_SET_MEM_TABLE` with these regions: guest address, bytes, user address, offset.
fn table(count: u32, regions: &[[u64; 4]]) -> Vec<u8> {
    let regions: Vec<u8> = regions.iter().flat_map(|region| words(region)).collect();
    [&u64::from(count).to_le_bytes()[..], &regions].concat()
}

#[test]
fn wrong_memory_tables_are_refused_or_end_the_connection() {
    const MIB: u64 = 1 << 20;
    let valid_region = [MIB, MIB, MIB, 0];
    for (what, count, regions) in [
        ("a region that exceeds its file", 1, vec![[MIB, 64 * MIB, MIB, 0]]),
        ("an offset behind the file", 1, vec![[MIB, MIB, MIB, 1 << 40]]),
        ("an offset that is not a multiple of the page size", 1, vec![[MIB, MIB, MIB, 5]]),
        ("an end that overflows", 1, vec![[u64::MAX - 4095, MIB, MIB, 0]]),
        ("a user address that overflows", 1, vec![[MIB, MIB, u64::MAX - 4095, 0]]),
        ("no bytes", 1, vec![[MIB, 0, MIB, 0]]),
        ("all bytes", 1, vec![[MIB, u64::MAX, MIB, 0]]),
        ("two regions at one address", 2, vec![valid_region, valid_region]),
        ("fewer regions than it says", 8, vec![valid_region]),
        ("more regions than it says", 0, vec![valid_region]),
        ("very many regions", u32::MAX, vec![valid_region]),
    ] {
        let mut hostile = hostile();
        let file = Memory::new(&[(MIB, MIB as usize)]).unwrap();
        let descriptor = file.regions().unwrap()[0].mmap_handle;
        let result = hostile.guest.connection.send_acknowledged(
            FrontendReq::SET_MEM_TABLE,
            &table(count, &regions),
            &vec![descriptor; regions.len()],
        );
        assert!(result.is_err(), "{what}");
        hostile.assert_neighbour_is_served();
        hostile.assert_serves_after_reconnect();
    }
}

#[test]
fn a_memory_table_without_descriptors_is_refused_or_ends_the_connection() {
    let region = [1 << 20, 1 << 20, 1 << 20, 0];
    let pipe = std::io::pipe().unwrap();
    for descriptors in [vec![], vec![pipe.0.as_raw_fd()], vec![pipe.0.as_raw_fd(); 3]] {
        let hostile = hostile();
        let result =
            hostile.guest.connection.send_acknowledged(FrontendReq::SET_MEM_TABLE, &table(1, &[region]), &descriptors);
        assert!(result.is_err(), "{} descriptors", descriptors.len());
        hostile.assert_serves_after_reconnect();
    }
}

/// Invalid numbers of a ring, or a ring at an invalid place.
#[test]
fn invalid_rings_affect_only_their_own_device() {
    let address = Setup::qemu().regions[0].0;
    let state = |index: u64, number: u64| words(&[index | number << 32]);
    let addresses = |index: u64, addresses: [u64; 3]| words(&[index, addresses[0], addresses[1], addresses[2], 0]);
    for (code, payload) in [
        (FrontendReq::SET_VRING_NUM, state(0, 0)),
        (FrontendReq::SET_VRING_NUM, state(0, 3)),
        (FrontendReq::SET_VRING_NUM, state(0, 65_535)),
        (FrontendReq::SET_VRING_NUM, state(0, 0x8000_0000)),
        (FrontendReq::SET_VRING_NUM, state(77, 256)),
        (FrontendReq::SET_VRING_BASE, state(0, 65_536)),
        (FrontendReq::SET_VRING_BASE, state(0xffff_ffff, 0)),
        (FrontendReq::SET_VRING_ENABLE, state(9999, 1)),
        (FrontendReq::SET_VRING_ENABLE, state(0, 7)),
        (FrontendReq::GET_VRING_BASE, state(300, 0)),
        (FrontendReq::SET_VRING_ADDR, addresses(0, [0, 0, 0])),
        (FrontendReq::SET_VRING_ADDR, addresses(0, [address, address, address])),
        (FrontendReq::SET_VRING_ADDR, addresses(0, [u64::MAX, u64::MAX - 1, 1])),
        (FrontendReq::SET_VRING_ADDR, addresses(300, [0, 0, 0])),
        (FrontendReq::SET_VRING_KICK, words(&[0xff])),
        (FrontendReq::SET_VRING_CALL, words(&[0xff])),
    ] {
        let mut hostile = hostile();
        let result = hostile.guest.connection.send_acknowledged(code, &payload, &[]);
        // The message may be refused, ignored, or end the connection.
        println!("{code:?} {payload:x?}: {result:?}");
        hostile.guest.queues[0].ring.kick().unwrap();
        hostile.assert_neighbour_is_served();
        hostile.assert_serves_after_reconnect();
    }
}

/// The user address of a ring lies in memory, but its end does not.
#[test]
fn a_ring_across_the_end_of_memory_affects_only_its_own_device() {
    let mut hostile = hostile();
    let (address, bytes) = Setup::qemu().regions[0];
    let last = hostile.guest.memory().user_address(address + bytes as u64 - 16).unwrap();
    let first = hostile.guest.memory().user_address(address).unwrap();
    for addresses in [[last, first, first], [first, last, first], [first, first, last]] {
        let payload = words(&[0, addresses[0], addresses[1], addresses[2], 0]);
        // The ring is used even if the message is refused.
        let _ = hostile.guest.connection.send_acknowledged(FrontendReq::SET_VRING_ADDR, &payload, &[]);
        hostile.guest.queues[0].ring.kick().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        hostile.assert_neighbour_is_served();
    }
    hostile.assert_serves_after_reconnect();
}

#[test]
fn a_kick_descriptor_that_is_no_event_affects_only_its_own_device() {
    let pipe = std::io::pipe().unwrap();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let null = std::fs::File::open("/dev/zero").unwrap();
    for descriptor in [pipe.0.as_raw_fd(), pipe.1.as_raw_fd(), file.as_raw_fd(), null.as_raw_fd()] {
        for code in [FrontendReq::SET_VRING_KICK, FrontendReq::SET_VRING_CALL] {
            let mut hostile = hostile();
            let result = hostile.guest.connection.send_acknowledged(code, &words(&[0]), &[descriptor]);
            println!("{code:?}: {result:?}");
            let prepared = hostile.prepare();
            hostile.guest.queues[0].offer(prepared).unwrap();
            hostile.guest.queues[0].ring.publish().unwrap();
            hostile.assert_neighbour_is_served();
            hostile.assert_serves_after_reconnect();
        }
    }
}

/// A write to an eventfd with a full counter blocks until a reader empties it, and here no reader does.
#[test]
fn a_full_event_does_not_block_other_guests() {
    let event = EventFd::new(0).unwrap();
    event.write(u64::MAX - 1).unwrap();
    let mut hostile = hostile();
    let connection = &hostile.guest.connection;
    connection.send_acknowledged(FrontendReq::SET_VRING_CALL, &words(&[0]), &[event.as_raw_fd()]).unwrap();
    for _ in 0..16 {
        let prepared = hostile.prepare();
        hostile.guest.queues[0].offer(prepared).unwrap();
        hostile.guest.queues[0].ring.publish().unwrap();
        hostile.guest.queues[0].ring.kick().unwrap();
        hostile.assert_neighbour_is_served();
    }
    hostile.assert_serves_after_reconnect();
}

#[test]
fn kicks_without_requests_do_not_block_other_guests() {
    let mut hostile = hostile();
    let kick = hostile.guest.queues[0].ring.kick_event().try_clone().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                kick.write(1).unwrap();
            }
        });
        for _ in 0..200 {
            hostile.assert_neighbour_is_served();
        }
        stop.store(true, Ordering::Relaxed);
    });
    hostile.assert_guest_is_served();
}

#[test]
fn invalid_messages_end_only_their_own_connection() {
    let create = FrontendReq::CREATE_CRYPTO_SESSION as u32;
    let close = FrontendReq::CLOSE_CRYPTO_SESSION as u32;
    let mut oversized = message(create, VERSION, &[]);
    oversized[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut longer = message(create, VERSION, &[1; 632]);
    longer[8..12].copy_from_slice(&4097_u32.to_le_bytes());
    for bytes in [
        vec![0xff; 12],
        vec![0; 4096],
        oversized,
        longer,
        message(0, VERSION, &[]),
        message(9999, VERSION | NEED_REPLY, &[0; 8]),
        // Without version, with another version, and a reply without a request.
        message(FrontendReq::GET_FEATURES as u32, 0, &[]),
        message(FrontendReq::GET_FEATURES as u32, 2, &[]),
        message(FrontendReq::GET_FEATURES as u32, VERSION | REPLY, &[]),
        // Payloads of the wrong length.
        message(FrontendReq::GET_FEATURES as u32, VERSION, &[0; 100]),
        message(FrontendReq::SET_FEATURES as u32, VERSION, &[]),
        message(FrontendReq::GET_CONFIG as u32, VERSION, &[0xff; 12]),
        message(create, VERSION, &[]),
        message(create, VERSION, &[0; 7]),
        message(create, VERSION, &[0xff; 631]),
        message(create, VERSION, &[0xff; 633]),
        message(create, VERSION, &[0xff; 1071]),
        message(create, VERSION, &[0xff; 4096]),
        message(close, VERSION | NEED_REPLY, &[]),
        message(close, VERSION | NEED_REPLY, &[0; 3]),
        message(close, VERSION | NEED_REPLY, &[0; 800]),
    ] {
        let mut hostile = hostile();
        hostile.guest.connection.send_bytes(&bytes, &[]).unwrap();
        hostile.assert_neighbour_is_served();
        hostile.assert_serves_after_reconnect();
    }
}

/// The back end waits for the rest, or ends the connection.
#[test]
fn half_a_message_does_not_block_other_guests() {
    let bytes = message(FrontendReq::SET_MEM_TABLE as u32, VERSION, &[0; 40]);
    for half in [&bytes[..1], &bytes[..5], &bytes[..12], &bytes[..30]] {
        let mut hostile = hostile();
        hostile.guest.connection.send_bytes(half, &[]).unwrap();
        hostile.assert_neighbour_is_served();
        hostile.assert_serves_after_reconnect();
    }
}

/// Unexpected descriptors are closed, because a process may have a limited number of descriptors.
#[test]
fn unexpected_descriptors_are_closed() {
    let hostile = hostile();
    let open = |hostile: &Hostile| std::fs::read_dir(format!("/proc/{}/fd", hostile.server.pid())).unwrap().count();
    let before = open(&hostile);
    let pipe = std::io::pipe().unwrap();
    hostile.guest.connection.shut_down();
    for _ in 0..100 {
        // Each connection may end, and is replaced by a new one.
        let guest = Guest::connect(&hostile.server.socket(0), &Setup::qemu()).unwrap();
        let _ = guest.connection.send(FrontendReq::GET_FEATURES as u32, VERSION, &[], &[pipe.0.as_raw_fd(); 8]);
        let _ = guest.connection.receive_reply(FrontendReq::GET_FEATURES as u32);
        let payload = Memory::new(&[(0, 4096)]).unwrap();
        let _ = guest.connection.set_memory(&payload);
        guest.connection.shut_down();
    }
    let after = open(&hostile);
    assert!(after <= before + 20, "{before} descriptors became {after}");
    hostile.assert_serves_after_reconnect();
}

/// A front end waits while the back end serves another one, and gets the device when the other one ends.
#[test]
fn a_second_front_end_waits_for_the_end_of_the_first() {
    let hostile = hostile();
    let answer_timeout = Duration::from_millis(200);
    let second = Guest::connect(&hostile.socket(), &Setup { answer_timeout, ..Setup::qemu() });
    assert!(matches!(second, Err(Error::Io(_))));
    hostile.assert_serves_after_reconnect();
}
