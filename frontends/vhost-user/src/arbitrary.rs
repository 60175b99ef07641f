//! Rings with arbitrary bytes, for tests.

use gantry_abi_virtio_crypto::Features;
use gantry_abi_virtio_crypto::constants::{aead, cipher};
use gantry_abi_virtio_crypto::session::{Aead, Cipher, Direction, Session};
use gantry_core::Gantry;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::chain::Chain;
use crate::control;
use crate::session::Sessions;
use crate::task::{Task, run_tasks};

/// Bytes of the guest's memory.
const MEMORY_BYTES: usize = 64 << 10;
/// Descriptors of the ring.
const RING_SIZE: u16 = 16;
/// Address of the available ring; the descriptor table is at 0.
pub(crate) const AVAILABLE_RING_ADDRESS: u64 = 0x100;
/// Address of the used ring.
pub(crate) const USED_RING_ADDRESS: u64 = 0x200;
/// The key of the sessions.
pub(crate) const KEY: [u8; 16] = [7; 16];

/// Answers all requests of a ring in guest memory that begins with `bytes`. Returns the number of requests. The ring has 16 descriptors
/// from address 0, its available ring at 0x100 and its used ring at 0x200; the memory ends at 64 KiB. Session 1 encrypts with
/// AES-128-CBC, session 2 opens AES-128-GCM. `is_control` makes the ring the control queue.
pub fn answer_arbitrary_ring(gantry: &Gantry, bytes: &[u8], features: u64, is_control: bool) -> usize {
    guest_memory(bytes).map_or(0, |memory| answer_ring(gantry, &memory, features, is_control))
}

pub(crate) fn guest_memory(bytes: &[u8]) -> Option<GuestMemoryMmap> {
    let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).ok()?;
    memory.write_slice(&bytes[..bytes.len().min(MEMORY_BYTES)], GuestAddress(0)).ok()?;
    Some(memory)
}

pub(crate) fn answer_ring(gantry: &Gantry, memory: &GuestMemoryMmap, features: u64, is_control: bool) -> usize {
    let Ok(mut queue) = Queue::new(RING_SIZE) else { return 0 };
    queue.set_avail_ring_address(Some(AVAILABLE_RING_ADDRESS as u32), None);
    queue.set_used_ring_address(Some(USED_RING_ADDRESS as u32), None);
    queue.set_ready(true);
    let mut sessions = Sessions::new(gantry.clone(), 16);
    let cbc = Cipher { algo: cipher::AES_CBC, key_len: 16, op: Direction::Encrypt };
    let gcm = Aead { algo: aead::GCM, key_len: 16, tag_len: 16, aad_len: 0, op: Direction::Decrypt };
    for session in [Session::Cipher(cbc), Session::Aead(gcm)] {
        let _ = sessions.open(&session, &KEY, &[]);
    }
    let features = Features::from_bits(features);
    let Ok(chains) = queue.iter(memory) else { return 0 };
    let mut tasks = Vec::new();
    let mut count = 0;
    for chain in chains {
        count += 1;
        let (head, chain) = (chain.head_index(), Chain::walk(chain));
        if is_control {
            control::answer(&chain, memory, &mut sessions, features);
        } else {
            let mut task = Task::new();
            task.read_request(head, chain, memory, &sessions, features);
            tasks.push(task);
        }
    }
    run_tasks(&mut tasks);
    for task in &mut tasks {
        let written = task.answer(memory).unwrap_or(0);
        let _ = queue.add_used(memory, task.head, written);
    }
    count
}

#[cfg(test)]
mod tests {
    use gantry_abi_virtio_crypto::constants::operation;
    use gantry_abi_virtio_crypto::data::{Header, OperandLengths, Request};

    use super::*;

    const ALL_FEATURES: u64 = 0x3f;
    const OUTPUT_ADDRESS: u64 = 0x1000;

    /// Builds a ring with one request of 64 bytes: header and source in the first descriptor, destination and status in the second.
    fn ring() -> Vec<u8> {
        let lengths = OperandLengths::Cipher { iv_len: 16, source_len: 64, destination_len: 64 };
        let header = Header { opcode: operation::CIPHER_ENCRYPT, algo: 0, session_id: 1, flag: 0 };
        let mut input = Request { session_parameters: None, lengths, has_stateless_layout: false }
            .encode(&header, Features::LEGACY);
        input.extend([9; 16]);
        input.extend([1; 64]);
        let mut bytes = vec![0; 0x400];
        let mut descriptor = |at: usize, address: u64, length: u32, flags: u16, next: u16| {
            bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            bytes[at + 8..at + 12].copy_from_slice(&length.to_le_bytes());
            bytes[at + 12..at + 14].copy_from_slice(&flags.to_le_bytes());
            bytes[at + 14..at + 16].copy_from_slice(&next.to_le_bytes());
        };
        descriptor(0, 0x400, input.len() as u32, 1, 1);
        descriptor(16, OUTPUT_ADDRESS, 65, 2, 0);
        // One chain, which begins with descriptor 0.
        bytes[AVAILABLE_RING_ADDRESS as usize + 2] = 1;
        bytes.extend(input);
        bytes
    }

    fn framework() -> Gantry {
        gantry_runtime::open(gantry_runtime::Config::default()).unwrap()
    }

    #[test]
    fn a_request_is_answered_in_its_chain() {
        let (gantry, memory) = (framework(), guest_memory(&ring()).unwrap());
        assert_eq!(answer_ring(&gantry, &memory, 0, false), 1);
        let mut written = [0xff; 65];
        memory.read_slice(&mut written, GuestAddress(OUTPUT_ADDRESS)).unwrap();
        let mut expected = [1; 64];
        let session = gantry.session(gantry_core::SessionParams::new(gantry_core::Algorithm::Aes128Cbc, &KEY)).unwrap();
        session.encrypt(&[9; 16], &mut expected[..]).unwrap();
        assert_eq!((&written[..64], written[64]), (&expected[..], 0));
        let mut used = [0; 12];
        memory.read_slice(&mut used, GuestAddress(USED_RING_ADDRESS)).unwrap();
        assert_eq!(used, [0, 0, 1, 0, 0, 0, 0, 0, 65, 0, 0, 0]);
    }

    /// Flips a few bits of the ring, the descriptors and the request at a time.
    #[test]
    fn damaged_rings_do_not_panic() {
        let (gantry, good) = (framework(), ring());
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % below
        };
        let mut answered = 0;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=random(6) {
                // Most of the first kibibyte is unused.
                let at = match random(3) {
                    0 => random(32),
                    1 => AVAILABLE_RING_ADDRESS as usize + random(8),
                    _ => 0x400 + random(bytes.len() - 0x400),
                };
                bytes[at] ^= 1 << random(8);
            }
            answered +=
                answer_arbitrary_ring(&gantry, &bytes, if random(2) == 0 { 0 } else { ALL_FEATURES }, random(4) == 0);
        }
        assert!(answered > 10_000, "{answered}");
    }
}
