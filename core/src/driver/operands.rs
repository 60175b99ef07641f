//! What a device is asked to do.

use super::stream::DigestStream;
use crate::algorithm::{Buffers, Kind, Operation, Segments, Shape};

/// The operands of one operation, as a device reads them. Core has checked every length against the session.
#[non_exhaustive]
pub enum Operands<'a> {
    /// [`Operation::Encrypt`] or [`Operation::Decrypt`].
    Cipher {
        /// Which of the two.
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
    /// [`Operation::Open`]. With a bad tag the output stays as it was or becomes zeros.
    Open {
        /// Nonce.
        iv: &'a [u8],
        /// Associated data.
        aad: &'a [u8],
        /// Ciphertext to plaintext.
        data: Buffers<'a>,
        /// The tag that came with the ciphertext.
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
        /// IV; empty but for GMAC.
        iv: &'a [u8],
        /// Message.
        input: &'a [u8],
        /// Receives the MAC, cut to the tag length of the session.
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
        /// The signature that came with it.
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
        /// Random bytes from which the keys are made; empty where the device takes some from a generator that is fit for keys.
        seed: &'a [u8],
        /// Receives the private key, in the form that has this length.
        private: &'a mut [u8],
        /// Receives the public key.
        public: &'a mut [u8],
    },
    /// [`Operation::Encapsulate`].
    Encapsulate {
        /// The peer's public key.
        input: &'a [u8],
        /// Random bytes that go into the secret; empty where the device takes some from a generator that is fit for keys.
        seed: &'a [u8],
        /// Receives the ciphertext.
        ciphertext: &'a mut [u8],
        /// Receives the shared secret.
        output: &'a mut [u8],
    },
    /// [`Operation::Decapsulate`]. A ciphertext that nobody encapsulated gives a secret that nobody else knows (implicit rejection).
    Decapsulate {
        /// The ciphertext.
        input: &'a [u8],
        /// Receives the shared secret.
        output: &'a mut [u8],
    },
    /// [`Operation::Compress`] or [`Operation::Decompress`].
    Compression {
        /// Which of the two.
        operation: Operation,
        /// What is read.
        input: &'a [u8],
        /// Receives the result, which ends somewhere in it. No byte behind the buffer is written, however much was compressed.
        output: &'a mut [u8],
        /// Receives the length of the result.
        written: &'a mut usize,
    },
    /// [`Operation::Protect`] or [`Operation::Unprotect`], in place. The packet of a session has the layout of
    /// [`packet_length`](crate::AlgorithmInfo::packet_length).
    Packet {
        /// Which of the two.
        operation: Operation,
        /// The number of the packet, which no other packet has under the key. Of a packet that came it was looked at before.
        number: u64,
        /// The whole packet. To protect, its payload is where it [begins](crate::AlgorithmInfo::payload_start), and the rest is
        /// written. With a bad tag it stays as it was or becomes zeros.
        packet: &'a mut [u8],
        /// Bytes of the payload: said to protect, and told when opened.
        payload: &'a mut usize,
        /// The next header, likewise.
        next_header: &'a mut u8,
    },
    /// [`Operation::Encipher`].
    Encipher {
        /// Message.
        input: &'a [u8],
        /// Receives the ciphertext.
        output: &'a mut [u8],
    },
    /// [`Operation::Decipher`]. Unless it ends well, the output stays as it was or becomes zeros.
    Decipher {
        /// The ciphertext.
        input: &'a [u8],
        /// Receives the message, which ends somewhere in it. It is as long as the ciphertext.
        output: &'a mut [u8],
        /// Receives the length of the message.
        written: &'a mut usize,
    },
    /// The next piece of a stream's message.
    Update {
        /// The stream, of the device that runs this.
        stream: &'a mut dyn DigestStream,
        /// The piece.
        input: &'a [u8],
    },
    /// The end of a stream's message. The stream then stands at the beginning of the next one.
    Finish {
        /// The stream, of the device that runs this.
        stream: &'a mut dyn DigestStream,
        /// Receives the digest or MAC.
        output: &'a mut [u8],
    },
}

/// Data of a job that lie in segments, for a device whose [limits](super::DeviceLimits) take these.
#[derive(Clone, Copy, Debug)]
pub struct Scattered<'a> {
    /// What is read.
    pub input: &'a Segments,
    /// What a cipher writes, of as many bytes: the same segments in place. Another operation's result is in its operands.
    pub output: &'a Segments,
}

/// The fields of a request by what they are for, whatever its operation: [`OperationInfo`](crate::OperationInfo) says which of them an operation has.
pub struct Fields<'a> {
    /// IV or nonce; the number of a packet; random bytes of key encapsulation.
    pub iv: &'a [u8],
    /// Associated data.
    pub aad: &'a [u8],
    /// The data; none where an operation works in place.
    pub input: Option<&'a [u8]>,
    /// Receives the main result. In place, it holds the data.
    pub output: &'a mut [u8],
    /// The tag or the second result. Of packets, one byte: the next header.
    pub tag: &'a mut [u8],
    /// Receives the length of a result that has its own; of packets, bytes of the payload.
    pub written: &'a mut usize,
}

/// The fields of operands as they are now. An operation does not have all.
#[derive(Clone, Copy, Debug, Default)]
pub struct View<'a> {
    /// IV or nonce, or random bytes. The number of a packet is none.
    pub iv: &'a [u8],
    /// Associated data.
    pub aad: &'a [u8],
    /// The data that are read.
    pub input: &'a [u8],
    /// The main result, or room for it. In place, the data.
    pub output: &'a [u8],
    /// The tag or the second result.
    pub tag: &'a [u8],
    /// The length of the result, where that is a result itself.
    pub written: Option<usize>,
}

/// The results of operands, to be filled in.
pub struct Results<'a> {
    /// The main one; empty where there is none.
    pub output: &'a mut [u8],
    /// The tag or the second result; empty where there is none.
    pub tag: &'a mut [u8],
    /// The length of the result, where that is a result itself.
    pub written: Option<&'a mut usize>,
}

impl<'a> Operands<'a> {
    /// The operands of an operation.
    ///
    /// # Panics
    /// Of packets, `tag` is empty.
    pub fn of(operation: Operation, fields: Fields<'a>) -> Self {
        let Fields { iv, aad, input, output, tag, written } = fields;
        if operation.writes_data() {
            if let Kind::Packet = operation.info().kind {
                let number = iv.as_array().map_or(0, |number| u64::from_be_bytes(*number));
                return Operands::Packet {
                    operation,
                    number,
                    packet: output,
                    payload: written,
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

    /// The fields as they are now. Steps of streams have an input or an output.
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
            Operands::Packet { packet, payload, next_header, .. } => {
                let tag = std::slice::from_ref(&**next_header);
                View { input: packet, output: packet, tag, written: Some(**payload), ..view }
            }
            Operands::Update { input, .. } => View { input, ..view },
            Operands::Finish { output, .. } => View { output, ..view },
        }
    }

    /// The results, to be filled in.
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
            Operands::Packet { packet, payload, next_header, .. } => {
                (packet, std::slice::from_mut(*next_header), Some(&mut **payload))
            }
            Operands::Verify { .. } | Operands::Update { .. } => (&mut [], &mut [], None),
        };
        Results { output, tag, written }
    }
}

impl Operands<'_> {
    /// The operation; for streams, that of their session's kind: a digest, or the same steps with a key before them.
    #[inline]
    pub fn operation(&self) -> Operation {
        self.shape().operation
    }

    /// Bytes of data; what routes go by.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.shape().bytes
    }

    /// What routes and limits go by, in one look.
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
    /// The same operands for a shorter time.
    #[inline]
    #[allow(unsafe_code)]
    pub fn reborrow(&mut self) -> Operands<'_> {
        /// A bitwise copy of something that owned anything would be dropped twice.
        const _: () = assert!(!std::mem::needs_drop::<Operands<'static>>());
        // SAFETY: the copy is what building each variant anew makes, more slowly, from its reborrowed fields: the original is
        // out of reach as long as the copy lives, which is not longer than what the fields point to. Nothing in it is owned.
        unsafe { (&raw const *self).cast::<Operands<'_>>().read() }
    }
}
