//! The driver's side of a ring against rust-vmm's device side, the crate `virtio-queue`.

use std::time::Duration;

use gantry_vhost_user_front::memory::Memory;
use gantry_vhost_user_front::ring::{Part, Ring};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap};

const SIZE: u16 = 8;

/// A ring, and a device that has mapped the same memory.
struct Pair {
    memory: Memory,
    ring: Ring,
    map: GuestMemoryMmap,
    device: Queue,
}

impl Pair {
    fn new(event_index: bool) -> Self {
        let mut memory = Memory::new(&[(0x1000, 64 << 10)]).unwrap();
        let ring = Ring::new(&mut memory, 0, SIZE, event_index).unwrap();
        let map = map_again(&memory);
        let [descriptors, available, used] = ring.addresses();
        let mut device = Queue::new(SIZE).unwrap();
        device.try_set_desc_table_address(GuestAddress(descriptors)).unwrap();
        device.try_set_avail_ring_address(GuestAddress(available)).unwrap();
        device.try_set_used_ring_address(GuestAddress(used)).unwrap();
        device.set_event_idx(event_index);
        device.set_ready(true);
        assert!(device.is_valid(&map));
        Self { memory, ring, map, device }
    }

    /// Returns the chains that the device finds: head, and address, length and direction of each descriptor.
    fn chains_found(&mut self) -> Vec<(u16, Vec<Part>)> {
        let chains: Vec<_> = self.device.iter(&self.map).unwrap().collect();
        let parts = |descriptor: virtio_queue::desc::split::Descriptor| Part {
            address: descriptor.addr().0,
            length: descriptor.len(),
            writable: descriptor.is_write_only(),
        };
        chains.into_iter().map(|chain| (chain.head_index(), chain.map(parts).collect())).collect()
    }
}

/// Maps the same files again, as a back end does.
fn map_again(memory: &Memory) -> GuestMemoryMmap {
    let ranges = memory.regions().unwrap().into_iter().map(|region| {
        // Through /proc the file is opened again, so that the descriptor belongs to this mapping alone.
        let path = format!("/proc/self/fd/{}", region.mmap_handle);
        let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let offset = vm_memory::FileOffset::new(file, region.mmap_offset);
        (GuestAddress(region.guest_phys_addr), region.memory_size as usize, Some(offset))
    });
    GuestMemoryMmap::from_ranges_with_files(ranges).unwrap()
}

fn parts(count: u32) -> Vec<Part> {
    let part = |at: u32| Part { address: 0x8000 + 256 * u64::from(at), length: 16 + at, writable: at * 2 >= count };
    (0..count).map(part).collect()
}

#[test]
fn a_device_finds_chains_as_they_were_added() {
    let mut pair = Pair::new(false);
    let table = pair.memory.allocate(0, 4096).unwrap();
    let direct = pair.ring.add(&parts(3), None).unwrap().unwrap();
    let indirect = pair.ring.add(&parts(20), Some(table)).unwrap().unwrap();
    assert_eq!(pair.chains_found(), [], "the index is not published yet");
    pair.ring.publish().unwrap();
    assert_eq!(pair.chains_found(), [(direct, parts(3)), (indirect, parts(20))]);
}

#[test]
fn descriptors_of_used_chains_are_free_again() {
    let mut pair = Pair::new(false);
    // The indices of a ring of 8 wrap many times.
    for round in 0..100_000_u32 / 8 {
        let first = pair.ring.add(&parts(5), None).unwrap().unwrap();
        assert_eq!(pair.ring.add(&parts(4), None).unwrap(), None, "three descriptors are left");
        let second = pair.ring.add(&parts(3), None).unwrap().unwrap();
        pair.ring.publish().unwrap();
        assert_eq!(pair.chains_found(), [(first, parts(5)), (second, parts(3))]);
        for head in [second, first] {
            pair.device.add_used(&pair.map, head, round).unwrap();
            let used = pair.ring.wait_for_used(Duration::from_secs(1)).unwrap().unwrap();
            assert_eq!((used.head, used.written), (u32::from(head), round));
        }
        assert_eq!(pair.ring.pop_used().unwrap(), None);
    }
}

#[test]
fn a_device_that_polls_is_not_notified() {
    let mut pair = Pair::new(true);
    let kicked = |pair: &Pair| pair.ring.kick_event().read().is_ok();
    // The device waits for the first chain: `avail_event` is 0.
    pair.ring.add(&parts(1), None).unwrap();
    pair.ring.publish().unwrap();
    assert!(kicked(&pair));
    // The device has not asked again.
    pair.ring.add(&parts(1), None).unwrap();
    pair.ring.publish().unwrap();
    assert!(!kicked(&pair));
    assert_eq!(pair.chains_found().len(), 2);
    assert!(!pair.device.enable_notification(&pair.map).unwrap());
    pair.ring.add(&parts(1), None).unwrap();
    pair.ring.publish().unwrap();
    assert!(kicked(&pair));
}

#[test]
fn a_waiting_driver_requests_an_event() {
    let mut pair = Pair::new(true);
    let head = pair.ring.add(&parts(1), None).unwrap().unwrap();
    pair.ring.publish().unwrap();
    assert_eq!(pair.chains_found().len(), 1);
    let call = pair.ring.call_event().try_clone().unwrap();
    let Pair { mut ring, map, mut device, .. } = pair;
    let waiting = std::thread::spawn(move || ring.wait_for_used(Duration::from_secs(20)).unwrap());
    device.add_used(&map, head, 7).unwrap();
    if device.needs_notification(&map).unwrap() {
        call.write(1).unwrap();
    }
    assert_eq!(waiting.join().unwrap().unwrap().written, 7);
}

#[test]
fn a_wait_without_an_answer_ends_in_time() {
    let mut pair = Pair::new(true);
    let begin = std::time::Instant::now();
    assert_eq!(pair.ring.wait_for_used(Duration::from_millis(20)).unwrap(), None);
    assert!(begin.elapsed() >= Duration::from_millis(20));
}
