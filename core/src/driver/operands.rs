//! The operands of requests, as a device reads them.

use super::stream::DigestStream;
use crate::algorithm::{Buffers, Kind, Operation, Segments, Shape};

/// The operands of one operation, as a device reads them. Core has checked every length against the session.
#[non_exhaustive]
pub enum Operands<'a> {
    /// [`Operation::Encrypt`] or [`Operation::Decrypt`].
    Cipher {
        /// Encrypt or decrypt.
        operation: Operation,
        /// IV.
        iv: &'a [u8],
        /// Data.
        data: Buffers<'a>,
    },
    /// [`Operation::Seal`].
    Seal {
        /// Nonce.
        iv: &'a [u8],
        /// Associated data.
        aad: &'a [u8],
        /// Plaintext to ciphertext.
        data: Buffers<'a>,
        /// Receives the tag.
        tag: &'a mut [u8],
    },
    /// [`Operation::Open`]. With a bad tag the output stays unchanged or becomes zeros.
    Open {
        /// Nonce.
        iv: &'a [u8],
        /// Associated data.
        aad: &'a [u8],
        /// Ciphertext to plaintext.
        data: Buffers<'a>,
        /// The expected tag.
        tag: &'a [u8],
    },
    /// [`Operation::Digest`].
    Digest {
        /// Message.
        input: &'a [u8],
        /// Receives the digest.
        output: &'a mut [u8],
    },
    /// [`Operation::Mac`].
    Mac {
        /// IV; empty except for GMAC.
        iv: &'a [u8],
        /// Message.
        input: &'a [u8],
        /// Receives the MAC, truncated to the tag length of the session.
        output: &'a mut [u8],
    },
    /// [`Operation::Sign`].
    Sign {
        /// Message.
        input: &'a [u8],
        /// Receives the signature.
        output: &'a mut [u8],
    },
    /// [`Operation::Verify`].
    Verify {
        /// Message.
        input: &'a [u8],
        /// The signature of the message.
        signature: &'a [u8],
    },
    /// [`Operation::Derive`].
    Derive {
        /// The peer's public key.
        input: &'a [u8],
        /// Receives the shared secret.
        output: &'a mut [u8],
    },
    /// [`Operation::KeyGen`].
    KeyGen {
        /// Random bytes that determine the keys. If empty, the device draws random bytes from a generator fit for keys.
        seed: &'a [u8],
        /// Receives the private key. The length of the buffer selects the form of the key.
        private: &'a mut [u8],
        /// Receives the public key.
        public: &'a mut [u8],
    },
    /// [`Operation::Encapsulate`].
    Encapsulate {
        /// The peer's public key.
        input: &'a [u8],
        /// Random bytes that determine the secret. If empty, the device draws random bytes from a generator fit for keys.
        seed: &'a [u8],
        /// Receives the ciphertext.
        ciphertext: &'a mut [u8],
        /// Receives the shared secret.
        output: &'a mut [u8],
    },
    /// [`Operation::Decapsulate`]. An invalid ciphertext yields a pseudorandom secret (implicit rejection).
    Decapsulate {
        /// The ciphertext.
        input: &'a [u8],
        /// Receives the shared secret.
        output: &'a mut [u8],
    },
    /// [`Operation::Compress`] or [`Operation::Decompress`].
    Compression {
        /// Compress or decompress.
        operation: Operation,
        /// The input data.
        input: &'a [u8],
        /// Receives the result, which may be shorter than the buffer. The device never writes past the end of the buffer.
        output: &'a mut [u8],
        /// Receives the length of the result.
        written: &'a mut usize,
    },
    /// [`Operation::Protect`] or [`Operation::Unprotect`], in place. The packet has the layout of
    /// [`packet_length`](crate::AlgorithmInfo::packet_length).
    Packet {
        /// Protect or unprotect.
        operation: Operation,
        /// The packet number, unique under the key. The caller has already checked the number of a received packet against
        /// replays.
        number: u64,
        /// The whole packet. Protecting encrypts the payload at [`payload_start`](crate::AlgorithmInfo::payload_start) in
        /// place, and writes all other bytes. With a bad tag the packet stays unchanged or becomes zeros.
        packet: &'a mut [u8],
        /// The length of the payload: read by protect, written by unprotect.
        payload_len: &'a mut usize,
        /// The next header: read by protect, written by unprotect.
        next_header: &'a mut u8,
    },
    /// [`Operation::Encipher`].
    Encipher {
        /// Message.
        input: &'a [u8],
        /// Receives the ciphertext.
        output: &'a mut [u8],
    },
    /// [`Operation::Decipher`]. On failure the output stays unchanged or becomes zeros.
    Decipher {
        /// The ciphertext.
        input: &'a [u8],
        /// Receives the message, which may be shorter than the buffer. The buffer is as long as the ciphertext.
        output: &'a mut [u8],
        /// Receives the length of the message.
        written: &'a mut usize,
    },
    /// The next chunk of a stream's message.
    Update {
        /// The stream, opened by the device that runs this.
        stream: &'a mut dyn DigestStream,
        /// The chunk.
        input: &'a [u8],
    },
    /// The end of a stream's message. The stream is then ready for the next message.
    Finish {
        /// The stream, opened by the device that runs this.
        stream: &'a mut dyn DigestStream,
        /// Receives the digest or MAC.
        output: &'a mut [u8],
    },
}

/// Data of a job in segments, for a device whose [limits](super::DeviceLimits) allow segments.
#[derive(Clone, Copy, Debug)]
pub struct Scattered<'a> {
    /// The input data.
    pub input: &'a Segments,
    /// The output of a cipher, as long as the input; the same segments as the input if the request works in place. Other
    /// operations write to their operands: this field then equals `input`, and nothing is written to it.
    pub output: &'a Segments,
}

/// The fields of a request by purpose, for any operation. [`OperationInfo`](crate::OperationInfo) says which fields an
/// operation has.
pub struct Fields<'a> {
    /// IV or nonce; the packet number as 8 bytes, big-endian; random bytes of key generation and key encapsulation.
    pub iv: &'a [u8],
    /// Associated data.
    pub aad: &'a [u8],
    /// The input data; `None` if the operation works in place.
    pub input: Option<&'a [u8]>,
    /// Receives the main result. If the operation works in place, it holds the data.
    pub output: &'a mut [u8],
    /// The tag or the second result. For packets, one byte: the next header.
    pub tag: &'a mut [u8],
    /// Receives the length of a result of variable length; for packets, the length of the payload.
    pub written: &'a mut usize,
}

/// The current fields of operands. Fields that an operation does not have are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct View<'a> {
    /// IV or nonce, or random bytes. Empty for packets: the packet number is not here.
    pub iv: &'a [u8],
    /// Associated data.
    pub aad: &'a [u8],
    /// The input data.
    pub input: &'a [u8],
    /// The main result, or room for it. If the operation works in place, the data.
    pub output: &'a [u8],
    /// The tag or the second result.
    pub tag: &'a [u8],
    /// The length of the result, if its length is variable.
    pub written: Option<usize>,
}

/// The results of operands, as mutable buffers.
pub struct Results<'a> {
    /// The main result; empty if there is none.
    pub output: &'a mut [u8],
    /// The tag or the second result; empty if there is none.
    pub tag: &'a mut [u8],
    /// The length of the result, if its length is variable.
    pub written: Option<&'a mut usize>,
}

impl<'a> Operands<'a> {
    /// Makes the operands of an operation.
    ///
    /// # Panics
    /// Panics if `tag` is empty and the operation handles packets.
    pub fn from_fields(operation: Operation, fields: Fields<'a>) -> Self {
        let Fields { iv, aad, input, output, tag, written } = fields;
        if operation.writes_data() {
            if let Kind::Packet = operation.info().kind {
                let number = iv.as_array().map_or(0, |number| u64::from_be_bytes(*number));
                return Operands::Packet {
                    operation,
                    number,
                    packet: output,
                    payload_len: written,
                    next_header: &mut tag[0],
                };
            }
            let data = match input {
                Some(input) => Buffers::Separate { input, output },
                None => Buffers::InPlace(output),
            };
            return match operation {
                Operation::Seal => Operands::Seal { iv, aad, data, tag },
                Operation::Open => Operands::Open { iv, aad, data, tag },
                _ => Operands::Cipher { operation, iv, data },
            };
        }
        let input = input.unwrap_or_default();
        match operation {
            Operation::Digest => Operands::Digest { input, output },
            Operation::Mac => Operands::Mac { iv, input, output },
            Operation::Sign => Operands::Sign { input, output },
            Operation::Verify => Operands::Verify { input, signature: tag },
            Operation::Derive => Operands::Derive { input, output },
            Operation::KeyGen => Operands::KeyGen { seed: iv, private: tag, public: output },
            Operation::Encapsulate => Operands::Encapsulate { input, seed: iv, ciphertext: output, output: tag },
            Operation::Decapsulate => Operands::Decapsulate { input, output },
            Operation::Encipher => Operands::Encipher { input, output },
            Operation::Decipher => Operands::Decipher { input, output, written },
            _ => Operands::Compression { operation, input, output, written },
        }
    }

    /// Returns the current fields. Steps of streams have an input or an output.
    pub fn view(&self) -> View<'_> {
        let view = View::default();
        match self {
            Operands::Cipher { iv, data, .. } => View { iv, input: data.input(), output: data.result(), ..view },
            Operands::Seal { iv, aad, data, tag } => {
                View { iv, aad, input: data.input(), output: data.result(), tag, ..view }
            }
            Operands::Open { iv, aad, data, tag } => {
                View { iv, aad, input: data.input(), output: data.result(), tag, ..view }
            }
            Operands::Mac { iv, input, output } => View { iv, input, output, ..view },
            Operands::Digest { input, output }
            | Operands::Sign { input, output }
            | Operands::Derive { input, output }
            | Operands::Decapsulate { input, output }
            | Operands::Encipher { input, output } => View { input, output, ..view },
            Operands::Verify { input, signature } => View { input, tag: signature, ..view },
            Operands::KeyGen { seed, private, public } => View { iv: seed, output: public, tag: private, ..view },
            Operands::Encapsulate { input, seed, ciphertext, output } => {
                View { iv: seed, input, output: ciphertext, tag: output, ..view }
            }
            Operands::Decipher { input, output, written } | Operands::Compression { input, output, written, .. } => {
                View { input, output, written: Some(**written), ..view }
            }
            Operands::Packet { packet, payload_len, next_header, .. } => {
                let tag = std::slice::from_ref(&**next_header);
                View { input: packet, output: packet, tag, written: Some(**payload_len), ..view }
            }
            Operands::Update { input, .. } => View { input, ..view },
            Operands::Finish { output, .. } => View { output, ..view },
        }
    }

    /// Returns the results, to be filled in.
    pub fn results(&mut self) -> Results<'_> {
        let (output, tag, written): (&mut [u8], &mut [u8], _) = match self {
            Operands::Cipher { data, .. } | Operands::Open { data, .. } => (data.output(), &mut [], None),
            Operands::Seal { data, tag, .. } => (data.output(), tag, None),
            Operands::Digest { output, .. }
            | Operands::Mac { output, .. }
            | Operands::Sign { output, .. }
            | Operands::Derive { output, .. }
            | Operands::Decapsulate { output, .. }
            | Operands::Encipher { output, .. }
            | Operands::Finish { output, .. } => (output, &mut [], None),
            Operands::KeyGen { private, public, .. } => (public, private, None),
            Operands::Encapsulate { ciphertext, output, .. } => (ciphertext, output, None),
            Operands::Decipher { output, written, .. } | Operands::Compression { output, written, .. } => {
                (output, &mut [], Some(&mut **written))
            }
            Operands::Packet { packet, payload_len, next_header, .. } => {
                (packet, std::slice::from_mut(*next_header), Some(&mut **payload_len))
            }
            Operands::Verify { .. } | Operands::Update { .. } => (&mut [], &mut [], None),
        };
        Results { output, tag, written }
    }
}

impl Operands<'_> {
    /// Returns the operation. For a step of a stream, it is [`Operation::Digest`] or [`Operation::Mac`].
    #[inline]
    pub fn operation(&self) -> Operation {
        self.shape().operation
    }

    /// Returns the number of data bytes, on which routes depend.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.shape().bytes
    }

    /// Returns the properties that routes and limits depend on.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        let (operation, data) = match self {
            Operands::Cipher { operation, data, .. } => (*operation, data),
            Operands::Seal { data, .. } => (Operation::Seal, data),
            Operands::Open { data, .. } => (Operation::Open, data),
            Operands::Digest { input, .. } => return Shape::new(Operation::Digest, input.len()),
            Operands::Mac { input, .. } => return Shape::new(Operation::Mac, input.len()),
            Operands::Sign { input, .. } => return Shape::new(Operation::Sign, input.len()),
            Operands::Verify { input, .. } => return Shape::new(Operation::Verify, input.len()),
            Operands::Derive { input, .. } => return Shape::new(Operation::Derive, input.len()),
            Operands::KeyGen { .. } => return Shape::new(Operation::KeyGen, 0),
            Operands::Encapsulate { input, .. } => return Shape::new(Operation::Encapsulate, input.len()),
            Operands::Decapsulate { input, .. } => return Shape::new(Operation::Decapsulate, input.len()),
            Operands::Compression { operation, input, .. } => return Shape::new(*operation, input.len()),
            Operands::Packet { operation, packet, .. } => {
                return Shape { operation: *operation, bytes: packet.len(), in_place: true };
            }
            Operands::Encipher { input, .. } => return Shape::new(Operation::Encipher, input.len()),
            Operands::Decipher { input, .. } => return Shape::new(Operation::Decipher, input.len()),
            Operands::Update { stream, input } => return Shape::new(stream.operation(), input.len()),
            Operands::Finish { stream, .. } => return Shape::new(stream.operation(), 0),
        };
        Shape { operation, bytes: data.len(), in_place: matches!(data, Buffers::InPlace(_)) }
    }
}

impl Operands<'_> {
    /// Returns the same operands for a shorter lifetime.
    #[inline]
    #[allow(unsafe_code)]
    pub fn reborrow(&mut self) -> Operands<'_> {
        /// A bitwise copy of an owning value would be dropped twice.
        const _: () = assert!(!std::mem::needs_drop::<Operands<'static>>());
        // SAFETY: the copy equals operands built anew from the reborrowed fields. The original is inaccessible while the copy lives, and
        // the copy does not outlive the data that the fields point to. No field owns anything.
        unsafe { (&raw const *self).cast::<Operands<'_>>().read() }
    }
}
