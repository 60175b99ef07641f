//! What is known here of a key pair, which is the host's: the raw keys, and what it takes to use them on another device.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use gantry::driver::Operands;
use gantry::{Algorithm, Direction, Operation, Outcome, SessionParams};

use crate::boundary::{Answers, Wrapped};
use crate::choice::{self, Side};
use crate::framework::Engine;
use crate::key::{self, Key};

/// Bytes of a key, private or public.
pub(crate) const SIZE: usize = 32;

/// Keys as the host gives them out; what it does not give, or in another form, is not there.
#[derive(Default)]
pub(crate) struct Raw {
    private: Option<Key<{ key::CURVE }>>,
    public: Option<[u8; SIZE]>,
}

impl Raw {
    pub(crate) fn of(told: Answers<'_>) -> Self {
        let private = told.octets(c"priv").filter(|bytes| bytes.len() == SIZE).and_then(|bytes| {
            let mut key = Key::default();
            key.set(bytes).then_some(key)
        });
        Self { private, public: told.octets(c"pub").and_then(|bytes| bytes.try_into().ok()) }
    }

    pub(crate) fn public(&self) -> Option<&[u8; SIZE]> {
        self.public.as_ref()
    }
}

pub(crate) struct Pair {
    algorithm: Algorithm,
    raw: OnceLock<Raw>,
    /// The host's key became another one after the raw keys were read: everything is the host's.
    changed: AtomicBool,
    /// Forward and back.
    engines: Mutex<[Engine; 2]>,
}

impl Pair {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, raw: OnceLock::new(), changed: AtomicBool::new(false), engines: Mutex::default() }
    }

    /// The raw keys, read at the first call; `None` when they are no longer those of the host's key.
    pub(crate) fn raw(&self, read: impl FnOnce() -> Raw) -> Option<&Raw> {
        let raw = self.raw.get_or_init(read);
        (!self.changed.load(Relaxed)).then_some(raw)
    }

    /// The host's key has become another one.
    pub(crate) fn change(&self) {
        self.changed.store(self.raw.get().is_some(), Relaxed);
    }

    /// Runs a request on another device, if that is faster and the keys are known: `None` leaves it to the host.
    pub(crate) fn run(&self, wrapped: &Wrapped, raw: &Raw, mut operands: Operands<'_>) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        let outcome = self.run_elsewhere(wrapped, raw, operation, length, &mut operands);
        let side = if outcome.is_some() { Side::Device } else { Side::Host };
        wrapped.count(operation, side, length);
        outcome
    }

    fn run_elsewhere(
        &self,
        wrapped: &Wrapped,
        raw: &Raw,
        operation: Operation,
        length: usize,
        operands: &mut Operands<'_>,
    ) -> Option<Outcome> {
        let known = if operation == Operation::Verify { raw.public.is_some() } else { raw.private.is_some() };
        let framework = wrapped.framework().filter(|_| known)?;
        let params = || match (operation, &raw.private, &raw.public) {
            (Operation::Verify, _, Some(public)) => {
                SessionParams::new(self.algorithm, public).direction(Direction::Decrypt)
            }
            (_, Some(private), _) => SessionParams::new(self.algorithm, &private.bytes()),
            _ => unreachable!("known"),
        };
        // What a short message costs is not its length.
        let bytes = length.max(choice::SMALLEST);
        let session = {
            // Nobody waits: another thread has it, or had it when this process was forked off.
            let mut engines = self.engines.try_lock().ok()?;
            let engine = &mut engines[usize::from(operation.is_back())];
            if engine.side(framework, operation, bytes, params, self.algorithm) == Side::Host {
                framework.choice(self.algorithm, operation).new_key();
                return None;
            }
            engine.session_now()?.clone()
        };
        let outcome = session.run(operands.reborrow()).ok();
        if outcome.is_none()
            && let Ok(mut engines) = self.engines.try_lock()
        {
            engines[usize::from(operation.is_back())].give_up();
        }
        outcome
    }
}
