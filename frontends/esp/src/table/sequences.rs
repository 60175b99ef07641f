//! Sequence numbers used under keys whose SAs were removed.
//!
//! An IKE daemon that moves an SA reads the SA's sequence numbers, deletes the SA, and adds it again. Packets may pass after the daemon has
//! read the numbers. So an SA with the same key continues after the last number that was really used, not after the daemon's number.
//! AES-GCM, ChaCha20-Poly1305 and AES-CTR lose their security if a number repeats (RFC 4106, 3). Addresses do not matter, since the peer
//! may have moved.
//!
//! The table holds an HMAC of each key under a random key, and no keys.

use std::collections::HashMap;
use std::io;

use gantry_digest::{Algorithm, HmacKey};

use super::Refusal;
use super::association::SupportedSa;

/// Maximum number of remembered keys of a direction. It equals the maximum number of SAs.
const MAX_KEYS: usize = 65_536;
/// Maximum of the sequence numbers that an SA with a fresh key may skip: a peer with extended numbers expects a first number below 2^32.
const MAX_SKIPPED_NUMBERS: u64 = 1 << 31;

/// The fingerprint of a key, which does not reveal the key. Without the random HMAC key not even a guess can be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 16]);

/// The sequence numbers of both directions.
#[derive(Debug)]
pub(super) struct SequenceHistory {
    hmac: HmacKey,
    pub(super) sent: LastNumbers,
    pub(super) received: LastNumbers,
}

impl SequenceHistory {
    /// Creates an empty table.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(super) fn new() -> io::Result<Self> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let hmac = HmacKey::new(Algorithm::Sha256, &random);
        Ok(Self { hmac, sent: LastNumbers::default(), received: LastNumbers::default() })
    }

    /// Computes the fingerprint of an SA's key. For incoming packets the fingerprint covers the SPI, as the integrity check value does. For
    /// outgoing packets the SPI is left out, because nonces do not depend on the SPI.
    pub(super) fn fingerprint(&self, sa: &SupportedSa<'_>) -> Fingerprint {
        let spi = sa.sa.id.spi.to_be_bytes();
        self.hash(if sa.is_incoming { &spi } else { &[] }, sa.keyed.secret())
    }

    fn hash(&self, context: &[u8], key: &[u8]) -> Fingerprint {
        let (mut hasher, mut output) = (self.hmac.hasher(), [0; 32]);
        hasher.update(context);
        hasher.update(key);
        // This fails only for outputs of a length other than the digest's.
        let _ = hasher.finish(&mut output);
        Fingerprint(*output.first_chunk().unwrap_or(&[0; 16]))
    }
}

/// The highest sequence number of each key.
///
/// The table is bounded. When it is full, it forgets the half with the lowest numbers, and keeps only the highest of these numbers. An SA
/// with an unknown key may have one of the forgotten keys, and so begins after the highest forgotten number.
#[derive(Debug, Default)]
pub(super) struct LastNumbers {
    by_key: HashMap<Fingerprint, u64>,
    /// The highest sequence number of a forgotten key.
    highest_forgotten: u64,
}

impl LastNumbers {
    /// Remembers the last sequence number of a removed SA.
    pub(super) fn record(&mut self, key: Fingerprint, last: u64) {
        // A key without used numbers is as good as a fresh one.
        if last > 0 {
            let recorded = self.by_key.entry(key).or_default();
            *recorded = last.max(*recorded);
        }
        if self.by_key.len() > MAX_KEYS {
            let mut all: Vec<u64> = self.by_key.values().copied().collect();
            let (_, median, _) = all.select_nth_unstable(MAX_KEYS / 2);
            self.highest_forgotten = self.highest_forgotten.max(*median);
            self.by_key.retain(|_, last| *last > *median);
        }
    }

    /// Returns the number after which an SA begins to send, given the daemon's number.
    ///
    /// # Errors
    /// ENOBUFS if too many numbers would be skipped.
    pub(super) fn last_sent(&self, key: Fingerprint, daemon_sequence: u64) -> Result<u64, Refusal> {
        match self.by_key.get(&key) {
            Some(last) => Ok(daemon_sequence.max(*last)),
            None if self.highest_forgotten > MAX_SKIPPED_NUMBERS => {
                Err(Refusal::new(libc::ENOBUFS, "too many keys were used: restart the data path"))
            }
            None => Ok(daemon_sequence.max(self.highest_forgotten)),
        }
    }

    /// Returns the number after which packets of an SA may arrive, given the daemon's number. An unknown key is fresh if that
    /// number is 0: its peer begins with the first number.
    pub(super) fn last_received(&self, key: Fingerprint, daemon_sequence: u64) -> u64 {
        match self.by_key.get(&key) {
            Some(last) => daemon_sequence.max(*last),
            None if daemon_sequence == 0 => 0,
            None => daemon_sequence.max(self.highest_forgotten),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Fingerprint {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_ne_bytes());
        Fingerprint(bytes)
    }

    #[test]
    fn fingerprints_are_unique_to_key_context_and_process() {
        let (one, two) = (SequenceHistory::new().unwrap(), SequenceHistory::new().unwrap());
        assert_eq!(one.hash(b"x", b"a key"), one.hash(b"x", b"a key"));
        assert_ne!(one.hash(b"x", b"a key"), one.hash(b"x", b"a kez"));
        assert_ne!(one.hash(b"x", b"a key"), one.hash(b"y", b"a key"));
        assert_ne!(one.hash(b"x", b"a key"), two.hash(b"x", b"a key"), "each process has its own");
    }

    #[test]
    fn fresh_keys_begin_after_all_forgotten_numbers() {
        let mut numbers = LastNumbers::default();
        let many = 3 * MAX_KEYS as u64;
        for number in 1..=many {
            numbers.record(key(number), number * 7 % 1_000_003 + 1);
        }
        assert!(numbers.by_key.len() <= MAX_KEYS && numbers.highest_forgotten > 0);
        for number in 1..=many {
            let begins = numbers.last_sent(key(number), 0).unwrap();
            assert!(begins > number * 7 % 1_000_003, "{number}");
        }
        let fresh = key(many + 1);
        assert_eq!(numbers.last_sent(fresh, 0), Ok(numbers.highest_forgotten));
        assert_eq!(numbers.last_sent(fresh, 1 << 40), Ok(1 << 40));
        assert_eq!((numbers.last_received(fresh, 0), numbers.last_received(fresh, 1)), (0, numbers.highest_forgotten));
    }

    #[test]
    fn equal_numbers_are_forgotten_together() {
        let mut numbers = LastNumbers::default();
        (0..=MAX_KEYS as u64).for_each(|number| numbers.record(key(number), 5));
        assert_eq!((numbers.by_key.len(), numbers.last_sent(key(0), 0)), (0, Ok(5)));
        (0..=MAX_KEYS as u64).for_each(|number| numbers.record(key(number), u64::MAX));
        assert_eq!(numbers.last_sent(key(0), 0).unwrap_err().errno, libc::ENOBUFS);
        // Keys without used numbers take no memory.
        let mut numbers = LastNumbers::default();
        (0..100).for_each(|number| numbers.record(key(number), 0));
        assert!(numbers.by_key.is_empty());
    }
}
