//! Messages that arrive in pieces.

use std::sync::Arc;

use crate::algorithm::{Buffers, Error, Fault, Misuse, Operation, Outcome, Result};
use crate::dispatch::SessionCore;
use crate::driver::{self, DigestStream, Operands};
use crate::request::{Bound, Request};
use crate::route::Route;

/// The state of a digest or MAC whose message arrives in pieces; from [`Session::stream`](crate::Session::stream).
///
/// It lives on one device. Many of them are fed side by side with [`Request::update`](crate::Request::update) in a batch.
///
/// A clone stands where the original does.
pub struct Stream {
    pub(super) session: Arc<SessionCore>,
    state: Box<dyn DigestStream>,
    route: Route,
    /// A piece was lost with a fault of the device.
    broken: bool,
}

impl Stream {
    pub(crate) fn new(session: Arc<SessionCore>, state: Box<dyn DigestStream>, route: Route) -> Self {
        Self { session, state, route, broken: false }
    }

    pub(crate) fn parts(&mut self) -> (&mut dyn DigestStream, Bound<'_>) {
        let Self { session, state, route, broken } = self;
        (&mut **state, Bound { session: session.id(), route: *route, broken })
    }

    /// Takes the next piece, of any length.
    pub fn update(&mut self, input: &[u8]) -> Result<()> {
        self.whole()?;
        self.step(input.len(), |state| state.update(input))
    }

    /// Writes the digest or MAC, and stands at the beginning of the next message.
    pub fn finish(&mut self, output: &mut [u8]) -> Result<()> {
        let needs = self.session.params.tag_length();
        if output.len() != needs {
            let algorithm = self.session.params.algorithm();
            return Err(Misuse::OutputLength { algorithm, got: output.len(), needs }.into());
        }
        self.whole()?;
        self.step(0, |state| state.finish(output))
    }

    /// Where it lives, and why.
    pub fn route(&self) -> Route {
        self.route
    }

    /// A stream that lost a piece would give the digest of another message.
    fn whole(&self) -> Result<()> {
        let algorithm = self.session.params.algorithm();
        if self.broken { Err(Error::Device { algorithm, last: Fault::Lost }) } else { Ok(()) }
    }

    fn step(
        &mut self,
        bytes: usize,
        run: impl FnOnce(&mut dyn DigestStream) -> std::result::Result<(), Fault>,
    ) -> Result<()> {
        let Self { session, state, route, broken } = self;
        let operation = state.operation();
        let run = || run(&mut **state).map(|()| Outcome::Done);
        session.step_stream(operation, *route, bytes, run).inspect_err(|_| *broken = true).map(drop)
    }
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        let Self { session, state, route, broken } = self;
        Self { session: session.clone(), state: state.duplicate(), route: *route, broken: *broken }
    }
}

/// The state of a cipher whose data arrives in pieces, chained across them; from [`Session::cipher_stream`](crate::Session::cipher_stream).
///
/// A clone stands where the original does, under the same IV: of two that encrypt, only one may go on.
pub struct CipherStream {
    session: Arc<SessionCore>,
    state: Box<dyn driver::CipherStream>,
    operation: Operation,
    route: Route,
    /// Bytes that may still come.
    left: u64,
    /// A piece was lost with a fault of the device.
    broken: bool,
}

impl CipherStream {
    pub(crate) fn new(
        session: Arc<SessionCore>,
        state: Box<dyn driver::CipherStream>,
        operation: Operation,
        iv: usize,
        route: Route,
    ) -> Self {
        let left = session.limits.max_data(iv);
        Self { session, state, operation, route, left, broken: false }
    }

    /// Encrypts or decrypts the next piece, whose length is a multiple of the algorithm's block. One with which there would be more
    /// data than the algorithm allows under one IV is refused ([`Outcome::BadLength`]), and the stream stands where it was.
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
        if self.broken {
            return Err(Error::Device { algorithm, last: Fault::Lost });
        }
        let Self { session, state, operation, route, left, broken } = self;
        *left = rest(*left, data.len())?;
        let (bytes, step) = (data.len(), || state.update(data).map(|()| Outcome::Done));
        session.step_stream(*operation, *route, bytes, step).inspect_err(|_| *broken = true).map(drop)
    }

    /// [`Operation::Encrypt`] or [`Operation::Decrypt`].
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Where it lives, and why.
    pub fn route(&self) -> Route {
        self.route
    }
}

impl Clone for CipherStream {
    fn clone(&self) -> Self {
        let Self { session, state, operation, route, left, broken } = self;
        let (session, state) = (session.clone(), state.duplicate());
        Self { session, state, operation: *operation, route: *route, left: *left, broken: *broken }
    }
}

/// The state of an AEAD whose messages arrive in pieces, one message after the other; from [`Session::aead_stream`](crate::Session::aead_stream).
///
/// Sealing, nothing is special about it. Opening, it gives out plaintext of which nobody knows yet whether it is genuine: it
/// is for interfaces that work so, and the caller keeps the plaintext to itself until [`open`](Self::open) has agreed.
/// Wherever a message is in one piece, [`Session::open`](crate::Session::open) is the better way.
///
/// A clone stands where the original does, under the same nonce: of two that seal, only one may go on with the message.
pub struct AeadStream {
    session: Arc<SessionCore>,
    state: Box<dyn driver::AeadStream>,
    operation: Operation,
    route: Route,
    /// Bytes that the message may still have, if one has begun and lost no piece to a fault of the device.
    left: Option<u64>,
}

impl AeadStream {
    pub(crate) fn new(
        session: Arc<SessionCore>,
        state: Box<dyn driver::AeadStream>,
        operation: Operation,
        route: Route,
    ) -> Self {
        Self { session, state, operation, route, left: None }
    }

    /// Begins a message, whatever became of the last one.
    pub fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<()> {
        self.session.limits.check_iv(iv)?;
        self.step(0, |state| state.begin(iv, aad).map(|()| Outcome::Done))?.ok()?;
        self.left = Some(self.session.limits.max_data(iv.len()));
        Ok(())
    }

    /// [`begin`](Self::begin) and [`update`](Self::update) in one step.
    pub fn begin_with<'a>(&mut self, iv: &[u8], aad: &[u8], data: impl Into<Buffers<'a>>) -> Result<()> {
        let data = data.into();
        self.session.limits.check_iv(iv)?;
        self.check_piece(&data)?;
        self.left = Some(rest(self.session.limits.max_data(iv.len()), data.len())?);
        self.step(data.len(), |state| {
            state.begin(iv, aad)?;
            state.update(data).map(|()| Outcome::Done)
        })
        .map(drop)
    }

    /// Seals or opens the next piece, of any length. One with which the message would have more data than the algorithm allows under
    /// one nonce is refused ([`Outcome::BadLength`]), and the message stands where it was.
    pub fn update<'a>(&mut self, data: impl Into<Buffers<'a>>) -> Result<()> {
        let data = data.into();
        self.check_piece(&data)?;
        self.left = Some(rest(self.begun()?, data.len())?);
        self.step(data.len(), |state| state.update(data).map(|()| Outcome::Done)).map(drop)
    }

    fn check_piece(&self, data: &Buffers<'_>) -> Result<()> {
        if data.output_len() == data.len() {
            return Ok(());
        }
        let algorithm = self.session.params.algorithm();
        Err(Misuse::OutputLength { algorithm, got: data.output_len(), needs: data.len() }.into())
    }

    /// Ends a sealed message: writes its tag.
    pub fn seal(&mut self, tag: &mut [u8]) -> Result<()> {
        self.ends(Operation::Seal)?;
        let needs = self.session.params.tag_length();
        if tag.len() != needs {
            let algorithm = self.session.params.algorithm();
            return Err(Misuse::OutputLength { algorithm, got: tag.len(), needs }.into());
        }
        self.step(0, |state| state.seal(tag).map(|()| Outcome::Done)).map(drop)
    }

    /// Ends an opened message: [`Error::Refused`] says that it was a forgery. The tag has any length that the algorithm's tags
    /// can have: whoever opens so says with the tag how much of it there is.
    pub fn open(&mut self, tag: &[u8]) -> Result<()> {
        self.ends(Operation::Open)?;
        if !self.session.params.algorithm().info().tag.allows(tag.len()) {
            return Err(Error::Refused(Outcome::BadTag));
        }
        self.step(0, |state| state.open(tag))?.ok()
    }

    /// Where it lives, and why.
    pub fn route(&self) -> Route {
        self.route
    }

    /// One message, one tag.
    fn ends(&mut self, operation: Operation) -> Result<()> {
        if self.operation != operation {
            return Err(Misuse::Operation { algorithm: self.session.params.algorithm(), operation }.into());
        }
        self.begun()?;
        self.left = None;
        Ok(())
    }

    fn begun(&self) -> Result<u64> {
        let misuse = || Misuse::Stream { algorithm: self.session.params.algorithm(), operation: self.operation };
        self.left.ok_or_else(|| misuse().into())
    }

    fn step(
        &mut self,
        bytes: usize,
        run: impl FnOnce(&mut dyn driver::AeadStream) -> std::result::Result<Outcome, Fault>,
    ) -> Result<Outcome> {
        let Self { session, state, operation, route, left } = self;
        session.step_stream(*operation, *route, bytes, || run(&mut **state)).inspect_err(|_| *left = None)
    }
}

/// What is left of `left` bytes after so many, if they are no more.
fn rest(left: u64, bytes: usize) -> Result<u64> {
    left.checked_sub(bytes as u64).ok_or(Error::Refused(Outcome::BadLength))
}

impl Clone for AeadStream {
    fn clone(&self) -> Self {
        let Self { session, state, operation, route, left } = self;
        let (session, state) = (session.clone(), state.duplicate());
        Self { session, state, operation: *operation, route: *route, left: *left }
    }
}

impl<'a> Request<'a> {
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
}
