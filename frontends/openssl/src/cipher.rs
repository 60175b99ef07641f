//! What a cipher's context knows beside the host's own.

use gantry_core::route::SizeSet;

use crate::aead::Sealed;
use crate::boundary::{Answers, Host, Io, Questions, Way, Wrapped};
use crate::chain::Chained;
use crate::framework::Done;
use crate::keyed::Keyed;
use crate::table::Mode;

/// By [`Mode`].
#[derive(Clone)]
pub(crate) enum State {
    Aead(Sealed),
    Xts(Xts),
    Chain(Chained),
}

impl State {
    #[inline(always)]
    pub(crate) fn new(wrapped: &Wrapped) -> Self {
        match wrapped.row().mode {
            Mode::Aead(aead) => State::Aead(Sealed::new(aead, wrapped)),
            Mode::Chain(chain) => State::Chain(Chained::new(chain)),
            // A row of ciphers has no other.
            Mode::Xts | Mode::Kdf(_) | Mode::Signature | Mode::SlhDsa | Mode::Exchange | Mode::Keys => {
                State::Xts(Xts::default())
            }
        }
    }

    /// Calls with as many bytes as these must be looked at; all others can go straight to the host.
    pub(crate) fn elsewhere(&self, wrapped: &Wrapped) -> SizeSet {
        match self {
            State::Aead(sealed) => sealed.elsewhere(),
            State::Xts(xts) => xts.keyed.elsewhere(wrapped),
            State::Chain(chained) => chained.elsewhere(wrapped),
        }
    }

    /// Whether the host has all of the message so far.
    pub(crate) fn is_hosts(&self) -> bool {
        match self {
            State::Aead(sealed) => sealed.is_hosts(),
            State::Xts(_) => true,
            State::Chain(chained) => chained.is_hosts(),
        }
    }

    /// The length of nonces, where it is known here: `usual` in most modes.
    #[inline(always)]
    pub(crate) fn iv_len(&self, usual: usize) -> Option<usize> {
        match self {
            State::Aead(sealed) => sealed.iv_len(),
            State::Xts(_) | State::Chain(_) => Some(usual),
        }
    }

    /// Whether a nonce of this length can come alone, in this direction, with [`restarted`](Self::restarted) and
    /// [`refused`](Self::refused) all that is to be done about it.
    #[inline(always)]
    pub(crate) fn takes_nonce(&self, encrypt: bool, length: usize) -> bool {
        match self {
            State::Aead(sealed) => sealed.nonce_alone(encrypt) == Some(length),
            State::Xts(xts) => xts.keyed.encrypt == encrypt && length == size_of::<Tweak>(),
            State::Chain(_) => false,
        }
    }

    /// Whether this key, told again with a nonce, changes nothing: the host has it.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        match self {
            State::Aead(sealed) => sealed.has_key(key),
            State::Xts(xts) => !xts.keyed.is_turned() && xts.keyed.has_key(key),
            State::Chain(_) => false,
        }
    }

    /// The host has a new nonce and nothing else.
    #[inline(always)]
    pub(crate) fn restarted(&mut self, iv: &[u8]) {
        match self {
            State::Aead(sealed) => {
                if let Ok(iv) = iv.try_into() {
                    sealed.restarted(iv);
                }
            }
            State::Xts(xts) => xts.tweak = iv.try_into().ok(),
            State::Chain(_) => {}
        }
    }

    /// The host will be initialised, with a nonce or without. 1 when that may go on.
    #[inline(always)]
    pub(crate) fn before_init(&mut self, host: &Host, iv: bool) -> i32 {
        match self {
            State::Chain(chained) if !iv => chained.before_init(host),
            _ => 1,
        }
    }

    /// The host will be told parameters.
    pub(crate) fn before_params(&mut self, host: &Host) {
        if let State::Chain(chained) = self {
            // Should it fail, the next data do.
            chained.catch_up(host);
        }
    }

    /// The host has refused an initialisation, with a key or without. It may have taken the key or the nonce nevertheless: until
    /// the next ones come, everything is its own.
    pub(crate) fn refused(&mut self, key: bool) {
        match self {
            State::Aead(sealed) => sealed.refused(key),
            State::Xts(xts) => xts.refused(),
            State::Chain(chained) => chained.refused(),
        }
    }

    /// The host has been initialised.
    #[inline(always)]
    pub(crate) fn initialised(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        match self {
            State::Aead(sealed) => sealed.initialised(wrapped, encrypt, key, iv),
            State::Xts(xts) => xts.initialised(wrapped, encrypt, key, iv),
            State::Chain(chained) => chained.initialised(wrapped, encrypt, key, iv),
        }
    }

    /// Data. `fed` bytes went by before it.
    pub(crate) fn data(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>, fed: usize) -> i32 {
        match self {
            State::Aead(sealed) => sealed.data(wrapped, host, way, io, fed),
            State::Xts(xts) => xts.data(wrapped, host, way, io),
            State::Chain(chained) => chained.data(wrapped, host, way, io, fed),
        }
    }

    pub(crate) fn finish(&mut self, host: &Host, io: &mut Io<'_>) -> i32 {
        match self {
            State::Aead(sealed) => sealed.finish(host, io),
            State::Chain(chained) => chained.finish(host, io),
            // A data unit has no end of its own.
            State::Xts(_) => host.finish(io),
        }
    }

    /// The host has taken these parameters.
    pub(crate) fn told(&mut self, host: &Host, told: Answers<'_>) {
        match self {
            State::Aead(sealed) => sealed.told(host, told),
            State::Chain(chained) => chained.told(told),
            State::Xts(_) => {}
        }
    }

    /// Answers, through the host where it knows.
    pub(crate) fn ask(&mut self, host: &Host, questions: Questions<'_>) -> i32 {
        match self {
            State::Aead(sealed) => sealed.ask(host, questions),
            State::Chain(chained) => chained.ask(host, questions),
            State::Xts(_) => host.ask(questions),
        }
    }
}

type Tweak = [u8; 16];

/// XTS: each call is a data unit by itself, under the nonce of the last initialisation.
#[derive(Clone, Default)]
pub(crate) struct Xts {
    keyed: Keyed,
    tweak: Option<Tweak>,
}

impl Xts {
    fn initialised(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        self.keyed.initialised(wrapped, encrypt, key);
        if let Some(iv) = iv {
            self.tweak = iv.try_into().ok();
        }
    }

    fn refused(&mut self) {
        self.keyed.forget();
        self.tweak = None;
    }

    fn data(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        let tweak = self.tweak.filter(|_| io.has_output() && io.has_input() && !self.keyed.is_turned());
        match tweak.map_or(Done::Host, |tweak| self.keyed.device(wrapped, io, &tweak)) {
            Done::Good => io.done(io.len()),
            Done::Bad => io.refused(),
            Done::Host => host.data(way, io),
        }
    }
}
