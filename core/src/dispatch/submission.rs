//! Requests that own their buffers, so that they can stay in a queue or a device beyond any call.

use std::fmt;

use smallvec::SmallVec;
use zeroize::Zeroizing;

use crate::algorithm::{Buffers, Operation, Shape};
use crate::driver::Operands;

/// A request with its buffers: what a [`Queue`](crate::Queue) takes and gives back.
///
/// ```
/// # use gantry::Submission;
/// let request = Submission::seal(&[0; 12], b"header".to_vec(), b"plaintext".to_vec(), 16).user(7);
/// ```
#[derive(Clone)]
pub struct Submission(
    /// Passed from hand to hand often, and large.
    Box<Parts>,
);

#[derive(Clone)]
struct Parts {
    operation: Operation,
    iv: SmallVec<[u8; 24]>,
    aad: Vec<u8>,
    data: Vec<u8>,
    /// Where the result goes, if not into `data`.
    output: Option<Vec<u8>>,
    /// Digest, MAC, tag, signature or secret. Wiped, because a MAC may be a secret until it is sent; data is the caller's to wipe.
    tag: Zeroizing<[u8; SHORT_TAG]>,
    /// The same, of signatures that are longer: those of RSA. They are no secrets.
    long_tag: Vec<u8>,
    tag_length: usize,
    user: u64,
}

/// SHA-512 and its HMAC, and Ed25519.
const SHORT_TAG: usize = 64;

impl Parts {
    /// Where a tag of so many bytes is.
    #[inline]
    fn place<'t>(short: &'t mut [u8; SHORT_TAG], long: &'t mut Vec<u8>, length: usize) -> &'t mut [u8] {
        if length > SHORT_TAG {
            long.resize(length, 0);
            return long;
        }
        &mut short[..length]
    }
}

impl Submission {
    fn new(operation: Operation, iv: &[u8], aad: Vec<u8>, data: Vec<u8>) -> Self {
        let (iv, tag, long_tag) = (SmallVec::from_slice(iv), Zeroizing::new([0; SHORT_TAG]), Vec::new());
        Self(Box::new(Parts { operation, iv, aad, data, output: None, tag, long_tag, tag_length: 0, user: 0 }))
    }

    /// The digest of `message`; [`tag`](Self::tag) has it afterwards.
    pub fn digest(message: Vec<u8>) -> Self {
        Self::new(Operation::Digest, &[], Vec::new(), message)
    }

    /// The MAC of `message`; [`tag`](Self::tag) has it afterwards.
    pub fn mac(message: Vec<u8>) -> Self {
        Self::mac_with_iv(&[], message)
    }

    /// The MAC of `message`, of an algorithm that takes an IV (GMAC).
    pub fn mac_with_iv(iv: &[u8], message: Vec<u8>) -> Self {
        Self::new(Operation::Mac, iv, Vec::new(), message)
    }

    /// The signature of `message`; [`tag`](Self::tag) has it afterwards.
    pub fn sign(message: Vec<u8>) -> Self {
        Self::new(Operation::Sign, &[], Vec::new(), message)
    }

    /// Verifies the signature of `message`.
    pub fn verify(message: Vec<u8>, signature: &[u8]) -> Self {
        Self::with_tag(Self::new(Operation::Verify, &[], Vec::new(), message), signature)
    }

    /// The secret shared with the owner of the public key `peer`; [`tag`](Self::tag) has it afterwards.
    pub fn derive(peer: Vec<u8>) -> Self {
        Self::new(Operation::Derive, &[], Vec::new(), peer)
    }

    /// Encrypts `data` in place.
    pub fn encrypt(iv: &[u8], data: Vec<u8>) -> Self {
        Self::new(Operation::Encrypt, iv, Vec::new(), data)
    }

    /// Decrypts `data` in place.
    pub fn decrypt(iv: &[u8], data: Vec<u8>) -> Self {
        Self::new(Operation::Decrypt, iv, Vec::new(), data)
    }

    /// Encrypts `data` in place and authenticates it with `aad`; [`tag`](Self::tag) has the tag of `tag_length` bytes afterwards.
    pub fn seal(iv: &[u8], aad: Vec<u8>, data: Vec<u8>, tag_length: usize) -> Self {
        let mut submission = Self::new(Operation::Seal, iv, aad, data);
        submission.0.tag_length = tag_length.min(SHORT_TAG);
        submission
    }

    /// Verifies `tag` and decrypts `data` in place.
    pub fn open(iv: &[u8], aad: Vec<u8>, data: Vec<u8>, tag: &[u8]) -> Self {
        Self::with_tag(Self::new(Operation::Open, iv, aad, data), tag)
    }

    fn with_tag(mut self, tag: &[u8]) -> Self {
        let Parts { tag: short, long_tag, tag_length, .. } = &mut *self.0;
        *tag_length = tag.len();
        Parts::place(short, long_tag, tag.len()).copy_from_slice(tag);
        self
    }

    /// Has a cipher write to `output`, of the length of the data, instead of working in place: some devices only do that.
    #[must_use]
    pub fn into_output(mut self, output: Vec<u8>) -> Self {
        self.0.output = Some(output);
        self
    }

    /// A number of the caller's, given back with the completion.
    #[must_use]
    pub fn user(mut self, user: u64) -> Self {
        self.0.user = user;
        self
    }

    /// The result of a cipher, or what was given.
    pub fn data(&self) -> &[u8] {
        self.0.output.as_ref().unwrap_or(&self.0.data)
    }

    /// The digest, MAC, tag, signature or secret.
    pub fn tag(&self) -> &[u8] {
        let Parts { tag, long_tag, tag_length, .. } = &*self.0;
        tag.get(..*tag_length).unwrap_or(long_tag)
    }

    /// The buffers, for the next request: the data, and where the result went if that was elsewhere.
    pub fn into_buffers(mut self) -> (Vec<u8>, Option<Vec<u8>>) {
        (std::mem::take(&mut self.0.data), self.0.output.take())
    }

    pub(crate) fn user_data(&self) -> u64 {
        self.0.user
    }

    pub(crate) fn operation(&self) -> Operation {
        self.0.operation
    }

    /// That of its [operands](Self::operands).
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        let Parts { operation, data, output, .. } = &*self.0;
        let has_buffers =
            matches!(operation, Operation::Encrypt | Operation::Decrypt | Operation::Seal | Operation::Open);
        let in_place = output.is_none() && has_buffers;
        Shape { operation: *operation, bytes: data.len(), in_place }
    }

    /// Bytes that it keeps in memory.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let Parts { aad, data, output, .. } = &*self.0;
        data.len() + aad.len() + output.as_ref().map_or(0, Vec::len)
    }

    /// What to do, on these buffers. `result` is the length of what its session computes of a message.
    #[inline]
    pub(crate) fn operands(&mut self, result: usize) -> Operands<'_> {
        let Parts { operation, iv, aad, data, output, tag, long_tag, tag_length, .. } = &mut *self.0;
        if matches!(operation, Operation::Digest | Operation::Mac | Operation::Sign | Operation::Derive) {
            *tag_length = result;
        }
        let tag = Parts::place(tag, long_tag, *tag_length);
        match *operation {
            Operation::Digest => Operands::Digest { input: data, output: tag },
            Operation::Mac => Operands::Mac { iv, input: data, output: tag },
            Operation::Seal => Operands::Seal { iv, aad, data: buffers(data, output), tag },
            Operation::Open => Operands::Open { iv, aad, data: buffers(data, output), tag },
            Operation::Sign => Operands::Sign { input: data, output: tag },
            Operation::Verify => Operands::Verify { input: data, signature: tag },
            Operation::Derive => Operands::Derive { input: data, output: tag },
            operation => Operands::Cipher { operation, iv, data: buffers(data, output) },
        }
    }
}

#[inline]
fn buffers<'a>(data: &'a mut Vec<u8>, output: &'a mut Option<Vec<u8>>) -> Buffers<'a> {
    match output {
        Some(output) => Buffers::Separate { input: data, output },
        None => Buffers::InPlace(data),
    }
}

impl fmt::Debug for Submission {
    /// Shows no data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes, user {}", self.0.operation, self.0.data.len(), self.0.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes from a peer is not cut to a length that would do.
    #[test]
    fn a_tag_stays_as_long_as_it_is() {
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
    fn what_routes_go_by_is_that_of_the_operands() {
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
        ] {
            let mut submission = submission;
            let said = submission.shape();
            let is = submission.operands(32).shape();
            assert_eq!((said.operation, said.bytes, said.in_place), (is.operation, is.bytes, is.in_place));
        }
    }
}
