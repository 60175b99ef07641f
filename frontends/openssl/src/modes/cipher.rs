//! Our own state of a cipher context, in addition to the host's context.

use gantry_core::route::SizeSet;

use crate::abi;
use crate::framework::DeviceResult;
use crate::host::{CipherCall, Host, Io, ParamQuery, ParamValues};
use crate::modes::aead::AeadState;
use crate::modes::chain::ChainState;
use crate::modes::keyed::KeyedCipher;
use crate::provider::Wrapped;
use crate::table::Mode;

/// State by [`Mode`].
#[derive(Clone)]
pub(crate) enum State {
    Aead(AeadState),
    Xts(Xts),
    Chain(ChainState),
}

impl State {
    #[inline(always)]
    pub(crate) fn new(wrapped: &Wrapped) -> Self {
        match wrapped.row().mode {
            Mode::Aead(aead) => State::Aead(AeadState::new(aead, wrapped)),
            Mode::Chain(chain) => State::Chain(ChainState::new(chain)),
            // Rows of ciphers have no other mode.
            Mode::Xts | Mode::Kdf(_) | Mode::Signature | Mode::SlhDsa | Mode::Exchange | Mode::Keys => {
                State::Xts(Xts::default())
            }
        }
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the host.
    pub(crate) fn device_sizes(&self, wrapped: &Wrapped) -> SizeSet {
        match self {
            State::Aead(aead) => aead.device_sizes(),
            State::Xts(xts) => xts.keyed.device_sizes(wrapped),
            State::Chain(chain) => chain.device_sizes(wrapped),
        }
    }

    /// Returns true if the host has all of the message so far.
    pub(crate) fn host_is_current(&self) -> bool {
        match self {
            State::Aead(aead) => aead.host_is_current(),
            State::Xts(_) => true,
            State::Chain(chain) => chain.host_is_current(),
        }
    }

    /// Returns the nonce length if it is known here: `usual` in most modes.
    #[inline(always)]
    pub(crate) fn iv_len(&self, usual: usize) -> Option<usize> {
        match self {
            State::Aead(aead) => aead.iv_len(),
            State::Xts(_) | State::Chain(_) => Some(usual),
        }
    }

    /// Returns true if a nonce of this length can be set without a key in this direction, so that
    /// [`nonce_accepted`](Self::nonce_accepted) or [`init_refused`](Self::init_refused) is all the bookkeeping.
    #[inline(always)]
    pub(crate) fn takes_nonce(&self, encrypt: bool, length: usize) -> bool {
        match self {
            State::Aead(aead) => aead.nonce_len_without_key(encrypt) == Some(length),
            State::Xts(xts) => xts.keyed.encrypt == encrypt && length == size_of::<Tweak>(),
            State::Chain(_) => false,
        }
    }

    /// Returns true if the host already has this key, so that setting it again with a nonce changes nothing.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        match self {
            State::Aead(aead) => aead.has_key(key),
            State::Xts(xts) => !xts.keyed.direction_changed() && xts.keyed.has_key(key),
            State::Chain(_) => false,
        }
    }

    /// Records a new nonce that the host has accepted, and nothing else.
    #[inline(always)]
    pub(crate) fn nonce_accepted(&mut self, iv: &[u8]) {
        match self {
            State::Aead(aead) => {
                if let Ok(iv) = iv.try_into() {
                    aead.nonce_accepted(iv);
                }
            }
            State::Xts(xts) => xts.tweak = iv.try_into().ok(),
            State::Chain(_) => {}
        }
    }

    /// Prepares for an initialisation of the host, with or without a nonce. Returns 1 if it may proceed.
    #[inline(always)]
    pub(crate) fn before_init(&mut self, host: &Host, iv: bool) -> i32 {
        match self {
            State::Chain(chain) if !iv => chain.before_init(host),
            _ => 1,
        }
    }

    /// Prepares for parameters that the host is about to receive.
    pub(crate) fn before_params(&mut self, host: &Host) {
        if let State::Chain(chain) = self {
            // If this fails, the next data call fails.
            chain.catch_up(host);
        }
    }

    /// Records that the host refused an initialisation, with or without a key. The host may have kept the key or the nonce: until both
    /// are set again, the host serves everything.
    pub(crate) fn init_refused(&mut self, key: bool) {
        match self {
            State::Aead(aead) => aead.init_refused(key),
            State::Xts(xts) => xts.init_refused(),
            State::Chain(chain) => chain.init_refused(),
        }
    }

    /// Records an initialisation that the host has accepted.
    #[inline(always)]
    pub(crate) fn init_accepted(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        match self {
            State::Aead(aead) => aead.init_accepted(wrapped, encrypt, key, iv),
            State::Xts(xts) => xts.init_accepted(wrapped, encrypt, key, iv),
            State::Chain(chain) => chain.init_accepted(wrapped, encrypt, key, iv),
        }
    }

    /// Handles data. `fed` bytes went straight to the host before.
    pub(crate) fn process(
        &mut self,
        wrapped: &Wrapped,
        host: &Host,
        call: CipherCall,
        io: &mut Io<'_>,
        fed: usize,
    ) -> i32 {
        match self {
            State::Aead(aead) => aead.process(wrapped, host, call, io, fed),
            State::Xts(xts) => xts.process(wrapped, host, call, io),
            State::Chain(chain) => chain.process(wrapped, host, call, io, fed),
        }
    }

    pub(crate) fn finish(&mut self, wrapped: &Wrapped, host: &Host, io: &mut Io<'_>) -> i32 {
        match self {
            State::Aead(aead) => aead.finish(wrapped, host, io),
            State::Chain(chain) => chain.finish(host, io),
            // A data unit has no final step.
            State::Xts(_) => host.finish(io),
        }
    }

    /// Records parameters that the host has accepted after `fed` bytes of a message.
    pub(crate) fn params_accepted(&mut self, host: &Host, values: ParamValues<'_>, fed: usize) {
        match self {
            State::Aead(aead) => aead.params_accepted(host, values),
            State::Chain(chain) => chain.params_accepted(values, fed),
            State::Xts(_) => {}
        }
    }

    /// Answers a parameter query, through the host where the host knows the answer.
    pub(crate) fn query_params(&mut self, wrapped: &Wrapped, host: &Host, query: ParamQuery<'_>) -> i32 {
        match self {
            State::Aead(aead) => aead.query_params(wrapped, host, query),
            State::Chain(chain) => chain.query_params(host, query),
            State::Xts(_) => host.query_params(query),
        }
    }
}

type Tweak = [u8; 16];

/// XTS: each call is a data unit of its own, under the nonce of the last initialisation.
#[derive(Clone, Default)]
pub(crate) struct Xts {
    keyed: KeyedCipher,
    tweak: Option<Tweak>,
}

impl Xts {
    fn init_accepted(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        self.keyed.init_accepted(wrapped, encrypt, key);
        if let Some(iv) = iv {
            self.tweak = iv.try_into().ok();
        }
    }

    fn init_refused(&mut self) {
        self.keyed.forget();
        self.tweak = None;
    }

    fn process(&mut self, wrapped: &Wrapped, host: &Host, call: CipherCall, io: &mut Io<'_>) -> i32 {
        let tweak = self.tweak.filter(|_| io.has_output() && io.has_input() && !self.keyed.direction_changed());
        match tweak.map_or(DeviceResult::Host, |tweak| self.keyed.run_on_device(wrapped, io, &tweak)) {
            DeviceResult::Done => io.succeed(io.len()),
            DeviceResult::Failed => {
                wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
                io.fail()
            }
            DeviceResult::Host => host.forward(call, io),
        }
    }
}
