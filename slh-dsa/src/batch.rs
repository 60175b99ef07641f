//! The hash functions (FIPS 205, 11.1 and 11.2), many calls at a time: F, H, T and PRF are one function of PK.seed, an address and a
//! message, but for the hash function behind it.

use alloc::vec::Vec;
use core::ops::Range;

use gantry_digest::prefixed::{Messages, Prefix};

use crate::address::{Address, COMPRESSED, FULL, Kind};
use crate::parameters::Parameters;

/// The hash functions of one public key.
pub(crate) struct Hashes {
    pub(crate) set: &'static Parameters,
    /// F and PRF.
    short: Prefix,
    /// H and T.
    long: Prefix,
}

impl Hashes {
    pub(crate) fn new(set: &'static Parameters, public_seed: &[u8]) -> Self {
        let mut padded = [0; 128];
        padded[..set.n].copy_from_slice(public_seed);
        let (short, long) = match (set.shake, set.n) {
            (true, n) => (Prefix::shake256(&padded[..n]), Prefix::shake256(&padded[..n])),
            (false, 16) => (Prefix::sha256(&padded[..64]), Prefix::sha256(&padded[..64])),
            (false, _) => (Prefix::sha256(&padded[..64]), Prefix::sha512(&padded)),
        };
        Hashes { set, short, long }
    }

    /// So many calls of F or PRF.
    pub(crate) fn of_one(&self, count: usize) -> Batch {
        self.batch(&self.short, 1, count)
    }

    /// So many calls of H or T with so many digests each.
    pub(crate) fn of_many(&self, digests: usize, count: usize) -> Batch {
        self.batch(&self.long, digests, count)
    }

    fn batch(&self, prefix: &Prefix, digests: usize, count: usize) -> Batch {
        let address = if self.set.shake { FULL } else { COMPRESSED };
        Batch { messages: Messages::new(prefix, address + digests * self.set.n, count), address, n: self.set.n }
    }
}

/// Calls with messages of one length, which are zeroized when they are dropped.
pub(crate) struct Batch {
    messages: Messages,
    /// Bytes of an address.
    address: usize,
    n: usize,
}

impl Batch {
    /// Sets the address of a call.
    pub(crate) fn set_address(&mut self, call: usize, kind: Kind, address: &Address) {
        let length = self.address;
        address.write(kind, &mut self.messages.message_mut(call)[..length]);
    }

    /// Sets the hash in its chain, which is less than 16, and nothing else of the addresses.
    pub(crate) fn set_hash(&mut self, calls: Range<usize>, hash: u8) {
        let last = self.address - 1;
        calls.for_each(|call| self.messages.message_mut(call)[last] = hash);
    }

    /// Sets the message of a call.
    pub(crate) fn set_message(&mut self, call: usize, message: &[u8]) {
        let address = self.address;
        self.messages.message_mut(call)[address..].copy_from_slice(message);
    }

    /// The message of a call, to be read.
    pub(crate) fn message(&self, call: usize) -> &[u8] {
        &self.messages.message(call)[self.address..]
    }

    /// Makes the messages of calls the digests of themselves.
    pub(crate) fn hash_in_place(&mut self, calls: Range<usize>) {
        self.messages.digest_in_place(calls, self.address, self.n);
    }

    /// Writes the digests of the first calls, as many as have a place.
    pub(crate) fn hash(&self, output: &mut [u8]) {
        self.messages.digest(self.n, output);
    }

    /// The digest of the first call.
    pub(crate) fn hash_one(&self) -> Vec<u8> {
        let mut digest = alloc::vec![0; self.n];
        self.hash(&mut digest);
        digest
    }
}
