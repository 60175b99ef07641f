//! Messages that arrive in chunks.

use std::sync::Arc;

use crate::algorithm::{Buffers, Error, Fault, Misuse, Operation, Outcome, Result};
use crate::dispatch::SessionCore;
use crate::driver::{self, DigestStream, Operands};
use crate::request::{Request, StreamBinding};
use crate::route::Route;

/// The state of a digest or MAC whose message arrives in chunks; from [`Session::stream`](crate::Session::stream).
///
/// It lives on one device. A batch of [`Request::update`](crate::Request::update) feeds many streams side by side.
///
/// A clone continues from the same position.
pub struct Stream {
    pub(super) session: Arc<SessionCore>,
    state: Box<dyn DigestStream>,
    route: Route,
    /// A chunk was lost by a fault of the device.
    has_lost_chunk: bool,
}

impl Stream {
    pub(crate) fn new(session: Arc<SessionCore>, state: Box<dyn DigestStream>, route: Route) -> Self {
        Self { session, state, route, has_lost_chunk: false }
    }

    pub(crate) fn parts(&mut self) -> (&mut dyn DigestStream, StreamBinding<'_>) {
        let Self { session, state, route, has_lost_chunk } = self;
        (&mut **state, StreamBinding { session: session.id(), route: *route, has_lost_chunk })
    }

    /// Adds the next chunk, of any length.
    pub fn update(&mut self, input: &[u8]) -> Result<()> {
        self.check_unbroken()?;
        self.step(input.len(), |state| state.update(input))
    }

    /// Writes the digest or MAC, and resets the stream for the next message.
    pub fn finish(&mut self, output: &mut [u8]) -> Result<()> {
        let needs = self.session.params.tag_len();
        if output.len() != needs {
            let algorithm = self.session.params.algorithm();
            return Err(Misuse::OutputLength { algorithm, got: output.len(), needs }.into());
        }
        self.check_unbroken()?;
        self.step(0, |state| state.finish(output))
    }

    /// Returns the device of the stream, and the reason for choosing it.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Returns an error if a chunk was lost, because the digest would not be that of the caller's message.
    fn check_unbroken(&self) -> Result<()> {
        let algorithm = self.session.params.algorithm();
        if self.has_lost_chunk { Err(Error::Device { algorithm, last: Fault::Lost }) } else { Ok(()) }
    }

    fn step(
        &mut self,
        bytes: usize,
        run: impl FnOnce(&mut dyn DigestStream) -> std::result::Result<(), Fault>,
    ) -> Result<()> {
        let Self { session, state, route, has_lost_chunk } = self;
        let operation = state.operation();
        let run = || run(&mut **state).map(|()| Outcome::Done);
        session.step_stream(operation, *route, bytes, run).inspect_err(|_| *has_lost_chunk = true).map(drop)
    }
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        let Self { session, state, route, has_lost_chunk } = self;
        Self { session: session.clone(), state: state.duplicate(), route: *route, has_lost_chunk: *has_lost_chunk }
    }
}

/// The state of a cipher whose data arrives in chunks, chained across them; from [`Session::cipher_stream`](crate::Session::cipher_stream).
///
/// A clone continues from the same position under the same IV. When encrypting, continue with either the stream or its clone, never both.
pub struct CipherStream {
    session: Arc<SessionCore>,
    state: Box<dyn driver::CipherStream>,
    operation: Operation,
    route: Route,
    /// Bytes that the stream may still take.
    bytes_left: u64,
    /// A chunk was lost by a fault of the device.
    has_lost_chunk: bool,
}

impl CipherStream {
    pub(crate) fn new(
        session: Arc<SessionCore>,
        state: Box<dyn driver::CipherStream>,
        operation: Operation,
        iv_len: usize,
        route: Route,
    ) -> Self {
        let bytes_left = session.limits.max_data(iv_len);
        Self { session, state, operation, route, bytes_left, has_lost_chunk: false }
    }

    /// Encrypts or decrypts the next chunk, whose length is a multiple of the algorithm's block. A chunk that exceeds the algorithm's
    /// data limit for one IV is refused ([`Outcome::BadLength`]), and leaves the stream unchanged.
    pub fn update<'a>(&mut self, data: impl Into<Buffers<'a>>) -> Result<()> {
        let data = data.into();
        let algorithm = self.session.params.algorithm();
        let info = algorithm.info();
        if data.output_len() != data.len() {
            return Err(Misuse::OutputLength { algorithm, got: data.output_len(), needs: data.len() }.into());
        }
        if !data.len().is_multiple_of(info.block) {
            return Err(Error::Refused(Outcome::BadLength));
        }
        if self.has_lost_chunk {
            return Err(Error::Device { algorithm, last: Fault::Lost });
        }
        let Self { session, state, operation, route, bytes_left, has_lost_chunk } = self;
        *bytes_left = take_from_limit(*bytes_left, data.len())?;
        let (bytes, step) = (data.len(), || state.update(data).map(|()| Outcome::Done));
        session.step_stream(*operation, *route, bytes, step).inspect_err(|_| *has_lost_chunk = true).map(drop)
    }

    /// Returns [`Operation::Encrypt`] or [`Operation::Decrypt`].
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the device of the stream, and the reason for choosing it.
    pub fn route(&self) -> Route {
        self.route
    }
}

impl Clone for CipherStream {
    fn clone(&self) -> Self {
        let Self { session, state, operation, route, bytes_left, has_lost_chunk } = self;
        let (session, state) = (session.clone(), state.duplicate());
        Self {
            session,
            state,
            operation: *operation,
            route: *route,
            bytes_left: *bytes_left,
            has_lost_chunk: *has_lost_chunk,
        }
    }
}

/// The state of an AEAD whose messages arrive in chunks, one message after the other; from
/// [`Session::aead_stream`](crate::Session::aead_stream).
///
/// When opening, [`update`](Self::update) releases plaintext before its tag is verified. Use this only for interfaces that need it, and
/// keep the plaintext back until [`open`](Self::open) has succeeded. For a message in one piece, use
/// [`Session::open`](crate::Session::open).
///
/// A clone continues from the same position under the same nonce. When sealing, continue the message with either the stream or its clone,
/// never both.
pub struct AeadStream {
    session: Arc<SessionCore>,
    state: Box<dyn driver::AeadStream>,
    operation: Operation,
    route: Route,
    /// Bytes that the message may still take; `None` if no message is in progress, or a chunk was lost by a fault of the device.
    bytes_left: Option<u64>,
}

impl AeadStream {
    pub(crate) fn new(
        session: Arc<SessionCore>,
        state: Box<dyn driver::AeadStream>,
        operation: Operation,
        route: Route,
    ) -> Self {
        Self { session, state, operation, route, bytes_left: None }
    }

    /// Begins a message, and abandons an unfinished message.
    pub fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<()> {
        self.session.limits.check_iv(iv)?;
        self.step(0, |state| state.begin(iv, aad).map(|()| Outcome::Done))?.ok()?;
        self.bytes_left = Some(self.session.limits.max_data(iv.len()));
        Ok(())
    }

    /// Does [`begin`](Self::begin) and [`update`](Self::update) in one step.
    pub fn begin_with<'a>(&mut self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        let data = data.into();
        self.session.limits.check_iv(iv)?;
        self.check_chunk(&data)?;
        self.bytes_left = Some(take_from_limit(self.session.limits.max_data(iv.len()), data.len())?);
        self.step(data.len(), |state| {
            state.begin(iv, aad)?;
            state.update(data).map(|()| Outcome::Done)
        })
        .map(drop)
    }

    /// Seals or opens the next chunk, of any length. A chunk that exceeds the algorithm's data limit for one nonce is refused
    /// ([`Outcome::BadLength`]), and leaves the message unchanged.
    pub fn update<'a>(&mut self, data: impl Into<Buffers<'a>>) -> Result<()> {
        let data = data.into();
        self.check_chunk(&data)?;
        self.bytes_left = Some(take_from_limit(self.remaining()?, data.len())?);
        self.step(data.len(), |state| state.update(data).map(|()| Outcome::Done)).map(drop)
    }

    /// Adds associated data after data. Some releases of OpenSSL allow this with ChaCha20-Poly1305, and authenticate all bytes in their
    /// order; RFC 8439 does not allow it. Fails with [`Outcome::Malformed`], and leaves the message unchanged, if the algorithm or the
    /// device does not support this.
    pub fn aad_after_data(&mut self, aad: &[u8]) -> Result<()> {
        self.remaining()?;
        self.step(0, |state| state.aad_after_data(aad))?.ok()
    }

    fn check_chunk(&self, data: &Buffers<'_>) -> Result<()> {
        if data.output_len() == data.len() {
            return Ok(());
        }
        let algorithm = self.session.params.algorithm();
        Err(Misuse::OutputLength { algorithm, got: data.output_len(), needs: data.len() }.into())
    }

    /// Ends a message that is being sealed, and writes its tag. A buffer of another length than the tag's is refused, and the message goes on.
    pub fn seal(&mut self, tag: &mut [u8]) -> Result<()> {
        let needs = self.session.params.tag_len();
        if self.operation == Operation::Seal && tag.len() != needs {
            let algorithm = self.session.params.algorithm();
            return Err(Misuse::OutputLength { algorithm, got: tag.len(), needs }.into());
        }
        self.end_message(Operation::Seal)?;
        self.step(0, |state| state.seal(tag).map(|()| Outcome::Done)).map(drop)
    }

    /// Ends a message that is being opened, and verifies its tag, which may have any length that the algorithm allows. [`Error::Refused`]
    /// means a forgery: discard the plaintext.
    pub fn open(&mut self, tag: &[u8]) -> Result<()> {
        self.end_message(Operation::Open)?;
        if !self.session.params.algorithm().info().tag.allows(tag.len()) {
            return Err(Error::Refused(Outcome::BadTag));
        }
        self.step(0, |state| state.open(tag))?.ok()
    }

    /// Returns the device of the stream, and the reason for choosing it.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Ends the message, so that it gets one tag only.
    fn end_message(&mut self, operation: Operation) -> Result<()> {
        if self.operation != operation {
            return Err(Misuse::Operation { algorithm: self.session.params.algorithm(), operation }.into());
        }
        self.remaining()?;
        self.bytes_left = None;
        Ok(())
    }

    fn remaining(&self) -> Result<u64> {
        let misuse = || Misuse::Stream { algorithm: self.session.params.algorithm(), operation: self.operation };
        self.bytes_left.ok_or_else(|| misuse().into())
    }

    fn step(
        &mut self,
        bytes: usize,
        run: impl FnOnce(&mut dyn driver::AeadStream) -> std::result::Result<Outcome, Fault>,
    ) -> Result<Outcome> {
        let Self { session, state, operation, route, bytes_left } = self;
        session.step_stream(*operation, *route, bytes, || run(&mut **state)).inspect_err(|_| *bytes_left = None)
    }
}

/// Returns `bytes_left` minus `bytes`, or an error if that is negative.
fn take_from_limit(bytes_left: u64, bytes: usize) -> Result<u64> {
    bytes_left.checked_sub(bytes as u64).ok_or(Error::Refused(Outcome::BadLength))
}

impl Clone for AeadStream {
    fn clone(&self) -> Self {
        let Self { session, state, operation, route, bytes_left } = self;
        let (session, state) = (session.clone(), state.duplicate());
        Self { session, state, operation: *operation, route: *route, bytes_left: *bytes_left }
    }
}

impl<'a> Request<'a> {
    /// Returns a request for the next chunk of a stream's message. A batch of such requests feeds many streams side by side.
    pub fn update(stream: &'a mut Stream, input: &'a [u8]) -> Self {
        let (state, binding) = stream.parts();
        Self::new(Operands::Update { stream: state, input }, Some(binding))
    }

    /// Returns a request that ends a stream's message; the stream is then ready for the next one.
    pub fn finish(stream: &'a mut Stream, output: &'a mut [u8]) -> Self {
        let (state, binding) = stream.parts();
        Self::new(Operands::Finish { stream: state, output }, Some(binding))
    }
}
