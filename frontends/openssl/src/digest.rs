//! Messages of digests and MACs: the state of one lives where its first piece went.

use gantry_core::driver::Operands;
use gantry_core::{Algorithm, Operation, SessionParams, Stream};
use zeroize::Zeroizing;

use crate::boundary::{Wrapped, with_room};
use crate::framework::{Done, Engine, Side};
use crate::gains::Gain;
use crate::sizes::Sizes;

/// Most bytes of a message that is held, where there are no streams; a longer one is the host's.
const HELD: usize = 1 << 16;

/// What a context knows of its message beside the host's own.
#[derive(Clone, Default)]
pub(crate) struct Digesting {
    phase: Phase,
    work: Work,
    engine: Engine,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The message is the host's.
    #[default]
    Host,
    /// No piece has come yet.
    Begun,
    /// The message is a device's.
    Ours,
}

/// A message that is a device's.
#[derive(Clone, Default)]
enum Work {
    #[default]
    None,
    // Few messages have one, and contexts are made and moved for each message.
    Stream(Box<Stream>),
    /// MACs with a nonce have no streams: the device gets the message when it is whole.
    Held(Zeroizing<Vec<u8>>),
}

impl Digesting {
    /// A new message.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.phase = Phase::Begun;
        if !matches!(self.work, Work::None) {
            self.work = Work::None;
        }
    }

    /// Another key, or another algorithm.
    #[inline(always)]
    pub(crate) fn new_key(&mut self) {
        self.engine.new_key();
    }

    /// The host must have the whole message.
    pub(crate) fn leave(&mut self) -> bool {
        let good = self.phase != Phase::Ours;
        if good {
            self.phase = Phase::Host;
        }
        good
    }

    /// Nothing of the message is on a device.
    pub(crate) fn is_hosts(&self) -> bool {
        self.phase != Phase::Ours
    }

    /// What the host has to get before anything else of a message that it takes over.
    pub(crate) fn held(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        if self.phase == Phase::Ours {
            return None;
        }
        match std::mem::take(&mut self.work) {
            Work::Held(held) => Some(held),
            Work::None | Work::Stream(_) => None,
        }
    }

    /// Pieces of other numbers of bytes can go straight to the host; after a first one of those, all others, too.
    #[inline(always)]
    pub(crate) fn elsewhere(&self, wrapped: &Wrapped, algorithm: Option<Algorithm>) -> Sizes {
        if wrapped.watches() {
            return Sizes::ALL;
        }
        let asked = || {
            let known = wrapped.opened().zip(algorithm);
            let gain = known.map(|(framework, algorithm)| framework.gain(algorithm, operation(algorithm)));
            gain.map_or(wrapped.asked(), Gain::elsewhere)
        };
        if self.phase == Phase::Begun { asked() } else { self.elsewhere_of(Sizes::NONE) }
    }

    /// The same, where first pieces of other sizes than `asked` are the host's.
    #[inline(always)]
    pub(crate) fn elsewhere_of(&self, asked: Sizes) -> Sizes {
        match self.phase {
            Phase::Host => Sizes::NONE,
            Phase::Ours => Sizes::ALL,
            Phase::Begun => asked,
        }
    }

    /// The next piece. `fresh`: none went by before.
    pub(crate) fn update(
        &mut self,
        wrapped: &Wrapped,
        algorithm: Algorithm,
        params: impl Fn() -> SessionParams,
        input: &[u8],
        fresh: bool,
    ) -> Done {
        let (bytes, operation) = (input.len(), operation(algorithm));
        if self.phase == Phase::Ours {
            let good = match &mut self.work {
                Work::Stream(stream) => with_room(|| stream.update(input).is_ok()).unwrap_or(false),
                Work::Held(held) if held.len() + bytes <= HELD => {
                    held.extend_from_slice(input);
                    return Done::Good;
                }
                Work::Held(held) => {
                    wrapped.count(operation, Side::Host, held.len() + bytes);
                    self.phase = Phase::Host;
                    return Done::Host;
                }
                Work::None => false,
            };
            wrapped.count(operation, Side::Device, bytes);
            return if good { Done::Good } else { Done::Bad };
        }
        if self.phase == Phase::Begun
            && fresh
            && let Some(framework) = wrapped.framework()
            && self.engine.side(framework, operation, bytes, params, algorithm) == Side::Device
        {
            if algorithm.info().iv.max != 0 {
                if bytes <= HELD {
                    (self.work, self.phase) = (Work::Held(Zeroizing::new(input.to_vec())), Phase::Ours);
                    return Done::Good;
                }
            } else if let Some(mut stream) =
                self.engine.open(framework.gain(algorithm, operation), |session| session.stream(1))
                && stream.update(input).is_ok()
            {
                (self.work, self.phase) = (Work::Stream(Box::new(stream)), Phase::Ours);
                wrapped.count(operation, Side::Device, bytes);
                return Done::Good;
            }
        }
        self.phase = Phase::Host;
        wrapped.count(operation, Side::Host, bytes);
        Done::Host
    }

    /// Writes the digest or MAC.
    pub(crate) fn finish(&mut self, wrapped: &Wrapped, iv: &[u8], output: &mut [u8]) -> Done {
        // Nothing follows: the end of a message of which no piece came is the host's, too.
        if std::mem::take(&mut self.phase) != Phase::Ours {
            return Done::Host;
        }
        match &mut self.work {
            Work::Stream(stream) => {
                let good = with_room(|| stream.finish(output).is_ok()).unwrap_or(false);
                self.work = Work::None;
                if good { Done::Good } else { Done::Bad }
            }
            // After a fork the session is the parent's.
            Work::Held(_) if wrapped.framework().is_none_or(|framework| !self.engine.is_of(framework)) => Done::Host,
            Work::Held(held) => {
                let session = self.engine.session_now();
                let done = session.map(|session| session.run(Operands::Mac { iv, input: held, output }));
                let (good, bytes) = (matches!(done, Some(Ok(gantry_core::Outcome::Done))), held.len());
                wrapped.count(Operation::Mac, if good { Side::Device } else { Side::Host }, bytes);
                if good {
                    self.work = Work::None;
                    return Done::Good;
                }
                self.engine.give_up();
                Done::Host
            }
            Work::None => Done::Bad,
        }
    }
}

/// There is one.
fn operation(algorithm: Algorithm) -> Operation {
    algorithm.kind().operations()[0]
}
