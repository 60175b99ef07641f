//! A key of a cipher without tags, and requests under it.

use gantry_core::route::{SizeSet, Worth};
use gantry_core::{Algorithm, Direction, Operation, Outcome, Request, SessionParams};

use crate::boundary::{Io, Wrapped};
use crate::framework::{Done, Engine, Side};
use crate::key::Key;

/// A direction, a key, and sessions under it.
#[derive(Clone, Default)]
pub(crate) struct Keyed {
    pub(crate) encrypt: bool,
    /// What the direction was when the key came.
    key_encrypt: bool,
    key: Key,
    engine: Engine,
}

impl Keyed {
    pub(crate) fn initialised(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>) {
        let another = key.is_some_and(|key| !self.key.is(key));
        if another || encrypt != self.encrypt {
            // Sessions go one way.
            self.engine.new_key();
        }
        self.encrypt = encrypt;
        if let Some(key) = key {
            self.key_encrypt = encrypt;
            self.key.set(key);
            if another && let Some(worth) = self.worth(wrapped) {
                worth.new_key();
            }
        }
    }

    /// The direction changed without a key. In modes that decrypt with another key schedule than they encrypt, only the host knows
    /// what comes out.
    pub(crate) fn is_turned(&self) -> bool {
        self.encrypt != self.key_encrypt
    }

    /// Whether this is the key.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.key.is(key)
    }

    /// There is no key that is known here.
    pub(crate) fn forget(&mut self) {
        self.key.set(&[]);
        self.engine.new_key();
    }

    pub(crate) fn operation(&self) -> Operation {
        if self.encrypt { Operation::Encrypt } else { Operation::Decrypt }
    }

    fn worth<'w>(&self, wrapped: &'w Wrapped) -> Option<&'w Worth> {
        Some(wrapped.opened()?.worth(wrapped.algorithm()?, self.operation()))
    }

    /// Calls with other numbers of bytes can go straight to the host.
    pub(crate) fn elsewhere(&self, wrapped: &Wrapped) -> SizeSet {
        self.worth(wrapped).map_or(wrapped.asked(), Worth::sizes)
    }

    /// Runs one request on a device if it is better there.
    pub(crate) fn device(&mut self, wrapped: &Wrapped, io: &mut Io<'_>, iv: &[u8]) -> Done {
        let (bytes, operation, in_place) = (io.len(), self.operation(), io.in_place());
        if let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()) {
            let params = one_way(algorithm, &self.key, self.encrypt);
            if self.engine.side(framework, operation, bytes, params, algorithm) == Side::Device
                && let (Some(session), Some(data)) = (self.engine.session_now(), io.buffers())
            {
                let result = match operation {
                    Operation::Encrypt => session.encrypt(iv, data),
                    _ => session.decrypt(iv, data),
                };
                let done = result.map_or_else(|error| self.engine.failed(&error, in_place), |()| Done::Good);
                if done != Done::Host {
                    wrapped.count(operation, Side::Device, bytes);
                    return done;
                }
            }
        }
        wrapped.count(operation, Side::Host, bytes);
        Done::Host
    }

    /// Runs requests on devices if that is better for so many, and says whether it did.
    pub(crate) fn batch(&mut self, wrapped: &Wrapped, requests: &mut [Request<'_>]) -> bool {
        let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()) else { return false };
        let operation = self.operation();
        let bytes: usize = requests.iter().map(Request::bytes).sum();
        let params = one_way(algorithm, &self.key, self.encrypt);
        let size = (bytes, requests.len());
        let Some(session) = self.engine.several(framework, operation, size, params) else { return false };
        // What has no outcome afterwards is looked at one by one.
        let _ = session.process(requests);
        let done = requests.iter().filter(|request| request.outcome() == Some(Outcome::Done));
        done.for_each(|request| wrapped.count(operation, Side::Device, request.bytes()));
        true
    }
}

/// What a session of one direction is made from: a device may keep less for it.
fn one_way(algorithm: Algorithm, key: &Key, encrypt: bool) -> impl Fn() -> SessionParams {
    let direction = if encrypt { Direction::Encrypt } else { Direction::Decrypt };
    move || SessionParams::new(algorithm, &key.bytes()).direction(direction)
}
