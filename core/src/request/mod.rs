//! Requests with their operands and core's metadata; submissions, which own their buffers; lists of handles; validation.

#![allow(unsafe_code)]

mod borrowed_batch;
mod data;
mod inbox;
mod limits;
mod list;
mod submission;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::algorithm::{Algorithm, Buffers, Error, Fault, Operation, Outcome, Shape};
use crate::driver::entry::Entry;
use crate::driver::{DeviceSession, Operands};
use crate::route::Route;
use crate::trust::ShadowCopy;

pub(crate) use borrowed_batch::BorrowedBatch;
pub(crate) use inbox::{Inbox, Stack};
pub(crate) use limits::Limits;
pub(crate) use list::{Handle, List};
pub use submission::Submission;

/// A request of a batch: operands, and after [`Session::process`](crate::Session::process) an outcome.
///
/// ```
/// # use gantry_core::Request;
/// let (message, mut digest) = (b"abc", [0; 32]);
/// let requests = [Request::digest(message, &mut digest)];
/// assert!(requests[0].outcome().is_none(), "not run yet");
/// ```
// The entry comes first, so that a pointer to the entry is also a pointer to the request.
#[repr(C)]
pub struct Request<'a> {
    /// The part that a device sees.
    pub(crate) entry: Entry<'a>,
    /// For `Update` and `Finish`: the stream's session and device.
    pub(crate) stream: Option<StreamBinding<'a>>,
    pub(crate) route: Option<Route>,
    /// The cold data. `None` if it would be empty.
    pub(crate) cold: Option<Box<ColdData>>,
    pub(crate) meta: RequestMeta,
}

/// The cold data of a request: data that few requests need. It is in a box, so that all other requests stay small.
#[derive(Default)]
pub(crate) struct ColdData {
    /// The reason why no device has given an outcome so far.
    pub(crate) error: Option<Error>,
    /// The copy for verification, if the result will be verified.
    pub(crate) shadow: Option<Box<ShadowCopy>>,
    /// The device session, if it comes from the device's cache, which could otherwise close it.
    pub(crate) session: Option<Arc<dyn DeviceSession>>,
}

/// The session and the device of a stream.
pub(crate) struct StreamBinding<'a> {
    /// The address of the session, for comparison.
    pub(crate) session: usize,
    pub(crate) route: Route,
    /// Set when a chunk is lost.
    pub(crate) has_lost_chunk: &'a mut bool,
}

/// Core's metadata of a request while core owns the request.
pub(crate) struct RequestMeta {
    /// The address of the request's session, which is a `SessionCore`.
    pub(crate) session: Option<NonNull<()>>,
    /// The inbox to which other threads return the request.
    pub(crate) inbox: Option<NonNull<Inbox>>,
    pub(crate) algorithm: Algorithm,
    /// The shape, for routing.
    pub(crate) shape: Shape,
    /// The time in nanoseconds at which the request was offered to a device that does not work in the calling thread. After its return, the
    /// time of the return. Stays 0 if no such device gets the request.
    pub(crate) since: u64,
    /// Bit mask of devices that failed to run the request.
    pub(crate) tried_devices: u64,
    /// The request's slot in its queue.
    pub(crate) slot: u32,
    /// The submission that the request points into, if its data is in segments without copies. Copying takes it, to make new operands.
    pub(crate) segment_source: Option<SegmentSource>,
}

/// A submission with data in segments.
pub(crate) struct SegmentSource {
    pub(crate) submission: NonNull<Submission>,
    /// Bytes of the result.
    pub(crate) result_len: usize,
}

// SAFETY: the pointers lead to Sync types (a session, an inbox, a submission), and only the present owner of the request uses them.
unsafe impl Send for RequestMeta {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for RequestMeta {}

impl RequestMeta {
    const fn new() -> Self {
        let (algorithm, shape) = (Algorithm::Null, Shape::NOTHING);
        Self { session: None, inbox: None, algorithm, shape, since: 0, tried_devices: 0, slot: 0, segment_source: None }
    }
}

/// A request of a whole message. Operands of a [`Stream`](crate::Stream)'s step are a misuse here.
impl<'a> From<Operands<'a>> for Request<'a> {
    fn from(operands: Operands<'a>) -> Self {
        Self::new(operands, None)
    }
}

impl fmt::Debug for Request<'_> {
    /// Shows no data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { operands, outcome, .. } = &self.entry;
        write!(f, "{} {} bytes {outcome:?}", operands.operation(), operands.bytes())
    }
}

impl<'a> Request<'a> {
    /// Computes the digest of `input`.
    pub fn digest(input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::new(Operands::Digest { input, output }, None)
    }

    /// Computes the MAC of `input`.
    pub fn mac(input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::mac_with_iv(&[], input, output)
    }

    /// Computes the MAC of `input` with an algorithm that takes an IV (GMAC).
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

    /// Signs `input`.
    pub fn sign(input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::new(Operands::Sign { input, output }, None)
    }

    /// Verifies the signature of `input`.
    pub fn verify(input: &'a [u8], signature: &'a [u8]) -> Self {
        Self::new(Operands::Verify { input, signature }, None)
    }

    /// Computes the secret shared with the owner of the public key `peer`.
    pub fn derive(peer: &'a [u8], output: &'a mut [u8]) -> Self {
        Self::new(Operands::Derive { input: peer, output }, None)
    }

    /// Generates a key pair from `seed`, or from the device's random number generator if `seed` is empty. If a private key has two
    /// encodings, the length of `private` selects one.
    pub fn key_gen(seed: &'a [u8], private: &'a mut [u8], public: &'a mut [u8]) -> Self {
        Self::new(Operands::KeyGen { seed, private, public }, None)
    }

    /// Makes a secret from `seed`, or from the device's random number generator if `seed` is empty, and encapsulates it to the public key
    /// `peer`.
    pub fn encapsulate(peer: &'a [u8], seed: &'a [u8], ciphertext: &'a mut [u8], secret: &'a mut [u8]) -> Self {
        Self::new(Operands::Encapsulate { input: peer, seed, ciphertext, output: secret }, None)
    }

    /// Decapsulates the secret of a ciphertext.
    pub fn decapsulate(ciphertext: &'a [u8], secret: &'a mut [u8]) -> Self {
        Self::new(Operands::Decapsulate { input: ciphertext, output: secret }, None)
    }

    /// Encrypts `message` to the session's public key.
    pub fn encipher(message: &'a [u8], ciphertext: &'a mut [u8]) -> Self {
        Self::new(Operands::Encipher { input: message, output: ciphertext }, None)
    }

    /// Decrypts a ciphertext into `message`, which must be as long as the ciphertext, and sets `written` to the length of the message in
    /// bytes.
    pub fn decipher(ciphertext: &'a [u8], message: &'a mut [u8], written: &'a mut usize) -> Self {
        Self::new(Operands::Decipher { input: ciphertext, output: message, written }, None)
    }

    /// Compresses `input`, and sets `written` to the length of the result in bytes. An output of
    /// [`compressed_max`](crate::AlgorithmInfo::compressed_max) bytes always suffices.
    pub fn compress(input: &'a [u8], output: &'a mut [u8], written: &'a mut usize) -> Self {
        Self::new(Operands::Compression { operation: Operation::Compress, input, output, written }, None)
    }

    /// Decompresses `input`, and sets `written` to the length of the result in bytes.
    pub fn decompress(input: &'a [u8], output: &'a mut [u8], written: &'a mut usize) -> Self {
        Self::new(Operands::Compression { operation: Operation::Decompress, input, output, written }, None)
    }

    /// Builds a packet from a payload in place; for the layout see [`Operands::Packet`].
    pub fn protect(number: u64, packet: &'a mut [u8], payload_len: &'a mut usize, next_header: &'a mut u8) -> Self {
        Self::new(Operands::Packet { operation: Operation::Protect, number, packet, payload_len, next_header }, None)
    }

    /// Opens a packet in place, and sets the payload's length and next header.
    pub fn unprotect(number: u64, packet: &'a mut [u8], payload_len: &'a mut usize, next_header: &'a mut u8) -> Self {
        Self::new(Operands::Packet { operation: Operation::Unprotect, number, packet, payload_len, next_header }, None)
    }

    pub(crate) fn new(operands: Operands<'a>, stream: Option<StreamBinding<'a>>) -> Self {
        Self { entry: Entry::new(operands), stream, route: None, cold: None, meta: RequestMeta::new() }
    }

    /// Replaces the operands of a finished request, to run it again.
    #[inline]
    pub(crate) fn reset(&mut self, operands: Operands<'a>, shape: Shape) {
        self.clear_result();
        (self.meta.since, self.meta.tried_devices, self.meta.shape) = (0, 0, shape);
        self.entry.operands = operands;
    }

    /// Clears the outcome, the fault, the route, and the cold data.
    #[inline]
    pub(crate) fn clear_result(&mut self) {
        self.entry.clear_result();
        self.route = None;
        if self.cold.is_some() {
            self.cold = None;
        }
    }

    /// Returns `true` if the request succeeded and has no cold data.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.entry.outcome == Some(Outcome::Done) && self.cold.is_none()
    }

    /// Ends the request with an error, before a device has seen it.
    #[cold]
    pub(crate) fn refuse(&mut self, error: Error) {
        self.clear_result();
        self.cold_mut().error = Some(error);
    }

    /// Returns the cold data for writing.
    #[cold]
    pub(crate) fn cold_mut(&mut self) -> &mut ColdData {
        self.cold.get_or_insert_default()
    }

    /// Returns the fault of the device.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.entry.fault.as_deref()
    }

    /// Takes the reason why no device gave an outcome, and drops the other cold data.
    #[cold]
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.cold.take()?.error
    }

    /// Returns the outcome after [`Session::process_each`](crate::Session::process_each).
    ///
    /// # Errors
    /// [`Error::Misuse`] if the request was wrong; [`Error::Device`] and [`Error::Unserved`] if no device could serve it. The error is
    /// returned only once.
    #[inline]
    pub fn result(&mut self) -> Result<Outcome, Error> {
        self.entry.outcome.ok_or_else(|| self.failure())
    }

    #[cold]
    fn failure(&mut self) -> Error {
        let algorithm = self.meta.algorithm;
        let fault = self.entry.fault.take().map_or(Fault::Lost, |fault| *fault);
        self.take_error().unwrap_or(Error::Device { algorithm, last: fault })
    }

    /// Returns the number of bytes of data.
    pub fn bytes(&self) -> usize {
        self.entry.operands.bytes()
    }

    /// Returns the outcome, once the request has run.
    pub fn outcome(&self) -> Option<Outcome> {
        debug_assert!(self.entry.is_idle(), "core gives requests back only when they are done");
        self.entry.outcome
    }

    /// Returns the device that ran the request and the reason for choosing it, once the request has run.
    pub fn route(&self) -> Option<Route> {
        self.route
    }
}
