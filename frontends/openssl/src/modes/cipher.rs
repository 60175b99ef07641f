//! Our own state of a cipher context, in addition to the default provider's context.

use gantry_core::route::SizeSet;

use crate::abi;
use crate::framework::DeviceResult;
use crate::libcrypto::{CipherCall, DefaultProviderCipherCtx, Io, ParamQuery, ParamValues};
use crate::modes::aead::AeadState;
use crate::modes::chain::ChainState;
use crate::modes::keyed::KeyedCipher;
use crate::provider::WrappedAlgorithm;
use crate::table::Mode;

/// State by [`Mode`].
#[derive(Clone)]
pub(crate) enum CipherModeState {
    Aead(AeadState),
    Xts(XtsState),
    Chain(ChainState),
}

impl CipherModeState {
    #[inline(always)]
    pub(crate) fn new(wrapped: &WrappedAlgorithm) -> Self {
        match wrapped.row().mode {
            Mode::Aead(aead) => CipherModeState::Aead(AeadState::new(aead, wrapped)),
            Mode::Chain(chain) => CipherModeState::Chain(ChainState::new(chain)),
            // Rows of ciphers have no other mode.
            Mode::Xts | Mode::Kdf(_) | Mode::Signature | Mode::SlhDsa | Mode::Exchange | Mode::Kem | Mode::KeyType => {
                CipherModeState::Xts(XtsState::default())
            }
        }
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the default provider.
    pub(crate) fn device_sizes(&self, wrapped: &WrappedAlgorithm) -> SizeSet {
        match self {
            CipherModeState::Aead(aead) => aead.device_sizes(),
            CipherModeState::Xts(xts) => xts.keyed.device_sizes(wrapped),
            CipherModeState::Chain(chain) => chain.device_sizes(wrapped),
        }
    }

    /// Returns true if the default provider has all of the message so far.
    pub(crate) fn default_ctx_is_current(&self) -> bool {
        match self {
            CipherModeState::Aead(aead) => aead.default_ctx_is_current(),
            CipherModeState::Xts(_) => true,
            CipherModeState::Chain(chain) => chain.default_ctx_is_current(),
        }
    }

    /// Returns the nonce length if it is known here: `usual` in most modes.
    #[inline(always)]
    pub(crate) fn iv_len(&self, usual: usize) -> Option<usize> {
        match self {
            CipherModeState::Aead(aead) => aead.iv_len(),
            CipherModeState::Xts(_) | CipherModeState::Chain(_) => Some(usual),
        }
    }

    /// Returns true if a nonce of this length can be set without a key in this direction, so that
    /// [`nonce_accepted`](Self::nonce_accepted) or [`init_refused`](Self::init_refused) is all the bookkeeping.
    #[inline(always)]
    pub(crate) fn takes_nonce(&self, encrypt: bool, length: usize) -> bool {
        match self {
            CipherModeState::Aead(aead) => aead.nonce_len_without_key(encrypt) == Some(length),
            CipherModeState::Xts(xts) => xts.keyed.encrypt == encrypt && length == size_of::<Tweak>(),
            CipherModeState::Chain(_) => false,
        }
    }

    /// Returns true if the default provider already has this key, so that setting it again with a nonce changes nothing.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        match self {
            CipherModeState::Aead(aead) => aead.has_key(key),
            CipherModeState::Xts(xts) => !xts.keyed.direction_changed() && xts.keyed.has_key(key),
            CipherModeState::Chain(_) => false,
        }
    }

    /// Records a new nonce that the default provider has accepted, and nothing else.
    #[inline(always)]
    pub(crate) fn nonce_accepted(&mut self, iv: &[u8]) {
        match self {
            CipherModeState::Aead(aead) => {
                if let Ok(iv) = iv.try_into() {
                    aead.nonce_accepted(iv);
                }
            }
            CipherModeState::Xts(xts) => xts.tweak = iv.try_into().ok(),
            CipherModeState::Chain(_) => {}
        }
    }

    /// Prepares for an initialisation of the default provider, with or without a nonce. Returns 1 if it may proceed.
    #[inline(always)]
    pub(crate) fn before_init(&mut self, default_ctx: &DefaultProviderCipherCtx, has_iv: bool) -> i32 {
        match self {
            CipherModeState::Chain(chain) if !has_iv => chain.before_init(default_ctx),
            _ => 1,
        }
    }

    /// Prepares for parameters that the default provider is about to receive.
    pub(crate) fn before_params(&mut self, default_ctx: &DefaultProviderCipherCtx) {
        if let CipherModeState::Chain(chain) = self {
            // If this fails, the next data call fails.
            chain.catch_up(default_ctx);
        }
    }

    /// Records that the default provider refused an initialisation, with or without a key. The provider may have kept the key or the
    /// nonce, so it serves everything until both are set again.
    pub(crate) fn init_refused(&mut self, has_key: bool) {
        match self {
            CipherModeState::Aead(aead) => aead.init_refused(has_key),
            CipherModeState::Xts(xts) => xts.init_refused(),
            CipherModeState::Chain(chain) => chain.init_refused(),
        }
    }

    /// Records an initialisation that the default provider has accepted.
    #[inline(always)]
    pub(crate) fn init_accepted(
        &mut self,
        wrapped: &WrappedAlgorithm,
        encrypt: bool,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) {
        match self {
            CipherModeState::Aead(aead) => aead.init_accepted(wrapped, encrypt, key, iv),
            CipherModeState::Xts(xts) => xts.init_accepted(wrapped, encrypt, key, iv),
            CipherModeState::Chain(chain) => chain.init_accepted(wrapped, encrypt, key, iv),
        }
    }

    /// Handles data after the first `offset` bytes of the message, some of which may have gone straight to the default provider.
    pub(crate) fn process(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
        offset: usize,
    ) -> i32 {
        match self {
            CipherModeState::Aead(aead) => aead.process(wrapped, default_ctx, call, io, offset),
            CipherModeState::Xts(xts) => xts.process(wrapped, default_ctx, call, io),
            CipherModeState::Chain(chain) => chain.process(wrapped, default_ctx, call, io, offset),
        }
    }

    pub(crate) fn finish(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        io: &mut Io<'_>,
    ) -> i32 {
        match self {
            CipherModeState::Aead(aead) => aead.finish(wrapped, default_ctx, io),
            CipherModeState::Chain(chain) => chain.finish(default_ctx, io),
            // A data unit has no final step.
            CipherModeState::Xts(_) => default_ctx.finish(io),
        }
    }

    /// Records parameters that the default provider has accepted after the first `offset` bytes of a message.
    pub(crate) fn params_accepted(
        &mut self,
        default_ctx: &DefaultProviderCipherCtx,
        values: ParamValues<'_>,
        offset: usize,
    ) {
        match self {
            CipherModeState::Aead(aead) => aead.params_accepted(default_ctx, values),
            CipherModeState::Chain(chain) => chain.params_accepted(values, offset),
            CipherModeState::Xts(_) => {}
        }
    }

    /// Answers a parameter query, through the default provider where it knows the answer.
    pub(crate) fn query_params(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        query: ParamQuery<'_>,
    ) -> i32 {
        match self {
            CipherModeState::Aead(aead) => aead.query_params(wrapped, default_ctx, query),
            CipherModeState::Chain(chain) => chain.query_params(default_ctx, query),
            CipherModeState::Xts(_) => default_ctx.query_params(query),
        }
    }
}

type Tweak = [u8; 16];

/// XTS: each call is a data unit of its own, under the nonce of the last initialisation.
#[derive(Clone, Default)]
pub(crate) struct XtsState {
    keyed: KeyedCipher,
    tweak: Option<Tweak>,
}

impl XtsState {
    fn init_accepted(&mut self, wrapped: &WrappedAlgorithm, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        self.keyed.init_accepted(wrapped, encrypt, key);
        if let Some(iv) = iv {
            self.tweak = iv.try_into().ok();
        }
    }

    fn init_refused(&mut self) {
        self.keyed.forget();
        self.tweak = None;
    }

    fn process(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
    ) -> i32 {
        let tweak = self.tweak.filter(|_| io.has_output() && io.has_input() && !self.keyed.direction_changed());
        match tweak.map_or(DeviceResult::Declined, |tweak| self.keyed.run_on_device(wrapped, io, &tweak)) {
            DeviceResult::Done => io.succeed(io.len()),
            DeviceResult::Failed => {
                wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
                io.fail()
            }
            DeviceResult::Declined => default_ctx.forward(call, io),
        }
    }
}
