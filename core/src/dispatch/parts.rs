//! What a submission consists of, and the operands that it lends.

use smallvec::SmallVec;
use zeroize::Zeroizing;

use super::assorted::Assorted;
use crate::algorithm::{Buffers, Length, Operation};
use crate::driver::{Fields, Operands};

#[derive(Clone)]
pub(super) struct Parts {
    pub(super) operation: Operation,
    pub(super) iv: SmallVec<[u8; 24]>,
    pub(super) aad: Vec<u8>,
    pub(super) data: Vec<u8>,
    /// Where the result goes, if not into `data`.
    pub(super) output: Option<Vec<u8>>,
    /// The data and where the result goes, if something of that is no vector: the two above are empty then.
    pub(super) assorted: Option<Box<Assorted>>,
    /// Digest, MAC, tag, signature, secret, private key, ciphertext or deciphered message. Wiped, because a MAC may be a secret until it is sent; data is the caller's to wipe.
    pub(super) tag: Zeroizing<[u8; SHORT_TAG]>,
    /// The same, of what is longer: signatures and messages of RSA, digests of any length, and private keys.
    pub(super) long_tag: Zeroizing<Vec<u8>>,
    pub(super) tag_length: usize,
    /// Random bytes that keys or a secret are made from.
    pub(super) seed: Zeroizing<Vec<u8>>,
    /// Bytes of the output that are the result, of compression; of packets, those of the payload; of what was deciphered, those of the
    /// message.
    pub(super) written: usize,
    pub(super) user: u64,
}

/// SHA-512 and its HMAC, and Ed25519.
pub(super) const SHORT_TAG: usize = 64;

impl Parts {
    /// Where a tag of so many bytes is.
    #[inline]
    pub(super) fn place<'t>(short: &'t mut [u8; SHORT_TAG], long: &'t mut Vec<u8>, length: usize) -> &'t mut [u8] {
        if length > SHORT_TAG {
            long.resize(length, 0);
            return long;
        }
        &mut short[..length]
    }

    /// What to do, on the buffers that `buffers` finds.
    #[inline(always)]
    pub(super) fn operands<'a>(
        &'a mut self,
        result: usize,
        buffers: impl FnOnce(&'a mut Vec<u8>, &'a mut Option<Vec<u8>>, &'a mut Option<Box<Assorted>>) -> Buffers<'a>,
    ) -> Operands<'a> {
        if self.operation.is_rare() {
            return self.rare(result);
        }
        let Parts { operation, iv, aad, data, output, assorted, tag, long_tag, tag_length, .. } = self;
        if matches!(operation, Operation::Digest | Operation::Mac | Operation::Sign | Operation::Derive) {
            *tag_length = result;
        }
        let tag = Parts::place(tag, long_tag, *tag_length);
        let buffers = || buffers(data, output, assorted);
        match *operation {
            Operation::Digest => Operands::Digest { input: buffers().into_input(), output: tag },
            Operation::Mac => Operands::Mac { iv, input: buffers().into_input(), output: tag },
            Operation::Seal => Operands::Seal { iv, aad, data: buffers(), tag },
            Operation::Open => Operands::Open { iv, aad, data: buffers(), tag },
            Operation::Sign => Operands::Sign { input: buffers().into_input(), output: tag },
            Operation::Verify => Operands::Verify { input: buffers().into_input(), signature: tag },
            Operation::Derive => Operands::Derive { input: buffers().into_input(), output: tag },
            operation => Operands::Cipher { operation, iv, data: buffers() },
        }
    }

    /// The same of operations that have operands of their own.
    #[inline(never)]
    fn rare(&mut self, result: usize) -> Operands<'_> {
        let Parts { operation, iv, data, output, assorted, tag, long_tag, tag_length, seed, written, .. } = self;
        let row = operation.info();
        if row.in_place {
            let packet = match assorted {
                Some(assorted) => assorted.buffers().into_output(),
                None => data,
            };
            let fields = Fields { iv, aad: &[], input: None, output: packet, tag: &mut tag[..1], written };
            return Operands::of(*operation, fields);
        }
        let input = match assorted {
            Some(assorted) => assorted.buffers().into_input(),
            None => data,
        };
        if row.output == Length::Tag || row.tag == Length::Tag {
            *tag_length = result;
        }
        let tag = Parts::place(tag, long_tag, *tag_length);
        let (output, tag) =
            if row.output == Length::Tag { (tag, &mut [][..]) } else { (&mut output.get_or_insert_default()[..], tag) };
        Operands::of(*operation, Fields { iv: seed, aad: &[], input: Some(input), output, tag, written })
    }
}
