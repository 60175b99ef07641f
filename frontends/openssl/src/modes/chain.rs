//! ECB, CBC, CTR and ChaCha20: a device takes whole blocks, in calls for which the default provider would hold no block back.
//!
//! While a device works, the default provider's context falls behind. It catches up before it is needed again: it gets the chaining value
//! as its nonce. The message's own nonce is kept here, so that callers do not notice.

use gantry_core::Request;
use gantry_core::route::SizeSet;

use crate::abi;
use crate::framework::{DeviceResult, Side};
use crate::libcrypto::{CipherCall, DefaultProviderCipherCtx, Io, ParamQuery, ParamValues};
use crate::modes::keyed::KeyedCipher;
use crate::provider::WrappedAlgorithm;
use crate::table::Chain;

const CHACHA_BLOCK_LEN: usize = 64;

/// Whole blocks of a message that a device can take, and the chaining value they start with.
pub(crate) struct WholeBlocks {
    chaining_value: [u8; 16],
    iv_len: usize,
    /// Bytes of data in whole blocks.
    pub(crate) len: usize,
    /// Bytes of a block; 64 for ChaCha20, whose nonce has 16.
    unit_len: usize,
    last_input_block: [u8; 16],
}

impl WholeBlocks {
    pub(crate) fn iv(&self) -> &[u8] {
        &self.chaining_value[..self.iv_len]
    }
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "six facts, each by itself")]
pub(crate) struct ChainState {
    mode: Chain,
    keyed: KeyedCipher,
    /// The nonce that the message started with.
    iv: [u8; 16],
    /// The chaining value of the next block, while the default provider is behind.
    chaining_value: [u8; 16],
    /// Bytes of a nonce, and of a block except for ChaCha20. In modes with a nonce, it is 0 until the nonce is set.
    block_len: usize,
    default_ctx_is_behind: bool,
    /// True if the nonce of the default provider's context differs from the nonce that the message started with.
    nonce_moved: bool,
    /// True if the default provider was given a position within a block. It stays true until the next initialisation.
    is_mid_block: bool,
    /// True if no message has ended since the initialisation, so that the next message starts with the nonce.
    is_fresh: bool,
    padding: bool,
    /// True if the default provider may hold back a block of the message, even if the padding was turned off in between.
    may_hold_back: bool,
    /// Version of the TLS records, each with its own padding; 0 if the data is not TLS records.
    tls_version: usize,
}

impl ChainState {
    pub(crate) fn new(mode: Chain) -> Self {
        Self {
            mode,
            keyed: KeyedCipher::default(),
            iv: [0; 16],
            chaining_value: [0; 16],
            block_len: if mode == Chain::Ecb { 16 } else { 0 },
            default_ctx_is_behind: false,
            nonce_moved: false,
            is_mid_block: false,
            is_fresh: true,
            padding: true,
            may_hold_back: true,
            tls_version: 0,
        }
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the default provider.
    pub(crate) fn device_sizes(&self, wrapped: &WrappedAlgorithm) -> SizeSet {
        if self.default_ctx_is_behind { SizeSet::ALL } else { self.keyed.device_sizes(wrapped) }
    }

    /// Returns true if the default provider is up to date with the message.
    pub(crate) fn default_ctx_is_current(&self) -> bool {
        !self.default_ctx_is_behind
    }

    /// Prepares the default provider for an initialisation without a nonce. CTR and ChaCha20 continue; CBC returns to the nonce that the
    /// message started with.
    pub(crate) fn before_init(&mut self, default_ctx: &DefaultProviderCipherCtx) -> i32 {
        if !self.nonce_moved && !self.default_ctx_is_behind {
            return 1;
        }
        if matches!(self.mode, Chain::Ctr | Chain::ChaCha) {
            return self.catch_up(default_ctx);
        }
        self.default_ctx_is_behind = false;
        default_ctx.set_iv(self.keyed.encrypt, &self.iv[..self.block_len])
    }

    /// Records that the default provider refused an initialisation. Its state is then unknown, perhaps with the new nonce.
    pub(crate) fn init_refused(&mut self) {
        self.keyed.forget();
        (self.default_ctx_is_behind, self.nonce_moved) = (false, false);
        if self.mode != Chain::Ecb {
            self.block_len = 0;
        }
    }

    pub(crate) fn init_accepted(
        &mut self,
        wrapped: &WrappedAlgorithm,
        encrypt: bool,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) {
        self.keyed.init_accepted(wrapped, encrypt, key);
        (self.is_mid_block, self.is_fresh, self.may_hold_back) = (false, true, self.padding);
        if let Some(iv) = iv
            && let Some(stored) = self.iv.get_mut(..iv.len())
            && self.mode != Chain::Ecb
        {
            stored.copy_from_slice(iv);
            self.block_len = iv.len();
            self.nonce_moved = false;
        } else if self.mode == Chain::ChaCha {
            // The key stream continues, perhaps in the middle of a block.
            self.block_len = 0;
        }
        self.default_ctx_is_behind = false;
    }

    pub(crate) fn process(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
        offset: usize,
    ) -> i32 {
        let Some(blocks) = self.whole_blocks(default_ctx, call, io, offset) else {
            return self.forward_to_default_provider(wrapped, default_ctx, call, io);
        };
        match self.keyed.run_on_device(wrapped, &mut io.first(blocks.len), blocks.iv()) {
            DeviceResult::Done => self.complete(default_ctx, call, io, &blocks),
            DeviceResult::Failed => {
                wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
                io.fail()
            }
            DeviceResult::Declined if self.catch_up(default_ctx) == 1 => default_ctx.forward(call, io),
            DeviceResult::Declined => 0,
        }
    }

    /// Returns the whole blocks, if a device can take them now. The message has had `offset` bytes so far.
    pub(crate) fn whole_blocks(
        &mut self,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &Io<'_>,
        offset: usize,
    ) -> Option<WholeBlocks> {
        if self.tls_version != 0 {
            return None;
        }
        let block_len = self.block_len;
        // With padding, the default provider holds back a call's last block when it decrypts, because this block may end the message.
        let is_block_mode = matches!(self.mode, Chain::Ecb | Chain::Cbc);
        let holds_back = call == CipherCall::Update && self.padding && !self.keyed.encrypt && is_block_mode;
        let unit_len = if self.mode == Chain::ChaCha { CHACHA_BLOCK_LEN } else { block_len };
        let whole_len = if block_len == 0 { 0 } else { io.len() - io.len() % unit_len };
        // The default provider may hold back a block that precedes this data.
        let may_have_held_back =
            self.may_hold_back && !self.keyed.encrypt && is_block_mode && offset != 0 && !self.default_ctx_is_behind;
        let needs_default_provider =
            holds_back || may_have_held_back || self.is_mid_block || (is_block_mode && self.keyed.direction_changed());
        if needs_default_provider
            || whole_len == 0
            || !offset.is_multiple_of(unit_len)
            || !io.has_output()
            || !io.has_input()
        {
            return None;
        }
        if self.mode == Chain::ChaCha {
            // Some releases do not report the counter, but the message started with the nonce.
            self.chaining_value = advance_counter(self.iv, offset / unit_len);
            // Devices count in 32 bits (RFC 8439), so the low half of the counter must not overflow within a request.
            let low = u32::from_le_bytes([
                self.chaining_value[0],
                self.chaining_value[1],
                self.chaining_value[2],
                self.chaining_value[3],
            ]);
            if whole_len / unit_len > (u32::MAX - low) as usize {
                return None;
            }
        } else if self.mode == Chain::Cbc && offset == 0 && self.is_fresh {
            // A message starts with its nonce, however the default provider was initialised.
            self.chaining_value = self.iv;
        } else if !self.default_ctx_is_behind && self.mode != Chain::Ecb {
            // The default provider processed the data so far: it knows the chaining value.
            match block_len {
                8 => self.chaining_value[..8].copy_from_slice(&default_ctx.chaining_value::<8>()?),
                _ => self.chaining_value = default_ctx.chaining_value()?,
            }
        }
        let iv_len = if self.mode == Chain::Ecb { 0 } else { block_len };
        let last_input_block = last_block(&io.input()[..whole_len], block_len);
        Some(WholeBlocks { chaining_value: self.chaining_value, iv_len, len: whole_len, unit_len, last_input_block })
    }

    /// Completes a call whose whole blocks a device has done.
    pub(crate) fn complete(
        &mut self,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
        blocks: &WholeBlocks,
    ) -> i32 {
        let whole_len = blocks.len;
        self.advance(
            blocks.last_input_block,
            last_block(io.first(whole_len).output(), self.block_len),
            whole_len / blocks.unit_len,
        );
        // The rest ends the call in a stream cipher. In other modes it is an incomplete block that waits for more data.
        let mut rest = io.after(whole_len);
        if !rest.is_empty() && (self.catch_up(default_ctx) != 1 || default_ctx.forward(call, &mut rest) != 1) {
            return 0;
        }
        let rest_len = if rest.is_empty() { 0 } else { rest.written() };
        io.succeed(whole_len + rest_len)
    }

    /// Runs many messages as one batch. Returns true if a device was asked.
    pub(crate) fn run_batch(&mut self, wrapped: &WrappedAlgorithm, requests: &mut [Request<'_>]) -> bool {
        self.keyed.run_batch(wrapped, requests)
    }

    pub(crate) fn encrypts(&self) -> bool {
        self.keyed.encrypt
    }

    /// Forwards data that no device takes.
    fn forward_to_default_provider(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
    ) -> i32 {
        if io.has_output() && io.has_input() {
            wrapped.count(self.keyed.operation(), Side::DefaultProvider, io.len());
        }
        if self.catch_up(default_ctx) == 1 { default_ctx.forward(call, io) } else { 0 }
    }

    /// Advances the chaining value by `blocks` blocks. `input` is the last block of the input, and `output` the last block of the output.
    fn advance(&mut self, input: [u8; 16], output: [u8; 16], blocks: usize) {
        match self.mode {
            Chain::Ecb => return,
            Chain::Cbc => self.chaining_value = if self.keyed.encrypt { output } else { input },
            Chain::Ctr => {
                self.chaining_value =
                    u128::from_be_bytes(self.chaining_value).wrapping_add(blocks as u128).to_be_bytes();
            }
            Chain::ChaCha => self.chaining_value = advance_counter(self.chaining_value, blocks),
        }
        self.default_ctx_is_behind = true;
    }

    /// Records that the default provider was asked to end the message.
    pub(crate) fn default_ctx_ended(&mut self) {
        self.is_fresh = false;
    }

    pub(crate) fn finish(&mut self, default_ctx: &DefaultProviderCipherCtx, io: &mut Io<'_>) -> i32 {
        self.default_ctx_ended();
        if self.catch_up(default_ctx) == 1 { default_ctx.finish(io) } else { 0 }
    }

    /// Records the padding parameter after the first `offset` bytes of a message, and ignores all others.
    pub(crate) fn padding_accepted(&mut self, values: ParamValues<'_>, offset: usize) {
        if let Some(padding) = values.number(c"padding") {
            self.padding = padding != 0;
            self.may_hold_back = self.padding || (self.may_hold_back && offset != 0);
        }
    }

    pub(crate) fn params_accepted(&mut self, values: ParamValues<'_>, offset: usize) {
        self.padding_accepted(values, offset);
        if let Some(version) = values.number(c"tls-version") {
            self.tls_version = version;
        }
        self.is_mid_block |= values.has(c"num");
    }

    pub(crate) fn query_params(&mut self, default_ctx: &DefaultProviderCipherCtx, mut query: ParamQuery<'_>) -> i32 {
        if self.catch_up(default_ctx) != 1 {
            return 0;
        }
        // The default provider does not report ChaCha20's nonce.
        if !self.nonce_moved || self.mode == Chain::ChaCha {
            return default_ctx.query_params(query);
        }
        let result = default_ctx.query_params(query.reborrow());
        query.overwrite(c"iv", &self.iv[..self.block_len]);
        result
    }

    /// Brings the default provider up to date with the message.
    pub(crate) fn catch_up(&mut self, default_ctx: &DefaultProviderCipherCtx) -> i32 {
        if !self.default_ctx_is_behind {
            return 1;
        }
        self.default_ctx_is_behind = false;
        self.nonce_moved = true;
        default_ctx.set_iv(self.keyed.encrypt, &self.chaining_value[..self.block_len])
    }
}

/// Advances ChaCha20's counter by `blocks`. On overflow the default provider carries from the low 32 bits into the next 32, not further.
fn advance_counter(mut chaining_value: [u8; 16], blocks: usize) -> [u8; 16] {
    let (counter, _) = chaining_value.split_at_mut(8);
    let advanced = u64::from_le_bytes(std::array::from_fn(|at| counter[at])).wrapping_add(blocks as u64);
    counter.copy_from_slice(&advanced.to_le_bytes());
    chaining_value
}

/// Returns the last `block_len` bytes of `data`, which is at least as long.
fn last_block(data: &[u8], block_len: usize) -> [u8; 16] {
    let mut last = [0; 16];
    last[..block_len].copy_from_slice(&data[data.len() - block_len..]);
    last
}
