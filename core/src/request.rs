//! One operation with its buffers: what a caller writes down, and what a device reads.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::driver::{DeviceSession, DigestStream};
use crate::error::{Error, Fault};
use crate::job::Link;
use crate::route::Route;
use crate::stream::{Bound, Stream};
use crate::verify::Witness;
use crate::{Algorithm, Operation};

/// How a request ended. None of these is a failure of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Outcome {
    /// The output is complete.
    Done,
    /// The tag is not the tag of this data, or the signature not the signature. The output holds no plaintext: it is as it was,
    /// or zeros.
    BadTag,
    /// The data has a length that the algorithm cannot have. The output is as it was.
    BadLength,
    /// The peer's public key is no point of the curve, or one with which any private key leads to the same secret (RFC 7748, 6.1).
    /// The output is as it was, or zeros.
    BadKey,
}

impl Outcome {
    /// `Done`, or the error that says why not.
    pub fn ok(self) -> Result<(), Error> {
        if self == Outcome::Done { Ok(()) } else { Err(Error::Refused(self)) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Done => "done",
            Outcome::BadTag => "the tag does not fit the data",
            Outcome::BadLength => "the algorithm has no data of this length",
            Outcome::BadKey => "the peer's public key makes no secret",
        })
    }
}

/// The data of a request: in one buffer, or from one buffer into another of the same length.
#[derive(Debug)]
pub enum Buffers<'a> {
    /// Input and output are the same bytes.
    InPlace(&'a mut [u8]),
    /// Input and output do not overlap.
    Separate {
        /// What is read.
        input: &'a [u8],
        /// What is written, of the same length.
        output: &'a mut [u8],
    },
}

#[allow(clippy::len_without_is_empty, reason = "an amount of work, not a container")]
impl Buffers<'_> {
    /// Bytes of input.
    #[inline]
    pub fn len(&self) -> usize {
        self.input().len()
    }

    /// What is read.
    #[inline]
    pub fn input(&self) -> &[u8] {
        match self {
            Buffers::InPlace(data) => data,
            Buffers::Separate { input, .. } => input,
        }
    }

    /// What is written. In place, it holds the input still.
    pub fn output(&mut self) -> &mut [u8] {
        match self {
            Buffers::InPlace(data) => data,
            Buffers::Separate { output, .. } => output,
        }
    }

    /// The same buffers for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Buffers<'_> {
        match self {
            Buffers::InPlace(data) => Buffers::InPlace(data),
            Buffers::Separate { input, output } => Buffers::Separate { input, output },
        }
    }

    /// What was written.
    pub(crate) fn result(&self) -> &[u8] {
        match self {
            Buffers::InPlace(data) => data,
            Buffers::Separate { output, .. } => output,
        }
    }

    #[inline]
    pub(crate) fn output_len(&self) -> usize {
        match self {
            Buffers::InPlace(data) => data.len(),
            Buffers::Separate { output, .. } => output.len(),
        }
    }
}

impl<'a> From<&'a mut [u8]> for Buffers<'a> {
    fn from(data: &'a mut [u8]) -> Self {
        Buffers::InPlace(data)
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for Buffers<'a> {
    fn from(data: &'a mut [u8; N]) -> Self {
        Buffers::InPlace(data)
    }
}

impl<'a> From<&'a mut Vec<u8>> for Buffers<'a> {
    fn from(data: &'a mut Vec<u8>) -> Self {
        Buffers::InPlace(data)
    }
}

impl<'a> From<(&'a [u8], &'a mut [u8])> for Buffers<'a> {
    fn from((input, output): (&'a [u8], &'a mut [u8])) -> Self {
        Buffers::Separate { input, output }
    }
}

/// The operands of one operation, as a device reads them. Core has checked every length against the session.
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

    /// Does the work where it stands, by the session that a device opened: or the next step of a stream of that device.
    #[inline]
    pub(crate) fn run_by(self, session: &dyn DeviceSession) -> Result<Outcome, Fault> {
        match self {
            Operands::Update { stream, input } => stream.update(input).map(|()| Outcome::Done),
            Operands::Finish { stream, output } => stream.finish(output).map(|()| Outcome::Done),
            operands => session.run(operands),
        }
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
            Operands::Update { stream, input } => return Shape::new(stream.operation(), input.len()),
            Operands::Finish { stream, .. } => return Shape::new(stream.operation(), 0),
        };
        Shape { operation, bytes: data.len(), in_place: matches!(data, Buffers::InPlace(_)) }
    }
}

/// What of operands matters to a route.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) operation: Operation,
    pub(crate) bytes: usize,
    pub(crate) in_place: bool,
}

impl Shape {
    pub(crate) const NOTHING: Shape = Shape { operation: Operation::Digest, bytes: 0, in_place: false };

    #[inline]
    pub(crate) fn new(operation: Operation, bytes: usize) -> Self {
        Self { operation, bytes, in_place: false }
    }
}

/// One request of a batch: operands, and after [`Session::process`](crate::Session::process) an outcome.
///
/// ```
/// # use gantry::Request;
/// let (message, mut digest) = (b"abc", [0; 32]);
/// let requests = [Request::digest(message, &mut digest)];
/// assert!(requests[0].outcome().is_none(), "not run yet");
/// ```
#[derive(Debug)]
pub struct Request<'a> {
    pub(crate) body: Body<'a>,
    /// `IN_DEVICE` while a [`Job`](crate::driver::Job) points here. It lies beside the body, not in it, so that the
    /// thread that waits may look at it while the device has the body to itself.
    pub(crate) state: AtomicU8,
    pub(crate) link: Link,
}

/// The request is its owner's, or core has it in hand.
pub(crate) const IDLE: u8 = 0;
/// A device has the body; nobody else touches it.
pub(crate) const IN_DEVICE: u8 = 1;

pub(crate) struct Body<'a> {
    pub(crate) operands: Operands<'a>,
    /// Of `Update` and `Finish`: where the state of the stream lives.
    pub(crate) bound: Option<Bound<'a>>,
    /// How it ended, if a device says so.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) route: Option<Route>,
    /// Not there where it would be empty.
    pub(crate) aside: Option<Box<Aside>>,
}

/// What there seldom is of a request. By itself, because every request is read and written from end to end.
#[derive(Default)]
pub(crate) struct Aside {
    /// What the device said that failed to do it.
    pub(crate) fault: Option<Fault>,
    /// Why no device gave an outcome, of those that were asked until now.
    pub(crate) error: Option<Error>,
    /// Of a request whose result will be verified.
    pub(crate) witness: Option<Box<Witness>>,
}

impl fmt::Debug for Body<'_> {
    /// Shows no data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} bytes {:?}", self.operands.operation(), self.operands.bytes(), self.outcome)
    }
}

impl Body<'_> {
    /// Forgets how it ended.
    #[inline]
    pub(crate) fn begin(&mut self) {
        (self.outcome, self.route) = (None, None);
        if self.aside.is_some() {
            self.aside = None;
        }
    }

    /// Whether it ended well, with nothing left to look at.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.outcome == Some(Outcome::Done) && self.aside.is_none()
    }

    #[inline]
    pub(crate) fn finish(&mut self, result: Result<Outcome, Fault>) {
        match result {
            Ok(outcome) => self.outcome = Some(outcome),
            Err(fault) => self.fail(fault),
        }
    }

    #[cold]
    fn fail(&mut self, fault: Fault) {
        self.aside().fault = Some(fault);
    }

    /// To write something there.
    #[cold]
    pub(crate) fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    /// What the device said that failed to do it.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.aside.as_ref()?.fault.as_ref()
    }

    /// Why no device gave an outcome. What else there is beside it is gone.
    #[cold]
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.aside.take()?.error
    }

    /// How a request of `algorithm` ended, whatever was tried. Takes the error.
    #[inline]
    pub(crate) fn end(&mut self, algorithm: Algorithm) -> Result<Outcome, Error> {
        self.outcome.ok_or_else(|| self.failure(algorithm))
    }

    #[cold]
    fn failure(&mut self, algorithm: Algorithm) -> Error {
        let Aside { fault, error, .. } = self.aside.take().map(|aside| *aside).unwrap_or_default();
        error.unwrap_or_else(|| Error::Device { algorithm, last: fault.unwrap_or(Fault::Lost) })
    }

    /// What a device gave back.
    pub(crate) fn result(&self) -> Result<Outcome, Fault> {
        self.outcome.ok_or_else(|| self.fault().cloned().unwrap_or(Fault::Lost))
    }
}

impl<'a> Request<'a> {
    /// The digest of `input`.
    pub fn digest(input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::new(Operands::Digest { input, output }, None)
    }

    /// The MAC of `input`.
    pub fn mac(input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::mac_with_iv(&[], input, output)
    }

    /// The MAC of `input`, of an algorithm that takes an IV (GMAC).
    pub fn mac_with_iv(iv: &'a [u8], input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::new(Operands::Mac { iv, input, output }, None)
    }

    /// Encrypts without integrity.
    pub fn encrypt(iv: &'a [u8], data: impl Into<Buffers<'a>>) -> Self {
        Self::new(Operands::Cipher { operation: Operation::Encrypt, iv, data: data.into() }, None)
    }

    /// Decrypts without integrity.
    pub fn decrypt(iv: &'a [u8], data: impl Into<Buffers<'a>>) -> Self {
        Self::new(Operands::Cipher { operation: Operation::Decrypt, iv, data: data.into() }, None)
    }

    /// Encrypts and authenticates.
    pub fn seal(iv: &'a [u8], aad: &'a [u8], data: impl Into<Buffers<'a>>, tag: &'a mut [u8]) -> Self {
        Self::new(Operands::Seal { iv, aad, data: data.into(), tag }, None)
    }

    /// Verifies and decrypts.
    pub fn open(iv: &'a [u8], aad: &'a [u8], data: impl Into<Buffers<'a>>, tag: &'a [u8]) -> Self {
        Self::new(Operands::Open { iv, aad, data: data.into(), tag }, None)
    }

    /// The signature of `input`.
    pub fn sign(input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::new(Operands::Sign { input, output }, None)
    }

    /// Verifies the signature of `input`.
    pub fn verify(input: &'a [u8], signature: &'a [u8]) -> Self {
        Self::new(Operands::Verify { input, signature }, None)
    }

    /// The secret shared with the owner of a public key.
    pub fn derive(peer: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::new(Operands::Derive { input: peer, output }, None)
    }

    /// The next piece of a stream's message. A batch of these feeds many streams side by side.
    pub fn update(stream: &'a mut Stream, input: &'a [u8]) -> Self {
        let (device, bound) = stream.parts();
        Self::new(Operands::Update { stream: device, input }, Some(bound))
    }

    /// The end of a stream's message; the stream then stands at the beginning of the next one.
    pub fn finish(stream: &'a mut Stream, output: &'a mut [u8]) -> Self {
        let (device, bound) = stream.parts();
        Self::new(Operands::Finish { stream: device, output }, Some(bound))
    }

    pub(crate) fn new(operands: Operands<'a>, bound: Option<Bound<'a>>) -> Self {
        let body = Body { operands, bound, outcome: None, route: None, aside: None };
        Self { body, state: AtomicU8::new(IDLE), link: Link::new() }
    }

    /// Makes a request that has ended into another one.
    #[inline]
    pub(crate) fn begin(&mut self, operands: Operands<'a>, shape: Shape) {
        self.body.begin();
        (self.link.since, self.link.tried, self.link.shape) = (0, 0, shape);
        self.body.operands = operands;
    }

    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.body.operands.bytes()
    }

    /// The outcome, once the request has been run.
    pub fn outcome(&self) -> Option<Outcome> {
        debug_assert_eq!(self.state.load(Ordering::Relaxed), IDLE, "core gives requests back only when they are done");
        self.body.outcome
    }

    /// The device that ran it and why, once it has been run.
    pub fn route(&self) -> Option<Route> {
        self.body.route
    }
}
