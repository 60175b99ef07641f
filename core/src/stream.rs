//! Messages that arrive in pieces.

use std::sync::Arc;

use crate::driver::{self, Buffers, DigestStream};
use crate::error::{Error, Fault, Result};
use crate::route::Route;
use crate::session::Inner;
use crate::{Misuse, Operation, Outcome, Session};

/// The state of a digest or MAC whose message arrives in pieces; from [`Session::stream`].
///
/// It lives on one device. Many of them are fed side by side with [`Request::update`](crate::Request::update) in a batch.
///
/// A clone stands where the original does.
pub struct Stream {
    session: Arc<Inner>,
    state: Box<dyn DigestStream>,
    route: Route,
    /// A piece was lost with a fault of the device.
    broken: bool,
}

/// Which session and which device a stream belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) session: *const Inner,
    pub(crate) route: Route,
}

impl Stream {
    pub(crate) fn new(session: Arc<Inner>, state: Box<dyn DigestStream>, route: Route) -> Self {
        Self { session, state, route, broken: false }
    }

    pub(crate) fn parts(&mut self) -> (&mut dyn DigestStream, Bound, &mut bool) {
        let bound = Bound { session: Arc::as_ptr(&self.session), route: self.route };
        (&mut *self.state, bound, &mut self.broken)
    }

    /// Takes the next piece, of any length.
    pub fn update(&mut self, input: &[u8]) -> Result<()> {
        self.whole()?;
        self.state.update(input).map_err(|fault| self.failed(fault))
    }

    /// Writes the digest or MAC, and stands at the beginning of the next message.
    pub fn finish(&mut self, output: &mut [u8]) -> Result<()> {
        let needs = self.session.params.tag_length();
        if output.len() != needs {
            let algorithm = self.session.params.algorithm();
            return Err(Misuse::OutputLength { algorithm, got: output.len(), needs }.into());
        }
        self.whole()?;
        self.state.finish(output).map_err(|fault| self.failed(fault))
    }

    /// Where it lives, and why.
    pub fn route(&self) -> Route {
        self.route
    }

    /// The session that it came from.
    pub fn session(&self) -> Session {
        Session { inner: self.session.clone() }
    }

    /// A stream that lost a piece would give the digest of another message.
    fn whole(&self) -> Result<()> {
        let algorithm = self.session.params.algorithm();
        if self.broken { Err(Error::Device { algorithm, last: Fault::Lost }) } else { Ok(()) }
    }

    fn failed(&mut self, last: Fault) -> Error {
        self.broken = true;
        self.session.quarantine(self.route.device);
        Error::Device { algorithm: self.session.params.algorithm(), last }
    }
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        let Self { session, state, route, broken } = self;
        Self { session: session.clone(), state: state.duplicate(), route: *route, broken: *broken }
    }
}

/// The state of a cipher whose data arrives in pieces, chained across them; from [`Session::cipher_stream`].
///
/// A clone stands where the original does.
pub struct CipherStream {
    session: Arc<Inner>,
    state: Box<dyn driver::CipherStream>,
    operation: Operation,
    route: Route,
    /// A piece was lost with a fault of the device.
    broken: bool,
}

impl CipherStream {
    pub(crate) fn new(
        session: Arc<Inner>,
        state: Box<dyn driver::CipherStream>,
        operation: Operation,
        route: Route,
    ) -> Self {
        Self { session, state, operation, route, broken: false }
    }

    /// Encrypts or decrypts the next piece, whose length is a multiple of the algorithm's block.
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
        self.state.update(data).map_err(|last| {
            self.broken = true;
            self.session.quarantine(self.route.device);
            Error::Device { algorithm, last }
        })
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
        let Self { session, state, operation, route, broken } = self;
        let (session, state) = (session.clone(), state.duplicate());
        Self { session, state, operation: *operation, route: *route, broken: *broken }
    }
}

/// The state of a stream never leaves its session's device: a wrong pairing is a mistake of the caller.
pub(crate) fn check_bound(operation: Operation, bound: Bound, session: &Arc<Inner>) -> std::result::Result<(), Misuse> {
    if std::ptr::eq(bound.session, Arc::as_ptr(session)) {
        return Ok(());
    }
    Err(Misuse::Stream { algorithm: session.params.algorithm(), operation })
}
