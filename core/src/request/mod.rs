//! Requests: one operation with its buffers and the notes of core about it; submissions, which own their buffers; lists of handles; checks of lengths.

#![allow(unsafe_code)]

mod data;
mod inbox;
mod limits;
mod list;
mod loan;
mod submission;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::algorithm::{Algorithm, Buffers, Error, Fault, Operation, Outcome, Shape};
use crate::driver::entry::Entry;
use crate::driver::{DeviceSession, Operands};
use crate::route::Route;
use crate::trust::ShadowCopy;

pub(crate) use inbox::{Inbox, Stack};
pub(crate) use limits::Limits;
pub(crate) use list::{Handle, List};
pub(crate) use loan::Loan;
pub use submission::Submission;

/// One request of a batch: operands, and after [`Session::process`](crate::Session::process) an outcome.
///
/// ```
/// # use gantry_core::Request;
/// let (message, mut digest) = (b"abc", [0; 32]);
/// let requests = [Request::digest(message, &mut digest)];
/// assert!(requests[0].outcome().is_none(), "not run yet");
/// ```
// A handle points to the entry and to the request alike.
#[repr(C)]
pub struct Request<'a> {
    /// What a device gets to see.
    pub(crate) entry: Entry<'a>,
    /// Of `Update` and `Finish`: where the state of the stream lives.
    pub(crate) bound: Option<Bound<'a>>,
    pub(crate) route: Option<Route>,
    /// Not there where it would be empty.
    pub(crate) rare: Option<Box<Rare>>,
    pub(crate) note: Note,
}

/// What a request seldom has. In a box, because every request is read and written from end to end.
#[derive(Default)]
pub(crate) struct Rare {
    /// Why no device gave an outcome, of those that were asked until now.
    pub(crate) error: Option<Error>,
    /// Of a request whose result will be verified.
    pub(crate) shadow: Option<Box<ShadowCopy>>,
    /// The session that the request is in a device under, where the device's cache might close it.
    pub(crate) session: Option<Arc<dyn DeviceSession>>,
}

/// Which session and which device a stream belongs to.
pub(crate) struct Bound<'a> {
    /// The address of the session, to compare.
    pub(crate) session: usize,
    pub(crate) route: Route,
    /// Set when a piece was lost.
    pub(crate) broken: &'a mut bool,
}

/// What core notes about a request while it has it in hand.
pub(crate) struct Note {
    /// The session of the request (`session.rs` knows the type).
    pub(crate) owner: Option<NonNull<()>>,
    /// Where the request comes back to, when another thread than its own has it in hand.
    pub(crate) home: Option<NonNull<Inbox>>,
    pub(crate) algorithm: Algorithm,
    /// What routes go by.
    pub(crate) shape: Shape,
    /// When it was offered to a ring, or submitted to a queue that has not passed it on.
    pub(crate) since: u64,
    /// The devices that have failed to do it, as bits.
    pub(crate) tried: u64,
    /// Its place in the queue that it belongs to.
    pub(crate) slot: u32,
    /// What the request points into, if data lie in segments that were not copied. Its operands are lent anew when they are.
    pub(crate) lender: Option<Lender>,
}

/// A submission with data in segments.
pub(crate) struct Lender {
    pub(crate) submission: NonNull<Submission>,
    /// Bytes of where the result goes.
    pub(crate) result: usize,
}

// SAFETY: what it points to is Sync (a session, an inbox, a submission), and is used only by whoever has the request in hand.
unsafe impl Send for Note {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Note {}

impl Note {
    const fn new() -> Self {
        let (algorithm, shape) = (Algorithm::Null, Shape::NOTHING);
        Self { owner: None, home: None, algorithm, shape, since: 0, tried: 0, slot: 0, lender: None }
    }
}

/// A request of a whole message. Operands of a stream belong to a [`Stream`](crate::Stream): here they are a misuse.
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

    /// A pair of keys, from random bytes or, without any, from the device's own. Of a private key that can be written in two ways
    /// the length of the buffer says which.
    pub fn key_gen(seed: &'a [u8], private: &'a mut [u8], public: &'a mut [u8]) -> Self {
        Self::new(Operands::KeyGen { seed, private, public }, None)
    }

    /// A secret, and the ciphertext that tells it to the owner of a public key; from random bytes or, without any, from the device's
    /// own.
    pub fn encapsulate(peer: &'a [u8], seed: &'a [u8], ciphertext: &'a mut [u8], secret: &'a mut [u8]) -> Self {
        Self::new(Operands::Encapsulate { input: peer, seed, ciphertext, output: secret }, None)
    }

    /// The secret of a ciphertext.
    pub fn decapsulate(ciphertext: &'a [u8], secret: &'a mut [u8]) -> Self {
        Self::new(Operands::Decapsulate { input: ciphertext, output: secret }, None)
    }

    /// A ciphertext of `message` for the owner of the session's public key.
    pub fn encipher(message: &'a [u8], ciphertext: &'a mut [u8]) -> Self {
        Self::new(Operands::Encipher { input: message, output: ciphertext }, None)
    }

    /// The message of such a ciphertext, in a buffer that is as long, and how many bytes it has.
    pub fn decipher(ciphertext: &'a [u8], message: &'a mut [u8], written: &'a mut usize) -> Self {
        Self::new(Operands::Decipher { input: ciphertext, output: message, written }, None)
    }

    /// Fewer bytes that tell `input`, and how many they are. An output of
    /// [`compressed_max`](crate::AlgorithmInfo::compressed_max) bytes is never too short.
    pub fn compress(input: &'a [u8], output: &'a mut [u8], written: &'a mut usize) -> Self {
        Self::new(Operands::Compression { operation: Operation::Compress, input, output, written }, None)
    }

    /// What was compressed to `input`, and how many bytes that is.
    pub fn decompress(input: &'a [u8], output: &'a mut [u8], written: &'a mut usize) -> Self {
        Self::new(Operands::Compression { operation: Operation::Decompress, input, output, written }, None)
    }

    /// Makes a packet of a payload, in place: [`Operands::Packet`] says where it lies.
    pub fn protect(number: u64, packet: &'a mut [u8], payload: &'a mut usize, next_header: &'a mut u8) -> Self {
        Self::new(Operands::Packet { operation: Operation::Protect, number, packet, payload, next_header }, None)
    }

    /// Opens a packet, in place, and tells how long its payload is and what it is.
    pub fn unprotect(number: u64, packet: &'a mut [u8], payload: &'a mut usize, next_header: &'a mut u8) -> Self {
        Self::new(Operands::Packet { operation: Operation::Unprotect, number, packet, payload, next_header }, None)
    }

    pub(crate) fn new(operands: Operands<'a>, bound: Option<Bound<'a>>) -> Self {
        Self { entry: Entry::new(operands), bound, route: None, rare: None, note: Note::new() }
    }

    /// Makes a request that has ended into another one.
    #[inline]
    pub(crate) fn begin_anew(&mut self, operands: Operands<'a>, shape: Shape) {
        self.begin();
        (self.note.since, self.note.tried, self.note.shape) = (0, 0, shape);
        self.entry.operands = operands;
    }

    /// Forgets how it ended.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.entry.begin();
        self.route = None;
        if self.rare.is_some() {
            self.rare = None;
        }
    }

    /// Whether it ended well, with nothing left to look at.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.entry.outcome == Some(Outcome::Done) && self.rare.is_none()
    }

    /// Ends it with an error, before a device has seen it.
    #[cold]
    pub(crate) fn refuse(&mut self, error: Error) {
        self.begin();
        self.rare().error = Some(error);
    }

    /// To write something there.
    #[cold]
    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// What the device said that failed to do it.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.entry.fault.as_deref()
    }

    /// Why no device gave an outcome. What else there is beside it is gone.
    #[cold]
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.rare.take()?.error
    }

    /// How it ended, after [`Session::process_each`](crate::Session::process_each).
    ///
    /// # Errors
    /// [`Error::Misuse`] if the request was wrong; [`Error::Device`] and [`Error::Unserved`] if no device could serve it. The error is taken: it is said once.
    #[inline]
    pub fn result(&mut self) -> Result<Outcome, Error> {
        self.entry.outcome.ok_or_else(|| self.failure())
    }

    #[cold]
    fn failure(&mut self) -> Error {
        let algorithm = self.note.algorithm;
        let fault = self.entry.fault.take().map_or(Fault::Lost, |fault| *fault);
        self.take_error().unwrap_or(Error::Device { algorithm, last: fault })
    }

    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.entry.operands.bytes()
    }

    /// The outcome, once the request has been run.
    pub fn outcome(&self) -> Option<Outcome> {
        debug_assert!(self.entry.is_idle(), "core gives requests back only when they are done");
        self.entry.outcome
    }

    /// The device that ran it and why, once it has been run.
    pub fn route(&self) -> Option<Route> {
        self.route
    }
}
