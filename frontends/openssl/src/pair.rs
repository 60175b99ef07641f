//! What is known here of a key pair, which is the host's: the raw keys, and what it takes to use them on another device.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use gantry_core::driver::Operands;
use gantry_core::route::SizeSet;
use gantry_core::{Algorithm, Direction, Operation, Outcome, SessionParams};
use zeroize::Zeroizing;

use crate::boundary::Wrapped;
use crate::framework::{Engine, Side};

/// Bytes of a private key, of a secret, and of either half of a signature.
pub(crate) const SIZE: usize = 32;

/// Keys as the host gives them out; what it does not give, or in another form, is not there.
#[derive(Default)]
pub(crate) struct Raw {
    private: Option<Zeroizing<Box<[u8]>>>,
    public: Option<Box<[u8]>>,
}

impl Raw {
    pub(crate) fn new(private: Option<&[u8]>, public: Option<&[u8]>) -> Self {
        Self { private: private.map(|key| Zeroizing::new(key.into())), public: public.map(Into::into) }
    }

    pub(crate) fn private(&self) -> Option<&[u8]> {
        self.private.as_deref().map(|key| &**key)
    }

    pub(crate) fn public(&self) -> Option<&[u8]> {
        self.public.as_deref()
    }
}

/// Of one algorithm and one operation.
type Engines = Vec<(Algorithm, Operation, Engine)>;

#[derive(Default)]
pub(crate) struct Pair {
    raw: OnceLock<Raw>,
    /// The host's key became another one after the raw keys were read: everything is the host's.
    changed: AtomicBool,
    /// Of what has been done with it.
    engines: Mutex<Engines>,
}

impl Pair {
    /// The raw keys, read at the first call; `None` when they are no longer those of the host's key.
    pub(crate) fn raw(&self, read: impl FnOnce() -> Raw) -> Option<&Raw> {
        let raw = self.raw.get_or_init(read);
        (!self.changed.load(Relaxed)).then_some(raw)
    }

    /// The host's key has become another one.
    pub(crate) fn change(&self) {
        self.changed.store(self.raw.get().is_some(), Relaxed);
    }

    /// Whether a request may go to another device, as far as that is known without the keys, which take longer to read than some
    /// devices gain.
    pub(crate) fn may_go(wrapped: &Wrapped, algorithm: Algorithm, operation: Operation) -> bool {
        let Some(framework) = wrapped.leads().then(|| wrapped.framework()).flatten() else { return false };
        let may = framework.beside.may_save(algorithm, operation, SizeSet::SMALLEST);
        if !may {
            framework.worth(algorithm, operation).new_key();
        }
        may
    }

    /// Runs a request on another device, if that is faster and the keys are known: `None` leaves it to the host.
    pub(crate) fn run<'r>(
        &self,
        wrapped: &Wrapped,
        algorithm: Algorithm,
        raw: impl FnOnce() -> Option<&'r Raw>,
        mut operands: Operands<'_>,
    ) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        let raw = Some(()).filter(|()| Self::may_go(wrapped, algorithm, operation)).and_then(|()| raw());
        let outcome = raw.and_then(|raw| self.run_elsewhere(wrapped, algorithm, raw, &mut operands));
        let side = if outcome.is_some() { Side::Device } else { Side::Host };
        wrapped.count(operation, side, length);
        outcome
    }

    fn run_elsewhere(
        &self,
        wrapped: &Wrapped,
        algorithm: Algorithm,
        raw: &Raw,
        operands: &mut Operands<'_>,
    ) -> Option<Outcome> {
        let operation = operands.operation();
        // A public key in another form is the host's.
        let public = raw.public().filter(|public| algorithm.info().public_key.allows(public.len()));
        let known = if operation == Operation::Verify { public.is_some() } else { raw.private.is_some() };
        let framework = wrapped.framework().filter(|_| known)?;
        let params = || match (operation, &raw.private, public) {
            (Operation::Verify, _, Some(public)) => SessionParams::new(algorithm, public).direction(Direction::Decrypt),
            (Operation::Sign, Some(private), _) => SessionParams::new(algorithm, private).direction(Direction::Encrypt),
            (_, Some(private), _) => SessionParams::new(algorithm, private),
            _ => unreachable!("known"),
        };
        // What a short message costs is not its length.
        let bytes = operands.bytes().max(SizeSet::SMALLEST);
        let session = {
            // Nobody waits: another thread has it, or had it when this process was forked off.
            let mut engines = self.engines.try_lock().ok()?;
            let engine = engine(&mut engines, algorithm, operation);
            if engine.side(framework, operation, bytes, params, algorithm) == Side::Host {
                return None;
            }
            engine.session_now()?.clone()
        };
        let outcome = session.run(operands.reborrow()).ok();
        if outcome.is_none()
            && let Ok(mut engines) = self.engines.try_lock()
        {
            engine(&mut engines, algorithm, operation).give_up();
        }
        outcome
    }
}

/// The one of an operation, new if there was none.
fn engine(engines: &mut Engines, algorithm: Algorithm, operation: Operation) -> &mut Engine {
    let place = engines.iter().position(|(of, to, _)| (*of, *to) == (algorithm, operation)).unwrap_or_else(|| {
        engines.push((algorithm, operation, Engine::default()));
        engines.len() - 1
    });
    &mut engines[place].2
}
