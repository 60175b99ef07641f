//! Numbers that are used up under keys whose SAs are gone.
//!
//! An IKE daemon that moves an SA reads its numbers, deletes it and adds it again; packets pass between the first step and the second. Under
//! the same key the SA goes on behind all of them, and not behind the daemon's number, because AES-GCM, ChaCha20-Poly1305 and AES-CTR lose
//! their secrets when a number is used twice (RFC 4106, 3). Addresses do not count: the peer has moved to another one.
//!
//! The memory holds an HMAC of each key under a random key, and no keys.

use std::collections::HashMap;
use std::io;

use gantry_digest::{Algorithm, HmacKey};

use super::Refusal;
use super::association::Checked;

/// Most keys of a direction that are remembered: as many as there may be SAs.
const MOST: usize = 65_536;
/// The most numbers that an SA with a fresh key may leave out: a peer of extended numbers expects the first of them below 2^32.
const MOST_LEFT_OUT: u64 = 1 << 31;

/// Stands for a key, which it does not give away; without the random key not even a guess can be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 16]);

/// Both directions.
#[derive(Debug)]
pub(super) struct Used {
    hmac: HmacKey,
    pub(super) sent: Numbers,
    pub(super) arrived: Numbers,
}

impl Used {
    /// # Errors
    /// The system has no random bytes.
    pub(super) fn new() -> io::Result<Self> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let hmac = HmacKey::new(Algorithm::Sha256, &random);
        Ok(Self { hmac, sent: Numbers::default(), arrived: Numbers::default() })
    }

    /// The fingerprint of an SA's key. That of arriving packets covers the SPI as well, as their integrity check value does; nonces have none.
    pub(super) fn fingerprint(&self, sa: &Checked<'_>) -> Fingerprint {
        let spi = sa.sa.id.spi.to_be_bytes();
        self.of(if sa.arrives { &spi } else { &[] }, sa.keyed.secret())
    }

    fn of(&self, context: &[u8], key: &[u8]) -> Fingerprint {
        let (mut hasher, mut output) = (self.hmac.hasher(), [0; 32]);
        hasher.update(context);
        hasher.update(key);
        // It fails for outputs of another length than the digest only.
        let _ = hasher.finish(&mut output);
        Fingerprint(*output.first_chunk().unwrap_or(&[0; 16]))
    }
}

/// The highest number of each key.
///
/// The memory is bounded. A full one forgets the half with the lowest numbers, and keeps the highest of these: an SA with an unknown key may have
/// one of the forgotten keys, and so begins behind all of them.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: HashMap<Fingerprint, u64>,
    /// The highest number of a key that was forgotten.
    forgotten: u64,
}

impl Numbers {
    /// Remembers the last number of an SA that is gone.
    pub(super) fn note(&mut self, key: Fingerprint, last: u64) {
        // A key without numbers is as good as a fresh one.
        if last > 0 {
            let known = self.last.entry(key).or_default();
            *known = last.max(*known);
        }
        if self.last.len() > MOST {
            let mut all: Vec<u64> = self.last.values().copied().collect();
            let (_, median, _) = all.select_nth_unstable(MOST / 2);
            self.forgotten = self.forgotten.max(*median);
            self.last.retain(|_, last| *last > *median);
        }
    }

    /// The number behind which an SA begins to send, given the daemon's.
    ///
    /// # Errors
    /// ENOBUFS where too many numbers would be left out.
    pub(super) fn behind(&self, key: Fingerprint, said: u64) -> Result<u64, Refusal> {
        match self.last.get(&key) {
            Some(last) => Ok(said.max(*last)),
            None if self.forgotten > MOST_LEFT_OUT => {
                Err(Refusal::new(libc::ENOBUFS, "too many keys were used: start the data path again"))
            }
            None => Ok(said.max(self.forgotten)),
        }
    }

    /// The number behind which packets of an SA may arrive, given the daemon's. An unknown key of which nothing has come, according to the
    /// daemon, is a fresh one: its peer begins with the first number.
    pub(super) fn arrived(&self, key: Fingerprint, said: u64) -> u64 {
        match self.last.get(&key) {
            Some(last) => said.max(*last),
            None if said == 0 => 0,
            None => said.max(self.forgotten),
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
    fn a_key_has_one_fingerprint_and_others_have_others() {
        let (one, two) = (Used::new().unwrap(), Used::new().unwrap());
        assert_eq!(one.of(b"x", b"a key"), one.of(b"x", b"a key"));
        assert_ne!(one.of(b"x", b"a key"), one.of(b"x", b"a kez"));
        assert_ne!(one.of(b"x", b"a key"), one.of(b"y", b"a key"));
        assert_ne!(one.of(b"x", b"a key"), two.of(b"x", b"a key"), "each process has its own");
    }

    #[test]
    fn what_was_forgotten_is_behind_what_begins() {
        let mut numbers = Numbers::default();
        let many = 3 * MOST as u64;
        for number in 1..=many {
            numbers.note(key(number), number * 7 % 1_000_003 + 1);
        }
        assert!(numbers.last.len() <= MOST && numbers.forgotten > 0);
        for number in 1..=many {
            let begins = numbers.behind(key(number), 0).unwrap();
            assert!(begins > number * 7 % 1_000_003, "{number}");
        }
        let fresh = key(many + 1);
        assert_eq!(numbers.behind(fresh, 0), Ok(numbers.forgotten));
        assert_eq!(numbers.behind(fresh, 1 << 40), Ok(1 << 40));
        assert_eq!((numbers.arrived(fresh, 0), numbers.arrived(fresh, 1)), (0, numbers.forgotten));
    }

    #[test]
    fn numbers_of_one_size_are_forgotten_too() {
        let mut numbers = Numbers::default();
        (0..=MOST as u64).for_each(|number| numbers.note(key(number), 5));
        assert_eq!((numbers.last.len(), numbers.behind(key(0), 0)), (0, Ok(5)));
        (0..=MOST as u64).for_each(|number| numbers.note(key(number), u64::MAX));
        assert_eq!(numbers.behind(key(0), 0).unwrap_err().errno, libc::ENOBUFS);
        // Keys without numbers take no memory.
        let mut numbers = Numbers::default();
        (0..100).for_each(|number| numbers.note(key(number), 0));
        assert!(numbers.last.is_empty());
    }
}
