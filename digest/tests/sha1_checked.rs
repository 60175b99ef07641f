//! Compares the results with the results of the crate `sha1-checked` for many random messages, which takes minutes:
//! `cargo test -p gantry-digest --test sha1_checked -- --ignored`

use gantry_digest::{Collision, Sha1Checked};

const MESSAGES: usize = 100_000_000;
const BATCH: usize = 1000;

/// Messages of 0 to 127 bytes.
#[test]
#[ignore = "minutes"]
fn a_hundred_million_random_messages_have_the_results_of_sha1_checked() {
    // Xorshift (Marsaglia 2003).
    let mut state = 0x3130_5e38_u64;
    let mut bytes = vec![0; 128 * BATCH];
    let mut results = vec![Ok([0; 20]); BATCH];
    for _ in 0..MESSAGES / BATCH {
        for word in bytes.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let messages: Vec<&[u8]> = bytes.chunks_exact(128).map(|slot| &slot[1..][..usize::from(slot[0] / 2)]).collect();
        Sha1Checked::digest_many(&messages, &mut results).unwrap();
        for (result, message) in results.iter().zip(&messages) {
            let peer = sha1_checked::Sha1::try_digest(message);
            let peer = if peer.has_collision() { Err(Collision) } else { Ok((*peer.hash()).into()) };
            assert_eq!(*result, peer, "{message:02x?}");
        }
    }
}
