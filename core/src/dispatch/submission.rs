//! Requests that own their buffers, so that they can stay in a queue or a device beyond any call.

use std::fmt;

use smallvec::SmallVec;
use zeroize::Zeroizing;

use crate::algorithm::{Buffers, Data, Operation, Outcome, Shape};
use crate::driver::{Operands, Scattered};

/// A request with its buffers: what a [`Queue`](crate::Queue) takes and gives back.
///
/// ```
/// # use gantry::Submission;
/// let request = Submission::seal(&[0; 12], b"header".to_vec(), b"plaintext".to_vec(), 16).user(7);
/// ```
///
/// The data are a vector, any other [`IoBuf`](crate::IoBuf), or [`Segments`](crate::Segments) of regions. Segments go to a device as
/// they are if it [takes them so](crate::driver::DeviceLimits::takes). Otherwise they are copied, once, when the request goes
/// to its first device, the copy is what is processed, and the result is written back when the completion is delivered: only then, and
/// only if the outcome is [`Done`](Outcome::Done). What others write into foreign memory after the copy changes no result. A request
/// that is cancelled, or whose queue is dropped, writes nothing more.
///
/// A clone has its own copy of buffers; segments are the same memory.
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
    data: Data,
    /// Where the result goes, if not into `data`.
    output: Option<Data>,
    /// Of what lies in segments, once a device needed it contiguous.
    copies: Option<Box<Copies>>,
    /// Digest, MAC, tag, signature or secret. Wiped, because a MAC may be a secret until it is sent; data is the caller's to wipe.
    tag: Zeroizing<[u8; SHORT_TAG]>,
    /// The same, of signatures that are longer: those of RSA. They are no secrets.
    long_tag: Vec<u8>,
    tag_length: usize,
    user: u64,
}

/// Contiguous buffers in place of segments; empty where there are none. Wiped, because nobody else can.
#[derive(Clone, Default)]
struct Copies {
    data: Zeroizing<Vec<u8>>,
    output: Zeroizing<Vec<u8>>,
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
    fn new(operation: Operation, iv: &[u8], aad: Vec<u8>, data: Data) -> Self {
        let (iv, tag, long_tag) = (SmallVec::from_slice(iv), Zeroizing::new([0; SHORT_TAG]), Vec::new());
        Self(Box::new(Parts {
            operation,
            iv,
            aad,
            data,
            output: None,
            copies: None,
            tag,
            long_tag,
            tag_length: 0,
            user: 0,
        }))
    }

    /// The digest of `message`; [`tag`](Self::tag) has it afterwards.
    pub fn digest(message: impl Into<Data>) -> Self {
        Self::new(Operation::Digest, &[], Vec::new(), message.into())
    }

    /// The MAC of `message`; [`tag`](Self::tag) has it afterwards.
    pub fn mac(message: impl Into<Data>) -> Self {
        Self::mac_with_iv(&[], message)
    }

    /// The MAC of `message`, of an algorithm that takes an IV (GMAC).
    pub fn mac_with_iv(iv: &[u8], message: impl Into<Data>) -> Self {
        Self::new(Operation::Mac, iv, Vec::new(), message.into())
    }

    /// The signature of `message`; [`tag`](Self::tag) has it afterwards.
    pub fn sign(message: impl Into<Data>) -> Self {
        Self::new(Operation::Sign, &[], Vec::new(), message.into())
    }

    /// Verifies the signature of `message`.
    pub fn verify(message: impl Into<Data>, signature: &[u8]) -> Self {
        Self::with_tag(Self::new(Operation::Verify, &[], Vec::new(), message.into()), signature)
    }

    /// The secret shared with the owner of the public key `peer`; [`tag`](Self::tag) has it afterwards.
    pub fn derive(peer: impl Into<Data>) -> Self {
        Self::new(Operation::Derive, &[], Vec::new(), peer.into())
    }

    /// Encrypts `data` in place.
    pub fn encrypt(iv: &[u8], data: impl Into<Data>) -> Self {
        Self::new(Operation::Encrypt, iv, Vec::new(), data.into())
    }

    /// Decrypts `data` in place.
    pub fn decrypt(iv: &[u8], data: impl Into<Data>) -> Self {
        Self::new(Operation::Decrypt, iv, Vec::new(), data.into())
    }

    /// Encrypts `data` in place and authenticates it with `aad`; [`tag`](Self::tag) has the tag of `tag_length` bytes afterwards.
    pub fn seal(iv: &[u8], aad: Vec<u8>, data: impl Into<Data>, tag_length: usize) -> Self {
        let mut submission = Self::new(Operation::Seal, iv, aad, data.into());
        submission.0.tag_length = tag_length.min(SHORT_TAG);
        submission
    }

    /// Verifies `tag` and decrypts `data` in place.
    pub fn open(iv: &[u8], aad: Vec<u8>, data: impl Into<Data>, tag: &[u8]) -> Self {
        Self::with_tag(Self::new(Operation::Open, iv, aad, data.into()), tag)
    }

    fn with_tag(mut self, tag: &[u8]) -> Self {
        let Parts { tag: short, long_tag, tag_length, .. } = &mut *self.0;
        *tag_length = tag.len();
        Parts::place(short, long_tag, tag.len()).copy_from_slice(tag);
        self
    }

    /// Has a cipher write to `output`, of the length of the data, instead of working in place: some devices only do that.
    #[must_use]
    pub fn into_output(mut self, output: impl Into<Data>) -> Self {
        self.0.output = Some(output.into());
        self
    }

    /// A number of the caller's, given back with the completion.
    #[must_use]
    pub fn user(mut self, user: u64) -> Self {
        self.0.user = user;
        self
    }

    /// The result of a cipher, or what was given. Empty where that lies in segments, which are [read](crate::Segments::read).
    pub fn data(&self) -> &[u8] {
        self.0.output.as_ref().unwrap_or(&self.0.data).as_slice()
    }

    /// The digest, MAC, tag, signature or secret.
    pub fn tag(&self) -> &[u8] {
        let Parts { tag, long_tag, tag_length, .. } = &*self.0;
        tag.get(..*tag_length).unwrap_or(long_tag)
    }

    /// The vectors, for the next request: the data, and where the result went if that was elsewhere. An empty one stands for
    /// a buffer of another type and for segments, which [`into_data`](Self::into_data) gives back.
    pub fn into_buffers(self) -> (Vec<u8>, Option<Vec<u8>>) {
        let vector = |data| if let Data::Vec(data) = data { data } else { Vec::new() };
        let (data, output) = self.into_data();
        (vector(data), output.map(vector))
    }

    /// What was given: the data, and where the result went if that was elsewhere.
    pub fn into_data(mut self) -> (Data, Option<Data>) {
        (std::mem::replace(&mut self.0.data, Data::Vec(Vec::new())), self.0.output.take())
    }

    pub(crate) fn user_data(&self) -> u64 {
        self.0.user
    }

    pub(crate) fn operation(&self) -> Operation {
        self.0.operation
    }

    /// That of its [operands](Self::lend), or of what lies in segments.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        let Parts { operation, data, output, .. } = &*self.0;
        let in_place = output.is_none() && writes_data(*operation);
        Shape { operation: *operation, bytes: data.len(), in_place }
    }

    /// Bytes that it keeps in memory.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let Parts { aad, data, output, .. } = &*self.0;
        data.len() + aad.len() + output.as_ref().map_or(0, Data::len)
    }

    /// Bytes of where the result goes that takes the place of data, if something lies in segments: no operands tell before
    /// there are copies.
    #[inline]
    pub(crate) fn scattered_result(&self) -> Option<usize> {
        let Parts { operation, data, output, .. } = &*self.0;
        match (data, output) {
            (Data::Vec(_) | Data::Buffer(_), None | Some(Data::Vec(_) | Data::Buffer(_))) => None,
            (_, Some(output)) if writes_data(*operation) => Some(output.len()),
            _ => Some(data.len()),
        }
    }

    /// What to do, and on which data: those among the operands, unless they lie in segments that were not copied. `result` is the
    /// length of what its session computes of a message.
    #[inline]
    pub(crate) fn lend(&mut self, result: usize) -> (Operands<'_>, Option<Scattered<'_>>) {
        let Parts { operation, iv, aad, data, output, copies, tag, long_tag, tag_length, .. } = &mut *self.0;
        if matches!(operation, Operation::Digest | Operation::Mac | Operation::Sign | Operation::Derive) {
            *tag_length = result;
        }
        let tag = Parts::place(tag, long_tag, *tag_length);
        let (data, scattered) = match (data, output) {
            (Data::Vec(data), None) => (Buffers::InPlace(data), None),
            (Data::Vec(input), Some(Data::Vec(output))) => (Buffers::Separate { input, output }, None),
            (data, output) => lend_any(writes_data(*operation), data, output.as_mut(), copies),
        };
        let operands = match *operation {
            Operation::Digest => Operands::Digest { input: data.into_input(), output: tag },
            Operation::Mac => Operands::Mac { iv, input: data.into_input(), output: tag },
            Operation::Seal => Operands::Seal { iv, aad, data, tag },
            Operation::Open => Operands::Open { iv, aad, data, tag },
            Operation::Sign => Operands::Sign { input: data.into_input(), output: tag },
            Operation::Verify => Operands::Verify { input: data.into_input(), signature: tag },
            Operation::Derive => Operands::Derive { input: data.into_input(), output: tag },
            operation => Operands::Cipher { operation, iv, data },
        };
        (operands, scattered)
    }

    /// Copies what lies in segments, for the rest of the request. Returns how many bytes were copied.
    pub(super) fn copy_in(&mut self) -> usize {
        let Parts { operation, data, output, copies, .. } = &mut *self.0;
        let mut made = Copies::default();
        if let Data::Segments(segments) = data {
            made.data.resize(segments.bytes(), 0);
            segments.read(&mut made.data).expect("both were given this length");
        }
        if let Some(Data::Segments(segments)) = output
            && writes_data(*operation)
        {
            made.output.resize(segments.bytes(), 0);
        }
        let bytes = made.data.len();
        *copies = Some(Box::new(made));
        bytes
    }

    /// Ends the copies. A result goes into its segments, and only of a request that ended well: nothing of what was decrypted with
    /// a bad tag does. Returns how many bytes were copied.
    #[inline]
    pub(crate) fn copy_out(&mut self, outcome: Option<Outcome>) -> usize {
        if self.0.copies.is_none() { 0 } else { self.end_copies(outcome) }
    }

    #[cold]
    fn end_copies(&mut self, outcome: Option<Outcome>) -> usize {
        let Parts { operation, data, output, copies, .. } = &mut *self.0;
        let Some(copies) = copies.take() else { return 0 };
        if outcome != Some(Outcome::Done) || !writes_data(*operation) {
            return 0;
        }
        let (segments, result) = match (data, output) {
            (Data::Segments(segments), None) => (segments, &copies.data),
            (_, Some(Data::Segments(segments))) => (segments, &copies.output),
            _ => return 0,
        };
        segments.write(result).expect("both were given this length");
        result.len()
    }
}

/// Whether the operation's result takes the place of its data, or goes where it is told to.
#[inline]
fn writes_data(operation: Operation) -> bool {
    matches!(operation, Operation::Encrypt | Operation::Decrypt | Operation::Seal | Operation::Open)
}

/// The data where they are not all in vectors. What lies in segments is found in the copies; without copies nothing is lent,
/// and the segments go along if they are all there is.
#[cold]
fn lend_any<'a>(
    writes: bool,
    data: &'a mut Data,
    output: Option<&'a mut Data>,
    copies: &'a mut Option<Box<Copies>>,
) -> (Buffers<'a>, Option<Scattered<'a>>) {
    fn slice<'a>(data: &'a mut Data, copy: &'a mut [u8]) -> &'a mut [u8] {
        match data {
            Data::Vec(data) => data,
            Data::Buffer(data) => data.as_mut_slice(),
            Data::Segments(_) => copy,
        }
    }
    let output = output.filter(|_| writes);
    let is_scattered = |data: &Data| data.segments().is_some();
    if copies.is_none() && (is_scattered(data) || output.as_deref().is_some_and(is_scattered)) {
        let output = output.map_or(data.segments(), |output| output.segments());
        let scattered = data.segments().zip(output).map(|(input, output)| Scattered { input, output });
        return (Buffers::InPlace(&mut []), scattered);
    }
    let (copy, copy_of_output): (&mut [u8], &mut [u8]) = match copies {
        Some(copies) => (&mut copies.data, &mut copies.output),
        None => (&mut [], &mut []),
    };
    let input = slice(data, copy);
    let buffers = match output {
        Some(output) => Buffers::Separate { input, output: slice(output, copy_of_output) },
        None => Buffers::InPlace(input),
    };
    (buffers, None)
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
            let Operands::Verify { signature, .. } = verifying.lend(64).0 else { panic!("verifies") };
            assert_eq!(signature, tag);
            let Operands::Open { tag: theirs, .. } = opening.lend(16).0 else { panic!("opens") };
            assert_eq!(theirs, tag);
        }
        let mut signing = Submission::sign(vec![7; 32]);
        let Operands::Sign { output, .. } = signing.lend(384).0 else { panic!("signs") };
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
            let is = submission.lend(32).0.shape();
            assert_eq!((said.operation, said.bytes, said.in_place), (is.operation, is.bytes, is.in_place));
        }
    }
}
