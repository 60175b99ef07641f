//! Submissions: requests that own their buffers, so that they can stay in a queue or a device after a call returns.

use std::fmt;

use smallvec::SmallVec;
use zeroize::Zeroizing;

use super::data::{MixedBuffers, SHORT_TAG_LEN, SubmissionParts};
use crate::algorithm::{Algorithm, Buffers, Data, FieldLength, Kind, Operation, Outcome, Shape};
use crate::driver::{Operands, Scattered, View};

/// A request that owns its buffers. A [`Queue`](crate::Queue) takes and returns it.
///
/// ```
/// # use gantry_core::Submission;
/// let request = Submission::seal(&[0; 12], b"header".to_vec(), b"plaintext".to_vec(), 16).user(7);
/// ```
///
/// The data is a vector, any other [`IoBuf`](crate::IoBuf), or [`Segments`](crate::Segments) of regions. A device that
/// [takes segments](crate::driver::DeviceLimits::takes) gets them directly, unless the result will be verified. In all other cases they are
/// copied once, and the copy serves for the rest of the request. The result is written back when the completion is delivered, and only if
/// the outcome is [`Done`](Outcome::Done). Changes of foreign memory after the copy do not affect the result. A request that is cancelled,
/// or whose queue is dropped, writes nothing more.
///
/// A clone has its own copy of buffers; its segments are the same memory.
#[derive(Clone)]
pub struct Submission(
    /// Boxed, because it is large and moves often.
    Box<SubmissionParts>,
);

impl Submission {
    fn new(operation: Operation, iv: &[u8], aad: Vec<u8>, data: Data) -> Self {
        let (data, mixed) = match data {
            Data::Vec(data) => (data, None),
            data => (Vec::new(), Some(MixedBuffers::new(operation.writes_data(), data, None))),
        };
        Self(Box::new(SubmissionParts {
            operation,
            iv: SmallVec::from_slice(iv),
            aad,
            data,
            output: None,
            mixed,
            tag: Zeroizing::new([0; SHORT_TAG_LEN]),
            long_tag: Zeroizing::new(Vec::new()),
            tag_length: 0,
            seed: Zeroizing::new(Vec::new()),
            written: 0,
            user: 0,
        }))
    }

    /// Computes the digest of `message`; the digest is afterwards in [`tag`](Self::tag).
    pub fn digest(message: impl Into<Data>) -> Self {
        Self::new(Operation::Digest, &[], Vec::new(), message.into())
    }

    /// Computes the MAC of `message`; the MAC is afterwards in [`tag`](Self::tag).
    pub fn mac(message: impl Into<Data>) -> Self {
        Self::mac_with_iv(&[], message)
    }

    /// Computes the MAC of `message` with an algorithm that takes an IV (GMAC).
    pub fn mac_with_iv(iv: &[u8], message: impl Into<Data>) -> Self {
        Self::new(Operation::Mac, iv, Vec::new(), message.into())
    }

    /// Signs `message`; the signature is afterwards in [`tag`](Self::tag).
    pub fn sign(message: impl Into<Data>) -> Self {
        Self::new(Operation::Sign, &[], Vec::new(), message.into())
    }

    /// Verifies the signature of `message`.
    pub fn verify(message: impl Into<Data>, signature: &[u8]) -> Self {
        Self::with_tag(Self::new(Operation::Verify, &[], Vec::new(), message.into()), signature)
    }

    /// Computes the secret shared with the owner of the public key `peer`; the secret is afterwards in [`tag`](Self::tag).
    pub fn derive(peer: impl Into<Data>) -> Self {
        Self::new(Operation::Derive, &[], Vec::new(), peer.into())
    }

    /// Generates a key pair from `seed`, or from the device's random number generator if `seed` is empty. Afterwards, [`tag`](Self::tag) is
    /// the expanded private key, and [`data`](Self::data) the public key.
    pub fn key_gen(algorithm: Algorithm, seed: &[u8]) -> Self {
        let info = algorithm.info();
        // Keys of other kinds may have no maximum length, so allocate nothing for them; the queue refuses the request.
        let (private, public) = if info.kind == Kind::Kem { (info.key.max, info.public_key.max) } else { (0, 0) };
        let mut submission = Self::new(Operation::KeyGen, &[], Vec::new(), Vec::new().into());
        submission.0.output = Some(vec![0; public]);
        submission.0.tag_length = private;
        submission.0.seed = Zeroizing::new(seed.to_vec());
        submission
    }

    /// Makes a secret from `seed`, or from the device's random number generator if `seed` is empty, and encapsulates it to the public key
    /// `peer`. Afterwards, [`tag`](Self::tag) is the secret, and [`data`](Self::data) the ciphertext.
    pub fn encapsulate(algorithm: Algorithm, peer: Vec<u8>, seed: &[u8]) -> Self {
        let mut submission = Self::new(Operation::Encapsulate, &[], Vec::new(), peer.into());
        submission.0.output = Some(vec![0; algorithm.info().encapsulation.0]);
        submission.0.seed = Zeroizing::new(seed.to_vec());
        submission
    }

    /// Decapsulates the secret of a ciphertext; the secret is afterwards in [`tag`](Self::tag).
    pub fn decapsulate(ciphertext: Vec<u8>) -> Self {
        Self::new(Operation::Decapsulate, &[], Vec::new(), ciphertext.into())
    }

    /// Encrypts a short message to the session's public key; the ciphertext is afterwards in [`tag`](Self::tag).
    pub fn encipher(message: impl Into<Data>) -> Self {
        Self::new(Operation::Encipher, &[], Vec::new(), message.into())
    }

    /// Decrypts a ciphertext; the message is afterwards in [`tag`](Self::tag).
    pub fn decipher(ciphertext: impl Into<Data>) -> Self {
        Self::new(Operation::Decipher, &[], Vec::new(), ciphertext.into())
    }

    /// Compresses `message` to at most `max_len` bytes ([`compressed_max`](crate::AlgorithmInfo::compressed_max) always suffice); the
    /// result is afterwards in [`data`](Self::data).
    pub fn compress(message: impl Into<Data>, max_len: usize) -> Self {
        Self::with_room(Operation::Compress, message.into(), max_len)
    }

    /// Decompresses `message` to at most `max_len` bytes; the result is afterwards in [`data`](Self::data).
    pub fn decompress(message: impl Into<Data>, max_len: usize) -> Self {
        Self::with_room(Operation::Decompress, message.into(), max_len)
    }

    fn with_room(operation: Operation, message: Data, max_len: usize) -> Self {
        let mut submission = Self::new(operation, &[], Vec::new(), message);
        submission.0.output = Some(vec![0; max_len]);
        submission
    }

    /// Builds a packet from a payload of `payload_len` bytes, as [`Session::protect`](crate::Session::protect) does; the packet is
    /// afterwards in [`data`](Self::data).
    pub fn protect(number: u64, next_header: u8, packet: impl Into<Data>, payload_len: usize) -> Self {
        let mut submission = Self::new(Operation::Protect, &number.to_be_bytes(), Vec::new(), packet.into());
        let SubmissionParts { tag, tag_length, written, .. } = &mut *submission.0;
        (tag[0], *tag_length, *written) = (next_header, 1, payload_len);
        submission
    }

    /// Opens a packet; see [`payload`](Self::payload) for its content.
    pub fn unprotect(number: u64, packet: impl Into<Data>) -> Self {
        Self::new(Operation::Unprotect, &number.to_be_bytes(), Vec::new(), packet.into())
    }

    /// Encrypts `data` in place.
    pub fn encrypt(iv: &[u8], data: impl Into<Data>) -> Self {
        Self::new(Operation::Encrypt, iv, Vec::new(), data.into())
    }

    /// Decrypts `data` in place.
    pub fn decrypt(iv: &[u8], data: impl Into<Data>) -> Self {
        Self::new(Operation::Decrypt, iv, Vec::new(), data.into())
    }

    /// Encrypts `data` in place and authenticates it with `aad`; the tag of `tag_length` bytes is afterwards in [`tag`](Self::tag).
    pub fn seal(iv: &[u8], aad: Vec<u8>, data: impl Into<Data>, tag_length: usize) -> Self {
        let mut submission = Self::new(Operation::Seal, iv, aad, data.into());
        // No AEAD has a longer tag, and a huge wrong length must not allocate memory.
        submission.0.tag_length = tag_length.min(SHORT_TAG_LEN);
        submission
    }

    /// Verifies `tag` and decrypts `data` in place.
    pub fn open(iv: &[u8], aad: Vec<u8>, data: impl Into<Data>, tag: &[u8]) -> Self {
        Self::with_tag(Self::new(Operation::Open, iv, aad, data.into()), tag)
    }

    fn with_tag(mut self, tag: &[u8]) -> Self {
        let SubmissionParts { tag: short, long_tag, tag_length, .. } = &mut *self.0;
        *tag_length = tag.len();
        SubmissionParts::tag_buffer(short, long_tag, tag.len()).copy_from_slice(tag);
        self
    }

    /// Makes a cipher write to `output`, which is as long as the data, instead of working in place. Some devices require this.
    #[must_use]
    pub fn into_output(mut self, output: impl Into<Data>) -> Self {
        let SubmissionParts { operation, data, output: vector, mixed, .. } = &mut *self.0;
        match (mixed, output.into()) {
            (None, Data::Vec(output)) => *vector = Some(output),
            (Some(mixed), output) => mixed.output = Some(output),
            (none, output) => {
                let data = Data::Vec(std::mem::take(data));
                (*none, *vector) = (Some(MixedBuffers::new(operation.writes_data(), data, Some(output))), None);
            }
        }
        self
    }

    /// Sets a number of the caller's choice, which comes back with the completion.
    #[must_use]
    pub fn user(mut self, user: u64) -> Self {
        self.0.user = user;
        self
    }

    /// Returns the ciphertext, plaintext, packet, public key, or result of compression; the given data if the result is a
    /// [`tag`](Self::tag). Empty if the data is in segments: [read](crate::Segments::read) the segments then.
    pub fn data(&self) -> &[u8] {
        if self.0.operation.info().kind == Kind::Compression {
            // Do not trust the device's length.
            return self.0.output.as_ref().map_or(&[], |output| &output[..self.0.written.min(output.len())]);
        }
        match &self.0.mixed {
            None => self.0.output.as_ref().unwrap_or(&self.0.data),
            Some(mixed) => mixed.output.as_ref().unwrap_or(&mixed.data).as_slice(),
        }
    }

    /// Returns the length in bytes of an opened packet's payload, and the packet's next header.
    pub fn payload(&self) -> (usize, u8) {
        (self.0.written, self.0.tag[0])
    }

    /// Returns the digest, MAC, tag, signature, secret, private key, RSA ciphertext or deciphered message.
    pub fn tag(&self) -> &[u8] {
        let SubmissionParts { operation, tag, long_tag, tag_length, written, .. } = &*self.0;
        if *operation == Operation::Decipher {
            // Do not trust the device's length.
            let message = if *tag_length > SHORT_TAG_LEN { &long_tag[..] } else { &tag[..*tag_length] };
            return &message[..(*written).min(message.len())];
        }
        // A long tag is empty until the operands have been made.
        tag.get(..*tag_length).or(long_tag.get(..*tag_length)).unwrap_or(long_tag)
    }

    /// Returns the vectors for reuse: the data, and the output if there was one. For segments and other types of buffers, the vector is
    /// empty; [`into_data`](Self::into_data) returns such buffers.
    pub fn into_buffers(self) -> (Vec<u8>, Option<Vec<u8>>) {
        let vector = |data| if let Data::Vec(data) = data { data } else { Vec::new() };
        let (data, output) = self.into_data();
        (vector(data), output.map(vector))
    }

    /// Returns the given buffers: the data, and the output if there was one.
    pub fn into_data(self) -> (Data, Option<Data>) {
        let SubmissionParts { operation, data, mut output, mixed, written, .. } = *self.0;
        if let (Some(output), true) = (&mut output, operation.info().kind == Kind::Compression) {
            output.truncate(written);
        }
        match mixed {
            None => (data.into(), output.map(Data::from)),
            Some(mixed) => (mixed.data, mixed.output.or(output.map(Data::from))),
        }
    }

    pub(crate) fn user_data(&self) -> u64 {
        self.0.user
    }

    pub(crate) fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Returns the shape of the [operands](Self::operands), or of the segments.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        let SubmissionParts { operation, data, output, mixed, .. } = &*self.0;
        let (bytes, separate) = match mixed {
            None => (data.len(), output.is_some()),
            Some(mixed) => (mixed.data.len(), mixed.output.is_some()),
        };
        Shape { operation: *operation, bytes, in_place: !separate && operation.writes_data() }
    }

    /// Returns the number of bytes of data, AAD and output.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let SubmissionParts { aad, data, output, mixed, .. } = &*self.0;
        let other = mixed.as_ref().map_or(0, |mixed| mixed.bytes());
        data.len() + aad.len() + output.as_ref().map_or(0, Vec::len) + other
    }

    /// Returns `true` if some data is not in vectors.
    #[inline]
    pub(crate) fn has_mixed_buffers(&self) -> bool {
        self.0.mixed.is_some()
    }

    /// Returns the length in bytes of the buffer for the result, if there are segments. The operands do not show this length until the
    /// segments are copied.
    pub(crate) fn scattered_result_len(&self) -> Option<usize> {
        let mixed = self.0.mixed.as_deref()?;
        mixed.has_segments().then(|| mixed.result().len())
    }

    /// Returns the operands on these buffers. They have no data if there are segments without copies. `result_len` is the length of the
    /// session's results in bytes.
    #[inline(always)]
    pub(crate) fn operands(&mut self, result_len: usize) -> Operands<'_> {
        if self.0.mixed.is_some() {
            return self.mixed_operands(result_len);
        }
        self.0.operands(result_len, |data, output, _| match output {
            Some(output) => Buffers::Separate { input: data, output },
            None => Buffers::InPlace(data),
        })
    }

    #[cold]
    #[inline(never)]
    fn mixed_operands(&mut self, result_len: usize) -> Operands<'_> {
        self.0.operands(result_len, |_, _, mixed| match mixed {
            Some(mixed) => mixed.buffers(),
            None => Buffers::InPlace(&mut []),
        })
    }

    /// Returns the data if all of it is in segments without copies. Reads no field that the [operands](Self::operands) of such a request
    /// borrow.
    pub(crate) fn scattered(&self) -> Option<Scattered<'_>> {
        self.0.mixed.as_deref()?.scattered()
    }

    /// Copies the data from its segments into buffers, which serve for the rest of the request. Returns the number of bytes copied.
    pub(crate) fn copy_in(&mut self) -> usize {
        self.0.mixed.as_mut().map_or(0, |mixed| mixed.copy_in())
    }

    /// Drops the copies, after writing the result back to its segments if the request succeeded. Returns the number of bytes copied.
    pub(crate) fn copy_out(&mut self, outcome: Option<Outcome>) -> usize {
        self.0.mixed.as_mut().map_or(0, |mixed| mixed.copy_out(outcome))
    }
}

/// Copies a request and its data.
impl From<&Operands<'_>> for Submission {
    fn from(operands: &Operands<'_>) -> Self {
        let (operation, View { iv, aad, input, output, tag, written }) = (operands.operation(), operands.view());
        let (shape, row) = (operands.shape(), operation.info());
        let takes_seed = row.takes_seed();
        let data = Data::Vec(if row.in_place && shape.in_place { output } else { input }.to_vec());
        let mut submission = Self::new(operation, if takes_seed { &[] } else { iv }, aad.to_vec(), data).with_tag(tag);
        let parts = &mut *submission.0;
        parts.seed = Zeroizing::new(if takes_seed { iv } else { &[] }.to_vec());
        parts.written = written.unwrap_or(0);
        if !shape.in_place && !matches!(row.output, FieldLength::Nothing | FieldLength::Tag) {
            parts.output = Some(output.to_vec());
        }
        if let Operands::Packet { number, .. } = operands {
            parts.iv = SmallVec::from_slice(&number.to_be_bytes());
        }
        submission
    }
}

impl fmt::Debug for Submission {
    /// Shows no data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes, user {}", self.0.operation, self.shape().bytes, self.0.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tag from a peer is not cut to a valid length.
    #[test]
    fn keeps_the_length_of_a_tag() {
        for length in [0, 16, 64, 65, 256, 600] {
            let tag = vec![9; length];
            let mut opening = Submission::open(&[1; 12], Vec::new(), vec![7; 48], &tag);
            let mut verifying = Submission::verify(vec![7; 48], &tag);
            assert_eq!((opening.tag(), verifying.tag()), (&tag[..], &tag[..]));
            let Operands::Verify { signature, .. } = verifying.operands(64) else { panic!("verifies") };
            assert_eq!(signature, tag);
            let Operands::Open { tag: theirs, .. } = opening.operands(16) else { panic!("opens") };
            assert_eq!(theirs, tag);
        }
        let mut signing = Submission::sign(vec![7; 32]);
        let Operands::Sign { output, .. } = signing.operands(384) else { panic!("signs") };
        output.fill(9);
        assert_eq!(signing.tag(), [9; 384]);
    }

    #[test]
    fn returns_secrets_of_key_encapsulation_as_tags() {
        let mut submission = Submission::key_gen(Algorithm::MlKem512, &[3; 64]);
        let Operands::KeyGen { seed, private, public } = submission.operands(32) else { panic!("makes keys") };
        assert_eq!((seed, private.len(), public.len()), (&[3; 64][..], 1632, 800));
        private.fill(5);
        public.fill(7);
        assert_eq!((submission.tag(), submission.data()), (&[5; 1632][..], &[7; 800][..]));
        let mut submission = Submission::encapsulate(Algorithm::MlKem512, vec![9; 800], &[3; 32]);
        let Operands::Encapsulate { input, seed, ciphertext, output } = submission.operands(32) else {
            panic!("encapsulates")
        };
        assert_eq!((input, seed, ciphertext.len()), (&[9; 800][..], &[3; 32][..], 768));
        output.fill(5);
        assert_eq!(submission.tag(), [5; 32]);
    }

    #[test]
    fn limits_the_length_of_a_deciphered_message_to_the_ciphertext() {
        for (claimed, expected) in [(0, 0), (7, 7), (256, 256), (257, 256)] {
            let mut submission = Submission::decipher(vec![7; 256]);
            let Operands::Decipher { output, written, .. } = submission.operands(256) else { panic!("deciphers") };
            output.fill(9);
            *written = claimed;
            assert_eq!(submission.tag(), vec![9; expected]);
        }
    }

    #[test]
    fn shapes_match_the_operands() {
        let data = || vec![7; 48];
        for submission in [
            Submission::digest(data()),
            Submission::mac(data()),
            Submission::encrypt(&[1; 16], data()),
            Submission::decrypt(&[1; 16], data()).into_output(data()),
            Submission::seal(&[1; 12], data(), data(), 16),
            Submission::open(&[1; 12], data(), data(), &[2; 16]),
            Submission::sign(data()),
            Submission::verify(data(), &[2; 64]),
            Submission::derive(data()),
            Submission::key_gen(Algorithm::MlKem512, &[3; 64]),
            Submission::encapsulate(Algorithm::MlKem512, data(), &[]),
            Submission::decapsulate(data()),
            Submission::compress(data(), 9),
            Submission::decompress(data(), 0),
            Submission::protect(7, 4, data(), 9),
            Submission::unprotect(7, data()),
            Submission::encipher(data()),
            Submission::decipher(data()),
        ] {
            let mut submission = submission;
            let declared = submission.shape();
            let actual = submission.operands(32).shape();
            assert_eq!(
                (declared.operation, declared.bytes, declared.in_place),
                (actual.operation, actual.bytes, actual.in_place)
            );
        }
    }
}
