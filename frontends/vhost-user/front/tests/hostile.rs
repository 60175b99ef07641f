//! Requests and rings of a hostile guest. Each request is answered or refused, or breaks the guest's own device. The neighbour is still
//! served.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::hostile::{ChainOutcome, Hostile};
use common::{ERR, INVSESS, NOTSUPP, OK};
use gantry_vhost_user_front::Setup;
use gantry_vhost_user_front::ring::{DESC_F_INDIRECT, DESC_F_NEXT, DESC_F_WRITE, Descriptor, Part};

/// Offsets of the fields of a cipher request (`struct virtio_crypto_op_data_req`).
const OPERATION_OFFSET: u64 = 0;
const SESSION_OFFSET: u64 = 8;
const IV_LENGTH_OFFSET: u64 = 24;
const SOURCE_LENGTH_OFFSET: u64 = 28;
const DESTINATION_LENGTH_OFFSET: u64 = 32;
const KIND_OFFSET: u64 = 64;
/// The parts of a request: header, IV, source, destination, status.
const HEADER_PART: usize = 0;
const SOURCE_PART: usize = 2;
const DESTINATION_PART: usize = 3;
const STATUS_PART: usize = 4;

/// Returns the first address behind the memory of [`Setup::qemu`].
fn memory_end() -> u64 {
    let (address, bytes) = Setup::qemu().regions[0];
    address + bytes as u64
}

fn hostile() -> Hostile {
    Hostile::new(&Setup::qemu())
}

/// Writes numbers into the header, and expects a status. Afterwards the guest is still served.
fn assert_fields_refused(cases: &[(u64, &[u32], u8)]) {
    let mut hostile = hostile();
    for (field, numbers, status) in cases {
        for number in *numbers {
            let prepared = hostile.prepare();
            hostile.write(prepared.input_address + field, &number.to_le_bytes());
            assert_eq!(hostile.offer(prepared), ChainOutcome::Refused(*status), "{number:#x} at {field}");
            hostile.assert_guest_is_served();
        }
    }
}

#[test]
fn operations_that_do_not_exist_are_refused() {
    assert_fields_refused(&[
        (OPERATION_OFFSET, &[0x0009, 0x0500, 0x0404, 0xffff, u32::MAX, 0x1_0000], NOTSUPP),
        // Opening and closing of sessions belong to the control queue.
        (OPERATION_OFFSET, &[0x0002, 0x0003], NOTSUPP),
    ]);
}

#[test]
fn sessions_that_do_not_exist_are_refused() {
    assert_fields_refused(&[
        (SESSION_OFFSET, &[0, 2, 0x7fff_ffff, u32::MAX], INVSESS),
        (SESSION_OFFSET + 4, &[1, u32::MAX], INVSESS),
    ]);
}

#[test]
fn wrong_lengths_are_refused() {
    let huge = [65, 0xffff, 0x8000_0000, 0xffff_fff0, u32::MAX];
    assert_fields_refused(&[
        (SOURCE_LENGTH_OFFSET, &huge, ERR),
        (DESTINATION_LENGTH_OFFSET, &huge[1..], ERR),
        // Shorter than the source.
        (DESTINATION_LENGTH_OFFSET, &[0, 16, 63], ERR),
        (SOURCE_LENGTH_OFFSET, &[0, 1, 63], ERR),
        (IV_LENGTH_OFFSET, &[0, 1, 15, 17, 0xffff_fff0, u32::MAX], ERR),
    ]);
}

#[test]
fn requests_of_another_kind_than_the_session_are_refused() {
    let mut hostile = hostile();
    for kind in [0, 2, 3, u32::MAX] {
        let prepared = hostile.prepare();
        hostile.write(prepared.input_address + KIND_OFFSET, &u32::to_le_bytes(kind));
        assert!(matches!(hostile.offer(prepared), ChainOutcome::Refused(status) if status != OK), "{kind}");
        hostile.assert_guest_is_served();
    }
}

#[test]
fn a_truncated_header_is_refused() {
    let mut hostile = hostile();
    for bytes in [0, 1, 20, 71] {
        let mut prepared = hostile.prepare();
        prepared.parts[HEADER_PART].length = bytes;
        prepared.parts.drain(1..STATUS_PART);
        assert_eq!(hostile.offer(prepared), ChainOutcome::Refused(ERR), "{bytes}");
        hostile.assert_guest_is_served();
    }
}

/// Returns addresses at which a part lies partly or completely outside memory.
fn invalid_addresses(part: Part) -> [u64; 6] {
    [1 << 40, memory_end(), memory_end() - u64::from(part.length) / 2, u64::MAX - 8, 0, memory_end() - 1]
}

#[test]
fn input_outside_of_memory_is_refused() {
    let mut hostile = hostile();
    for at in [HEADER_PART, 1, SOURCE_PART] {
        for address in invalid_addresses(request_part(at)) {
            let mut prepared = hostile.prepare();
            prepared.parts[at].address = address;
            assert_eq!(hostile.offer(prepared), ChainOutcome::Refused(ERR), "part {at} at {address:#x}");
            hostile.assert_guest_is_served();
        }
    }
}

#[test]
fn output_outside_of_memory_is_refused() {
    let mut hostile = hostile();
    for address in invalid_addresses(request_part(DESTINATION_PART)) {
        let mut prepared = hostile.prepare();
        prepared.parts[DESTINATION_PART].address = address;
        let outcome = hostile.offer(prepared);
        assert_eq!(outcome, ChainOutcome::Refused(ERR), "{address:#x}");
        hostile.assert_guest_is_served();
    }
}

#[test]
fn a_chain_with_its_status_outside_memory_is_returned_empty() {
    let mut hostile = hostile();
    for address in [1 << 40, memory_end(), u64::MAX, 0] {
        let mut prepared = hostile.prepare();
        prepared.parts[STATUS_PART].address = address;
        prepared.parts.drain(SOURCE_PART..STATUS_PART);
        assert_eq!(hostile.offer(prepared), ChainOutcome::Empty, "{address:#x}");
        hostile.assert_guest_is_served();
    }
}

#[test]
fn a_chain_without_writable_buffers_is_returned_empty() {
    let mut hostile = hostile();
    let mut prepared = hostile.prepare();
    prepared.parts.truncate(DESTINATION_PART);
    assert_eq!(hostile.offer(prepared), ChainOutcome::Empty);
    let mut prepared = hostile.prepare();
    prepared.parts.truncate(DESTINATION_PART);
    prepared.parts.push(Part { address: prepared.status_address, length: 0, writable: true });
    assert_eq!(hostile.offer(prepared), ChainOutcome::Empty);
    hostile.assert_guest_is_served();
}

#[test]
fn a_request_without_room_for_the_output_is_refused() {
    let mut hostile = hostile();
    for bytes in [0, 1, 63] {
        let mut prepared = hostile.prepare();
        prepared.parts[DESTINATION_PART].length = bytes;
        assert_eq!(hostile.offer(prepared), ChainOutcome::Refused(ERR), "{bytes}");
        hostile.assert_guest_is_served();
    }
}

#[test]
fn a_chain_with_readable_buffers_behind_writable_ones_is_refused() {
    let mut hostile = hostile();
    let mut prepared = hostile.prepare();
    prepared.parts.swap(SOURCE_PART, DESTINATION_PART);
    assert_eq!(hostile.offer(prepared), ChainOutcome::Refused(ERR));
    hostile.assert_guest_is_served();
}

/// Returns a part of a request, with its length.
fn request_part(at: usize) -> Part {
    let bytes = [72, 16, 64, 64, 1][at];
    Part { address: 0, length: bytes, writable: at >= DESTINATION_PART }
}

/// Offers a request after its table, or the descriptor of the table, has been changed.
fn offer_with_table(change: impl Fn(&mut Hostile, u64, &[Part])) -> (Hostile, ChainOutcome) {
    let mut hostile = hostile();
    let prepared = hostile.prepare();
    let (table, parts) = (prepared.table_address.unwrap(), prepared.parts.clone());
    hostile.guest.queues[0].offer(prepared).unwrap();
    change(&mut hostile, table, &parts);
    hostile.guest.queues[0].ring.publish().unwrap();
    let outcome = hostile.outcome();
    (hostile, outcome)
}

/// The descriptor of a guest's second request: the first one was its known answer.
const SECOND_HEAD: u16 = 1;

/// Asserts that an invalid chain is refused or returned empty, and that the guest is served afterwards.
fn assert_table_refused(change: impl Fn(&mut Hostile, u64, &[Part])) {
    let (mut hostile, outcome) = offer_with_table(change);
    assert!(matches!(outcome, ChainOutcome::Refused(ERR) | ChainOutcome::Empty), "{outcome:?}");
    hostile.assert_guest_is_served();
}

#[test]
fn a_table_that_refers_to_itself_is_refused() {
    for next in 0..STATUS_PART as u16 {
        assert_table_refused(|hostile, table, _| {
            // The last but one descriptor leads back.
            let at = table + 16 * DESTINATION_PART as u64 + 14;
            hostile.write(at, &next.to_le_bytes());
        });
    }
}

#[test]
fn a_table_that_leads_beyond_its_end_is_refused() {
    for next in [5, 6, 255, u16::MAX] {
        assert_table_refused(|hostile, table, _| {
            hostile.write(table + 16 * DESTINATION_PART as u64 + 14, &u16::to_le_bytes(next));
        });
    }
}

#[test]
fn a_table_within_a_table_is_refused() {
    assert_table_refused(|hostile, table, _| {
        let inner = Descriptor { address: table, length: 80, flags: DESC_F_INDIRECT | DESC_F_NEXT, next: 1 };
        hostile.write(table, &inner.encode());
    });
}

#[test]
fn a_table_of_another_length_is_refused() {
    for bytes in [0, 1, 15, 79, 81, 16, 0x8000_0000, u32::MAX] {
        assert_table_refused(|hostile, table, _| {
            let descriptor = Descriptor { address: table, length: bytes, flags: DESC_F_INDIRECT, next: 0 };
            hostile.guest.queues[0].ring.write_descriptor(SECOND_HEAD, descriptor).unwrap();
        });
    }
}

#[test]
fn a_table_outside_of_memory_is_refused() {
    for address in [1 << 40, memory_end(), memory_end() - 16, u64::MAX - 15, 0] {
        assert_table_refused(|hostile, _, _| {
            let descriptor = Descriptor { address, length: 80, flags: DESC_F_INDIRECT, next: 0 };
            hostile.guest.queues[0].ring.write_descriptor(SECOND_HEAD, descriptor).unwrap();
        });
    }
}

#[test]
fn a_table_within_a_chain_completes_or_is_refused() {
    let (mut hostile, outcome) = offer_with_table(|hostile, table, _| {
        let descriptor =
            Descriptor { address: table, length: 80, flags: DESC_F_INDIRECT | DESC_F_NEXT, next: SECOND_HEAD };
        hostile.guest.queues[0].ring.write_descriptor(SECOND_HEAD, descriptor).unwrap();
    });
    // The specification forbids such chains, but does not define how a device detects them.
    assert!(matches!(outcome, ChainOutcome::Refused(ERR) | ChainOutcome::Empty | ChainOutcome::Done), "{outcome:?}");
    hostile.assert_guest_is_served();
}

/// Repeats the test of looping tables with chains in the ring's own table.
#[test]
fn a_chain_of_the_ring_that_never_ends_is_refused() {
    for next in [0, 7, 255, 256, u16::MAX] {
        let mut hostile = hostile();
        let prepared = hostile.prepare();
        let address = prepared.input_address;
        hostile.guest.queues[0].offer(prepared).unwrap();
        let ring = &hostile.guest.queues[0].ring;
        for (index, next) in [(SECOND_HEAD, 7), (7, next)] {
            ring.write_descriptor(index, Descriptor { address, length: 16, flags: DESC_F_NEXT, next }).unwrap();
        }
        hostile.guest.queues[0].ring.publish().unwrap();
        let outcome = hostile.outcome();
        assert!(matches!(outcome, ChainOutcome::Refused(ERR) | ChainOutcome::Empty), "{next}: {outcome:?}");
        hostile.assert_guest_is_served();
    }
}

#[test]
fn writable_chains_that_are_longer_than_memory_are_refused() {
    let mut hostile = hostile();
    let mut prepared = hostile.prepare();
    let status = prepared.parts[STATUS_PART];
    prepared.parts.truncate(SOURCE_PART);
    prepared.parts.extend([Part { length: u32::MAX, ..status }; 200]);
    prepared.parts.push(status);
    // virtio 1.3, 2.7.5: a chain has at most 4 GiB, so the device must not look for the status beyond that.
    let outcome = hostile.offer(prepared);
    assert!(matches!(outcome, ChainOutcome::Refused(ERR) | ChainOutcome::Empty), "{outcome:?}");
    hostile.assert_guest_is_served();
}

#[test]
fn a_head_beyond_the_ring_breaks_only_its_own_device() {
    for setup in [Setup::qemu(), Setup::generic()] {
        for head in [256, 60_000, u16::MAX] {
            let mut hostile = Hostile::new(&setup);
            let ring = &mut hostile.guest.queues[0].ring;
            ring.offer_head(head).unwrap();
            ring.publish().unwrap();
            hostile.assert_is_broken();
        }
    }
}

#[test]
fn an_invalid_head_after_valid_requests_breaks_only_its_own_device() {
    let mut hostile = Hostile::new(&Setup::generic());
    for _ in 0..8 {
        let prepared = hostile.prepare();
        hostile.guest.queues[0].offer(prepared).unwrap();
    }
    let ring = &mut hostile.guest.queues[0].ring;
    ring.offer_head(60_000).unwrap();
    ring.publish().unwrap();
    // The device may or may not answer the valid requests before the invalid head.
    while hostile.outcome_soon() != ChainOutcome::NotReturned {}
    hostile.assert_is_broken();
}

#[test]
fn an_index_beyond_the_ring_breaks_only_its_own_device() {
    for setup in [Setup::qemu(), Setup::generic()] {
        for ahead in [257, 5000, 40_000, u16::MAX] {
            let hostile = Hostile::new(&setup);
            let ring = &hostile.guest.queues[0].ring;
            let index = ring.base().unwrap();
            ring.publish_index(index.wrapping_add(ahead)).unwrap();
            ring.kick().unwrap();
            thread::sleep(Duration::from_millis(100));
            hostile.assert_is_broken();
        }
    }
}

#[test]
fn a_chain_offered_many_times_is_returned_as_often() {
    let mut hostile = hostile();
    let prepared = hostile.prepare();
    hostile.guest.queues[0].offer(prepared).unwrap();
    let ring = &mut hostile.guest.queues[0].ring;
    for _ in 1..200 {
        ring.offer_head(SECOND_HEAD).unwrap();
    }
    ring.publish().unwrap();
    for _ in 0..200 {
        let used = ring.wait_for_used(common::ANSWER_TIMEOUT).unwrap().expect("all are returned");
        assert_eq!(used.head, u32::from(SECOND_HEAD));
    }
    assert_eq!(ring.pop_used().unwrap(), None);
    hostile.assert_neighbour_is_served();
    hostile.assert_serves_after_reconnect();
}

/// A header may change while it is copied; the device uses only its copy.
#[test]
fn a_header_that_changes_while_it_is_read_completes_or_is_refused() {
    let mut hostile = hostile();
    let prepared = hostile.prepare();
    let address = prepared.input_address;
    let memory = hostile.guest.memory().clone();
    let stop = AtomicBool::new(false);
    let (mut done, mut refused) = (0_u32, 0_u32);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for bytes in [64_u32, 0x4000_0000, 16, u32::MAX] {
                    let lengths = [bytes, bytes].map(u32::to_le_bytes).concat();
                    memory.write(address + SOURCE_LENGTH_OFFSET, &lengths).unwrap();
                }
            }
        });
        let mut prepared = Some(prepared);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            let queue = &mut hostile.guest.queues[0];
            queue.offer(prepared.take().unwrap()).unwrap();
            queue.ring.publish().unwrap();
            let (returned, _) = queue.wait_for_finished(common::ANSWER_TIMEOUT).unwrap().expect("an answer at once");
            match hostile.guest.memory().read(returned.status_address, 1).unwrap()[0] {
                OK => done += 1,
                ERR => refused += 1,
                status => panic!("status {status}"),
            }
            prepared = Some(returned);
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{done} done, {refused} refused");
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
    hostile.assert_guest_is_served();
}

/// A table's descriptors change all the time, too.
#[test]
fn a_table_that_changes_while_it_is_read_completes_or_is_refused() {
    let mut hostile = hostile();
    let prepared = hostile.prepare();
    let (table, source) = (prepared.table_address.unwrap() + 16 * SOURCE_PART as u64, prepared.parts[SOURCE_PART]);
    let memory = hostile.guest.memory().clone();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let good = Descriptor { address: source.address, length: source.length, flags: DESC_F_NEXT, next: 3 };
            let bad = [
                Descriptor { address: u64::MAX - 3, ..good },
                Descriptor { length: u32::MAX, ..good },
                Descriptor { next: 2, ..good },
                Descriptor { next: 9000, ..good },
                Descriptor { flags: DESC_F_NEXT | DESC_F_WRITE | DESC_F_INDIRECT, ..good },
            ];
            while !stop.load(Ordering::Relaxed) {
                for descriptor in bad {
                    memory.write(table, &good.encode()).unwrap();
                    memory.write(table, &descriptor.encode()).unwrap();
                }
            }
        });
        let mut prepared = Some(prepared);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            let queue = &mut hostile.guest.queues[0];
            queue.offer(prepared.take().unwrap()).unwrap();
            queue.ring.publish().unwrap();
            let (returned, _) = queue.wait_for_finished(common::ANSWER_TIMEOUT).unwrap().expect("an answer at once");
            prepared = Some(returned);
        }
        stop.store(true, Ordering::Relaxed);
    });
    hostile.assert_guest_is_served();
}
