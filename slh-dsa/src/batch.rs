//! The hash functions F, H, T and PRF (FIPS 205, 11.1 and 11.2), many calls at a time. Every call hashes PK.seed, an address and a
//! message.

use alloc::vec::Vec;
use core::ops::Range;

use gantry_digest::internal::prefixed::{Prefix, PrefixedMessages};

use crate::address::{Address, AddressKind, COMPRESSED_ADDRESS_BYTES, FULL_ADDRESS_BYTES};
use crate::parameters::Parameters;

/// The hash functions of one public key.
pub(crate) struct Hashes {
    pub(crate) set: &'static Parameters,
    /// The prefix of F and PRF.
    short_prefix: Prefix,
    /// The prefix of H and T.
    long_prefix: Prefix,
}

impl Hashes {
    pub(crate) fn new(set: &'static Parameters, public_seed: &[u8]) -> Self {
        let mut padded = [0; 128];
        padded[..set.n].copy_from_slice(public_seed);
        // SHA-2 pads PK.seed to a whole block. Only H and T change to SHA-512 with digests of more than 16 bytes (FIPS 205, 11.2).
        let (short_prefix, long_prefix) = match (set.is_shake, set.n) {
            (true, n) => (Prefix::shake256(&padded[..n]), Prefix::shake256(&padded[..n])),
            (false, 16) => (Prefix::sha256(&padded[..64]), Prefix::sha256(&padded[..64])),
            (false, _) => (Prefix::sha256(&padded[..64]), Prefix::sha512(&padded)),
        };
        Hashes { set, short_prefix, long_prefix }
    }

    /// Prepares `count` calls of F or PRF.
    pub(crate) fn short_batch(&self, count: usize) -> Batch {
        self.batch(&self.short_prefix, 1, count)
    }

    /// Prepares `count` calls of H or T, over `digests` digests each.
    pub(crate) fn long_batch(&self, digests: usize, count: usize) -> Batch {
        self.batch(&self.long_prefix, digests, count)
    }

    fn batch(&self, prefix: &Prefix, digests: usize, count: usize) -> Batch {
        let address_len = if self.set.is_shake { FULL_ADDRESS_BYTES } else { COMPRESSED_ADDRESS_BYTES };
        Batch {
            messages: PrefixedMessages::new(prefix, address_len + digests * self.set.n, count),
            address_len,
            n: self.set.n,
        }
    }
}

/// Calls with messages of equal length. The messages are zeroized on drop.
pub(crate) struct Batch {
    messages: PrefixedMessages,
    /// Bytes of an address.
    address_len: usize,
    n: usize,
}

impl Batch {
    /// Sets the address of a call.
    pub(crate) fn set_address(&mut self, call: usize, kind: AddressKind, address: &Address) {
        let address_len = self.address_len;
        address.write(kind, &mut self.messages.message_mut(call)[..address_len]);
    }

    /// Sets the index of the hash in its chain, below 16, in the address of each call. The other fields of the addresses stay.
    pub(crate) fn set_hash_index(&mut self, calls: Range<usize>, hash: u8) {
        let last = self.address_len - 1;
        calls.for_each(|call| self.messages.message_mut(call)[last] = hash);
    }

    /// Sets the message of a call.
    pub(crate) fn set_message(&mut self, call: usize, message: &[u8]) {
        let address_len = self.address_len;
        self.messages.message_mut(call)[address_len..].copy_from_slice(message);
    }

    /// Returns the message of a call.
    pub(crate) fn message(&self, call: usize) -> &[u8] {
        &self.messages.message(call)[self.address_len..]
    }

    /// Replaces the messages of `calls` by their digests.
    pub(crate) fn hash_in_place(&mut self, calls: Range<usize>) {
        self.messages.digest_in_place(calls, self.address_len, self.n);
    }

    /// Writes the digests of the first calls, until `output` is full.
    pub(crate) fn hash(&self, output: &mut [u8]) {
        self.messages.digest(self.n, output);
    }

    /// Returns the digest of the first call.
    pub(crate) fn hash_one(&self) -> Vec<u8> {
        let mut digest = alloc::vec![0; self.n];
        self.hash(&mut digest);
        digest
    }
}
