//! ECB, CBC, CTR and ChaCha20: a device takes whole blocks, in calls for which the host would hold no block back.
//!
//! While a device works, the host's context falls behind. It catches up before it is needed again: it gets the chaining value
//! as its nonce. The message's own nonce is kept here, so that callers do not notice.

use gantry_core::Request;
use gantry_core::route::SizeSet;

use crate::abi;
use crate::framework::{DeviceResult, Side};
use crate::host::{CipherCall, Host, Io, ParamQuery, ParamValues};
use crate::modes::keyed::KeyedCipher;
use crate::provider::Wrapped;
use crate::table::Chain;

const CHACHA_BLOCK: usize = 64;

/// Whole blocks of a message that a device can take, and the chaining value they start with.
pub(crate) struct WholeBlocks {
    chain: [u8; 16],
    size: usize,
    /// Bytes of data in whole blocks.
    pub(crate) len: usize,
    unit: usize,
    last: [u8; 16],
}

impl WholeBlocks {
    pub(crate) fn iv(&self) -> &[u8] {
        &self.chain[..self.size]
    }
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "six facts, each by itself")]
pub(crate) struct ChainState {
    mode: Chain,
    keyed: KeyedCipher,
    /// The nonce that the message started with.
    iv: [u8; 16],
    /// The chaining value of the next block, while the host is behind.
    chain: [u8; 16],
    /// Bytes of a nonce and of a block; 0 until a nonce is set.
    block: usize,
    host_is_behind: bool,
    /// True if the host's nonce differs from the nonce that the message started with.
    nonce_moved: bool,
    /// True if the host was given a position within a block. It stays true until the next initialisation.
    mid_block: bool,
    /// True if no message has ended since the initialisation, so that the next message starts with the nonce.
    is_fresh: bool,
    padding: bool,
    /// True if the host may hold back a block of the message, even if the padding was turned off in between.
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
            chain: [0; 16],
            block: if mode == Chain::Ecb { 16 } else { 0 },
            host_is_behind: false,
            nonce_moved: false,
            mid_block: false,
            is_fresh: true,
            padding: true,
            may_hold_back: true,
            tls_version: 0,
        }
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the host.
    pub(crate) fn device_sizes(&self, wrapped: &Wrapped) -> SizeSet {
        if self.host_is_behind { SizeSet::ALL } else { self.keyed.device_sizes(wrapped) }
    }

    /// Returns true if the host is up to date with the message.
    pub(crate) fn host_is_current(&self) -> bool {
        !self.host_is_behind
    }

    /// Prepares the host for an initialisation without a nonce: it returns to the message's first nonce, or continues.
    pub(crate) fn before_init(&mut self, host: &Host) -> i32 {
        if !self.nonce_moved && !self.host_is_behind {
            return 1;
        }
        if matches!(self.mode, Chain::Ctr | Chain::ChaCha) {
            return self.catch_up(host);
        }
        self.host_is_behind = false;
        host.set_nonce(self.keyed.encrypt, &self.iv[..self.block])
    }

    /// Records that the host refused an initialisation. The host continues from an unknown state, perhaps under the new nonce.
    pub(crate) fn init_refused(&mut self) {
        self.keyed.forget();
        (self.host_is_behind, self.nonce_moved) = (false, false);
        if self.mode != Chain::Ecb {
            self.block = 0;
        }
    }

    pub(crate) fn init_accepted(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        self.keyed.init_accepted(wrapped, encrypt, key);
        (self.mid_block, self.is_fresh, self.may_hold_back) = (false, true, self.padding);
        if let Some(iv) = iv
            && let Some(place) = self.iv.get_mut(..iv.len())
            && self.mode != Chain::Ecb
        {
            place.copy_from_slice(iv);
            self.block = iv.len();
            self.nonce_moved = false;
        } else if self.mode == Chain::ChaCha {
            // The key stream continues, perhaps in the middle of a block.
            self.block = 0;
        }
        self.host_is_behind = false;
    }

    pub(crate) fn process(
        &mut self,
        wrapped: &Wrapped,
        host: &Host,
        call: CipherCall,
        io: &mut Io<'_>,
        fed: usize,
    ) -> i32 {
        let Some(blocks) = self.whole_blocks(host, call, io, fed) else {
            return self.forward_to_host(wrapped, host, call, io);
        };
        match self.keyed.run_on_device(wrapped, &mut io.first(blocks.len), blocks.iv()) {
            DeviceResult::Done => self.complete(host, call, io, &blocks),
            DeviceResult::Failed => {
                wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
                io.fail()
            }
            DeviceResult::Host if self.catch_up(host) == 1 => host.forward(call, io),
            DeviceResult::Host => 0,
        }
    }

    /// Returns the whole blocks, if a device can take them now. `fed` bytes went to the host before.
    pub(crate) fn whole_blocks(
        &mut self,
        host: &Host,
        call: CipherCall,
        io: &Io<'_>,
        fed: usize,
    ) -> Option<WholeBlocks> {
        if self.tls_version != 0 {
            return None;
        }
        let block = self.block;
        // Padding: when decrypting, the host holds the last block back, because it may be the last of the message.
        let blocks = matches!(self.mode, Chain::Ecb | Chain::Cbc);
        let holds_back = call == CipherCall::Update && self.padding && !self.keyed.encrypt && blocks;
        let unit = if self.mode == Chain::ChaCha { CHACHA_BLOCK } else { block };
        let whole = if block == 0 { 0 } else { io.len() - io.len() % unit };
        // A block that the host holds back precedes this data.
        let has_held = self.may_hold_back && !self.keyed.encrypt && blocks && fed != 0 && !self.host_is_behind;
        let stays = holds_back || has_held || self.mid_block || (blocks && self.keyed.direction_changed());
        if stays || whole == 0 || !fed.is_multiple_of(unit) || !io.has_output() || !io.has_input() {
            return None;
        }
        if self.mode == Chain::ChaCha {
            // Some releases do not report the counter, but the message started with the nonce.
            self.chain = count(self.iv, fed / unit);
            // Within a request, the low half of the counter must not overflow.
            let low = u32::from_le_bytes([self.chain[0], self.chain[1], self.chain[2], self.chain[3]]);
            if whole / unit > (u32::MAX - low) as usize {
                return None;
            }
        } else if self.mode == Chain::Cbc && fed == 0 && self.is_fresh {
            // A message starts with its nonce, however the host was initialised.
            self.chain = self.iv;
        } else if !self.host_is_behind && self.mode != Chain::Ecb {
            // The host processed the data so far: it knows the chaining value.
            match block {
                8 => self.chain[..8].copy_from_slice(&host.chaining_value::<8>()?),
                _ => self.chain = host.chaining_value()?,
            }
        }
        let size = if self.mode == Chain::Ecb { 0 } else { block };
        let last = last_block(&io.input()[..whole], block);
        Some(WholeBlocks { chain: self.chain, size, len: whole, unit, last })
    }

    /// Completes a call whose whole blocks a device has done.
    pub(crate) fn complete(&mut self, host: &Host, call: CipherCall, io: &mut Io<'_>, blocks: &WholeBlocks) -> i32 {
        let whole = blocks.len;
        self.advance(blocks.last, last_block(io.first(whole).output(), self.block), whole / blocks.unit);
        // Stream cipher: the bytes after the last whole block. Otherwise: an incomplete block that waits for more data.
        let mut rest = io.after(whole);
        if !rest.is_empty() && (self.catch_up(host) != 1 || host.forward(call, &mut rest) != 1) {
            return 0;
        }
        let more = if rest.is_empty() { 0 } else { rest.written() };
        io.succeed(whole + more)
    }

    /// Runs many messages as one batch. Returns true if a device was asked.
    pub(crate) fn batch(&mut self, wrapped: &Wrapped, requests: &mut [Request<'_>]) -> bool {
        self.keyed.batch(wrapped, requests)
    }

    pub(crate) fn encrypts(&self) -> bool {
        self.keyed.encrypt
    }

    /// Forwards data that no device takes.
    fn forward_to_host(&mut self, wrapped: &Wrapped, host: &Host, call: CipherCall, io: &mut Io<'_>) -> i32 {
        if io.has_output() && io.has_input() {
            wrapped.count(self.keyed.operation(), Side::Host, io.len());
        }
        if self.catch_up(host) == 1 { host.forward(call, io) } else { 0 }
    }

    /// Advances the chaining value by `blocks` blocks. `input` is the last block of the input, and `output` the last block of the output.
    fn advance(&mut self, input: [u8; 16], output: [u8; 16], blocks: usize) {
        match self.mode {
            Chain::Ecb => return,
            Chain::Cbc => self.chain = if self.keyed.encrypt { output } else { input },
            Chain::Ctr => self.chain = u128::from_be_bytes(self.chain).wrapping_add(blocks as u128).to_be_bytes(),
            Chain::ChaCha => self.chain = count(self.chain, blocks),
        }
        self.host_is_behind = true;
    }

    /// Records that the host was asked to end the message.
    pub(crate) fn host_ended(&mut self) {
        self.is_fresh = false;
    }

    pub(crate) fn finish(&mut self, host: &Host, io: &mut Io<'_>) -> i32 {
        self.host_ended();
        if self.catch_up(host) == 1 { host.finish(io) } else { 0 }
    }

    /// Records the padding parameter after `fed` bytes of a message, and ignores all others.
    pub(crate) fn padding_accepted(&mut self, values: ParamValues<'_>, fed: usize) {
        if let Some(padding) = values.number(c"padding") {
            self.padding = padding != 0;
            self.may_hold_back = self.padding || (self.may_hold_back && fed != 0);
        }
    }

    pub(crate) fn params_accepted(&mut self, values: ParamValues<'_>, fed: usize) {
        self.padding_accepted(values, fed);
        if let Some(version) = values.number(c"tls-version") {
            self.tls_version = version;
        }
        self.mid_block |= values.has(c"num");
    }

    pub(crate) fn query_params(&mut self, host: &Host, mut query: ParamQuery<'_>) -> i32 {
        if self.catch_up(host) != 1 {
            return 0;
        }
        // The host does not report ChaCha20's nonce.
        if !self.nonce_moved || self.mode == Chain::ChaCha {
            return host.query_params(query);
        }
        let result = host.query_params(query.reborrow());
        query.overwrite(c"iv", &self.iv[..self.block]);
        result
    }

    /// Brings the host up to date with the message.
    pub(crate) fn catch_up(&mut self, host: &Host) -> i32 {
        if !self.host_is_behind {
            return 1;
        }
        self.host_is_behind = false;
        self.nonce_moved = true;
        host.set_nonce(self.keyed.encrypt, &self.chain[..self.block])
    }
}

/// Advances ChaCha20's counter by `blocks`. On overflow the host carries from the low 32 bits into the next 32, not further.
fn count(mut chain: [u8; 16], blocks: usize) -> [u8; 16] {
    let (counter, _) = chain.split_at_mut(8);
    let advanced = u64::from_le_bytes(std::array::from_fn(|at| counter[at])).wrapping_add(blocks as u64);
    counter.copy_from_slice(&advanced.to_le_bytes());
    chain
}

/// Returns the last `block` bytes of `data`, which is at least as long.
fn last_block(data: &[u8], block: usize) -> [u8; 16] {
    let mut last = [0; 16];
    last[..block].copy_from_slice(&data[data.len() - block..]);
    last
}
