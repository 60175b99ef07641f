//! The parts of a submission, and the operands that point into it.

use smallvec::SmallVec;
use zeroize::Zeroizing;

use crate::algorithm::{Buffers, Data, FieldLength, Operation, Outcome, Segments};
use crate::driver::{Fields, Operands, Scattered};

#[derive(Clone)]
pub(crate) struct SubmissionParts {
    pub(crate) operation: Operation,
    pub(crate) iv: SmallVec<[u8; 24]>,
    pub(crate) aad: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// The output buffer, if the result does not go to `data`.
    pub(crate) output: Option<Vec<u8>>,
    /// Data and output, if one of them is not a vector. `data` is then empty, and `output` serves only for a result of compression or
    /// decompression.
    pub(crate) mixed: Option<Box<MixedBuffers>>,
    /// Digest, MAC, tag, signature, secret, private key, RSA ciphertext, deciphered message, or next header of a packet. Wiped, because
    /// some of these are secret, and a MAC may be until it is sent. The caller wipes `data`.
    pub(crate) tag: Zeroizing<[u8; SHORT_TAG_LEN]>,
    /// A tag of more than [`SHORT_TAG_LEN`] bytes, such as an RSA signature or a private key. `tag` is then unused.
    pub(crate) long_tag: Zeroizing<Vec<u8>>,
    pub(crate) tag_length: usize,
    /// Random bytes for the generation of keys or a secret.
    pub(crate) seed: Zeroizing<Vec<u8>>,
    /// Length in bytes of the compressed or decompressed data, of a packet's payload, or of a deciphered message.
    pub(crate) written: usize,
    pub(crate) user: u64,
}

/// Bytes of a tag that is stored inline: enough for SHA-512, its HMAC, and Ed25519.
pub(crate) const SHORT_TAG_LEN: usize = 64;

impl SubmissionParts {
    /// Returns the buffer for a tag of `length` bytes: a part of `short`, or `long`.
    #[inline]
    pub(crate) fn tag_buffer<'t>(
        short: &'t mut [u8; SHORT_TAG_LEN],
        long: &'t mut Vec<u8>,
        length: usize,
    ) -> &'t mut [u8] {
        if length > SHORT_TAG_LEN {
            long.resize(length, 0);
            return long;
        }
        &mut short[..length]
    }

    /// Returns the operands on the buffers that `buffers` returns; special operands use the buffers of `self`. `result_len` is the length
    /// of the session's results in bytes.
    #[inline(always)]
    pub(crate) fn operands<'a>(
        &'a mut self,
        result_len: usize,
        buffers: impl FnOnce(&'a mut Vec<u8>, &'a mut Option<Vec<u8>>, &'a mut Option<Box<MixedBuffers>>) -> Buffers<'a>,
    ) -> Operands<'a> {
        if self.operation.has_special_operands() {
            return self.special_operands(result_len);
        }
        let SubmissionParts { operation, iv, aad, data, output, mixed, tag, long_tag, tag_length, .. } = self;
        if matches!(operation, Operation::Digest | Operation::Mac | Operation::Sign | Operation::Derive) {
            *tag_length = result_len;
        }
        let tag = SubmissionParts::tag_buffer(tag, long_tag, *tag_length);
        let buffers = || buffers(data, output, mixed);
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

    /// Returns the operands of operations with a layout of their own.
    #[inline(never)]
    fn special_operands(&mut self, result_len: usize) -> Operands<'_> {
        let SubmissionParts { operation, iv, data, output, mixed, tag, long_tag, tag_length, seed, written, .. } = self;
        let row = operation.info();
        if row.in_place {
            // The operation protects or unprotects a packet, and the tag is the next header.
            let packet = match mixed {
                Some(mixed) => mixed.buffers().into_output(),
                None => data,
            };
            let fields = Fields { iv, aad: &[], input: None, output: packet, tag: &mut tag[..1], written };
            return Operands::from_fields(*operation, fields);
        }
        let input = match mixed {
            Some(mixed) => mixed.buffers().into_input(),
            None => data,
        };
        if row.output == FieldLength::Tag || row.tag == FieldLength::Tag {
            *tag_length = result_len;
        }
        let tag = SubmissionParts::tag_buffer(tag, long_tag, *tag_length);
        let (output, tag) = if row.output == FieldLength::Tag {
            (tag, &mut [][..])
        } else {
            (&mut output.get_or_insert_default()[..], tag)
        };
        Operands::from_fields(*operation, Fields { iv: seed, aad: &[], input: Some(input), output, tag, written })
    }
}

/// Data and output that are not both vectors.
#[derive(Clone)]
pub(crate) struct MixedBuffers {
    pub(crate) data: Data,
    pub(crate) output: Option<Data>,
    /// The result overwrites the data or goes to `output`. If `false`, the result goes to a field of [`SubmissionParts`].
    writes_data: bool,
    /// Copies of segments, while the submission is in a queue and a device needs contiguous data.
    copies: Option<Copies>,
}

/// Contiguous copies of segments. A field is empty if its original is not in segments. Wiped, because the caller has no access to them.
#[derive(Clone, Default)]
struct Copies {
    data: Zeroizing<Vec<u8>>,
    output: Zeroizing<Vec<u8>>,
}

impl MixedBuffers {
    #[cold]
    pub(crate) fn new(writes_data: bool, data: Data, output: Option<Data>) -> Box<Self> {
        Box::new(Self { data, output, writes_data, copies: None })
    }

    /// Returns the buffer that gets the result; the data if the result goes [elsewhere](Self::writes_data).
    pub(crate) fn result(&self) -> &Data {
        self.output.as_ref().filter(|_| self.writes_data).unwrap_or(&self.data)
    }

    /// Returns `true` if a device would read or write segments.
    pub(crate) fn has_segments(&self) -> bool {
        self.data.segments().or(self.result().segments()).is_some()
    }

    /// Returns the number of bytes of data and output.
    #[cold]
    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + self.output.as_ref().map_or(0, Data::len)
    }

    /// Returns the data if all of it is in segments without copies.
    pub(crate) fn scattered(&self) -> Option<Scattered<'_>> {
        let (input, output) = (self.data.segments()?, self.result().segments()?);
        self.copies.is_none().then_some(Scattered { input, output })
    }

    /// Returns the buffers that a device reads and writes: for segments, their copies, or empty buffers before there are copies.
    #[cold]
    pub(crate) fn buffers(&mut self) -> Buffers<'_> {
        fn slice<'a>(data: &'a mut Data, copy: &'a mut [u8]) -> &'a mut [u8] {
            match data {
                Data::Vec(data) => data,
                Data::Buffer(data) => data.as_mut_slice(),
                Data::Segments(_) => copy,
            }
        }
        if self.copies.is_none() && self.has_segments() {
            return Buffers::InPlace(&mut []);
        }
        let copies = self.copies.get_or_insert_default();
        let input = slice(&mut self.data, &mut copies.data);
        match self.output.as_mut().filter(|_| self.writes_data) {
            Some(output) => Buffers::Separate { input, output: slice(output, &mut copies.output) },
            None => Buffers::InPlace(input),
        }
    }

    /// Copies the data from its segments into buffers, which serve for the rest of the request. Returns the number of bytes copied.
    pub(crate) fn copy_in(&mut self) -> usize {
        let zeros = |segments: Option<&Segments>| Zeroizing::new(vec![0; segments.map_or(0, Segments::bytes)]);
        let output = self.output.as_ref().filter(|_| self.writes_data).and_then(Data::segments);
        let mut copies = Copies { data: zeros(self.data.segments()), output: zeros(output) };
        if let Data::Segments(segments) = &self.data {
            segments.read(&mut copies.data).expect("the copy has the length of the segments");
        }
        let bytes = copies.data.len();
        self.copies = Some(copies);
        bytes
    }

    /// Drops the copies. Writes the result back to its segments only if the request succeeded, so that no plaintext of a forgery reaches
    /// the segments. Returns the number of bytes copied.
    #[cold]
    pub(crate) fn copy_out(&mut self, outcome: Option<Outcome>) -> usize {
        let Some(copies) = self.copies.take() else { return 0 };
        let Some(segments) = self.result().segments().filter(|_| self.writes_data && outcome == Some(Outcome::Done))
        else {
            return 0;
        };
        let copy = if self.output.is_some() { &copies.output } else { &copies.data };
        segments.write(copy).expect("the copy has the length of the segments");
        copy.len()
    }
}
