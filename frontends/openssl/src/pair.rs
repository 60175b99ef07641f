//! What is known here of a key pair, which is the host's: the raw keys, and what it takes to use them on another device.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use gantry::driver::Operands;
use gantry::{Direction, Operation, Outcome, SessionParams};

use crate::boundary::{Answers, Wrapped};
use crate::choice::{self, Side, State};
use crate::framework::Engine;
use crate::key::{self, Key};

/// Bytes of a private key, of a secret, and of either half of a signature.
pub(crate) const SIZE: usize = 32;

/// Most bytes of a public key.
pub(crate) const PUBLIC: usize = 1 + 2 * SIZE;

/// A public key.
#[derive(Clone, Copy)]
pub(crate) struct Public {
    bytes: [u8; PUBLIC],
    length: usize,
}

impl Public {
    fn of(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; PUBLIC];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Self { bytes, length: key.len() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Keys as the host gives them out; what it does not give, or in another form, is not there.
#[derive(Default)]
pub(crate) struct Raw {
    private: Option<Key<{ key::CURVE }>>,
    public: Option<Public>,
}

impl Raw {
    pub(crate) fn of(told: Answers<'_>) -> Self {
        Self::new(told.octets(c"priv"), told.octets(c"pub"))
    }

    pub(crate) fn new(private: Option<&[u8]>, public: Option<&[u8]>) -> Self {
        let private = private.filter(|bytes| bytes.len() == SIZE).and_then(|bytes| {
            let mut key = Key::default();
            key.set(bytes).then_some(key)
        });
        Self { private, public: public.and_then(Public::of) }
    }

    pub(crate) fn has_any(&self) -> bool {
        self.private.is_some() || self.public.is_some()
    }

    pub(crate) fn public(&self) -> Option<&Public> {
        self.public.as_ref()
    }
}

#[derive(Default)]
pub(crate) struct Pair {
    raw: OnceLock<Raw>,
    /// The host's key became another one after the raw keys were read: everything is the host's.
    changed: AtomicBool,
    /// Of what can be done with it: signing, verifying, and deriving secrets.
    engines: Mutex<[Engine; 3]>,
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
    pub(crate) fn may_go(wrapped: &Wrapped, operation: Operation) -> bool {
        let choice =
            wrapped.leads().then(|| Some(wrapped.framework()?.choice(wrapped.algorithm()?, operation))).flatten();
        choice.is_some_and(|choice| {
            let may = choice.state(choice::SMALLEST) != State::Host;
            if !may {
                choice.new_key();
            }
            may
        })
    }

    /// Runs a request on another device, if that is faster and the keys are known: `None` leaves it to the host.
    pub(crate) fn run<'r>(
        &self,
        wrapped: &Wrapped,
        raw: impl FnOnce() -> Option<&'r Raw>,
        mut operands: Operands<'_>,
    ) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        let raw = Some(()).filter(|()| Self::may_go(wrapped, operation)).and_then(|()| raw());
        let outcome = raw.and_then(|raw| self.run_elsewhere(wrapped, raw, operation, length, &mut operands));
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
        let algorithm = wrapped.algorithm()?;
        // A public key in another form is the host's.
        let public = raw.public.as_ref().filter(|public| algorithm.info().public_key.allows(public.length));
        let known = if operation == Operation::Verify { public.is_some() } else { raw.private.is_some() };
        let framework = wrapped.framework().filter(|_| known)?;
        let params = || match (operation, &raw.private, public) {
            (Operation::Verify, _, Some(public)) => {
                SessionParams::new(algorithm, public.bytes()).direction(Direction::Decrypt)
            }
            (Operation::Sign, Some(private), _) => {
                SessionParams::new(algorithm, &private.bytes()).direction(Direction::Encrypt)
            }
            (_, Some(private), _) => SessionParams::new(algorithm, &private.bytes()),
            _ => unreachable!("known"),
        };
        let place = match operation {
            Operation::Sign => 0,
            Operation::Verify => 1,
            _ => 2,
        };
        // What a short message costs is not its length.
        let bytes = length.max(choice::SMALLEST);
        let session = {
            // Nobody waits: another thread has it, or had it when this process was forked off.
            let mut engines = self.engines.try_lock().ok()?;
            let engine = &mut engines[place];
            if engine.side(framework, operation, bytes, params, algorithm) == Side::Host {
                return None;
            }
            engine.session_now()?.clone()
        };
        let outcome = session.run(operands.reborrow()).ok();
        if outcome.is_none()
            && let Ok(mut engines) = self.engines.try_lock()
        {
            engines[place].give_up();
        }
        outcome
    }
}
