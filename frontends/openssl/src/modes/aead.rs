//! GCM and ChaCha20-Poly1305: a message is its nonce, then associated data, then data in chunks, then the tag.
//!
//! The default provider's context receives every key, nonce and parameter, so a message can move there at any moment before its
//! first byte of data. The route is decided at the first chunk of data, whose length is the only hint of the message's size.
//! Associated data is buffered here until then. A TLS 1.2 record is one chunk with everything in it.

mod end;
mod params;
mod record;

use gantry_core::route::{Savings, SizeSet};
use gantry_core::{AeadStream, Operation, SessionParams};

use crate::abi;
use crate::framework::{DeviceSide, Side};
use crate::libcrypto::{CipherCall, DefaultProviderCipherCtx, Io, with_enough_stack};
use crate::modes::key::Key;
use crate::provider::WrappedAlgorithm;
use crate::table::Aead;

/// The only nonce length that devices serve, in bytes; all protocols use it.
const NONCE_LEN: usize = 12;

/// Bytes of associated data that can be buffered; a message with more goes to the default provider. TLS has 5 or 13 bytes. ESP and SSH have
/// fewer than 64.
const MAX_AAD_LEN: usize = 64;

/// Bytes of a tag, and of the associated data of a TLS 1.2 record.
const TAG_LEN: usize = 16;
const RECORD_HEADER_LEN: usize = 13;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The default provider serves the message, or there is none.
    #[default]
    DefaultProvider,
    /// The nonce is known; no data has arrived.
    Begun,
    /// A device serves the message.
    Device,
    /// A device served the message; its tag has been made or checked. With GCM, the nonce is used up.
    Ended,
    /// A device served the message and failed.
    Broken,
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "five facts, each by itself")]
pub(crate) struct AeadState {
    aead: Aead,
    /// ChaCha20-Poly1305: true if a nonce may be reused for any number of consecutive messages.
    may_reuse_nonce: bool,
    phase: Phase,
    seal: bool,
    key: Key,
    iv: [u8; NONCE_LEN],
    aad_buffer: [u8; MAX_AAD_LEN],
    aad_len: usize,
    /// True if the default provider's context already has the nonce and the buffered data: it served the previous message, and may serve
    /// this one.
    default_ctx_has_aad: bool,
    /// True if the default provider served the previous message.
    default_provider_served_last: bool,
    /// The computed tag when sealing, the expected tag when opening.
    tag: [u8; TAG_LEN],
    tag_len: usize,
    /// True if a device computed the tag of the last sealed message.
    has_computed_tag: bool,
    /// Header of the next TLS 1.2 record.
    record_header: Option<[u8; RECORD_HEADER_LEN]>,
    /// ChaCha20-Poly1305: the fixed part of record nonces.
    fixed_nonce: Option<[u8; NONCE_LEN]>,
    /// GCM: true if the default provider's context has the fixed part of record nonces.
    default_ctx_has_fixed_nonce: bool,
    /// True if a message has ended since the last nonce was set.
    message_has_ended: bool,
    stream: Option<AeadStream>,
    device_side: DeviceSide,
    /// The nonce length of the default provider's context, in bytes.
    iv_len: usize,
    /// Sizes of first chunks that a device may serve; all others go to the default provider without asking.
    device_sizes: SizeSet,
}

impl AeadState {
    #[inline(always)]
    pub(crate) fn new(aead: Aead, wrapped: &WrappedAlgorithm) -> Self {
        Self {
            aead,
            // OpenSSL 4.0 refuses to reuse a nonce, except through the one-shot call; earlier releases allow it.
            may_reuse_nonce: aead == Aead::ChaCha && wrapped.version() < (4, 0),
            phase: Phase::default(),
            seal: false,
            key: Key::default(),
            iv: [0; NONCE_LEN],
            aad_buffer: [0; MAX_AAD_LEN],
            aad_len: 0,
            default_ctx_has_aad: false,
            default_provider_served_last: false,
            tag: [0; TAG_LEN],
            tag_len: 0,
            has_computed_tag: false,
            record_header: None,
            fixed_nonce: None,
            default_ctx_has_fixed_nonce: false,
            message_has_ended: false,
            stream: None,
            device_side: DeviceSide::default(),
            iv_len: NONCE_LEN,
            device_sizes: wrapped.initial_sizes(),
        }
    }

    /// Records an initialisation that the default provider has accepted.
    pub(crate) fn init_accepted(
        &mut self,
        wrapped: &WrappedAlgorithm,
        seal: bool,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) {
        if key.is_some() || seal != self.seal {
            self.drop_stream();
        }
        if let Some(key) = key {
            if self.aead == Aead::ChaCha {
                // The default provider forgets the record header when it gets a key.
                self.record_header = None;
            }
            self.key.set(key);
            self.device_side.new_key();
            self.seal = seal;
            if let Some(savings) = self.savings(wrapped) {
                savings.count_key();
                self.device_sizes = savings.sizes();
            }
        }
        if seal != self.seal && self.aead == Aead::ChaCha {
            self.tag_len = 0;
        }
        if seal != self.seal && self.record_header.take().is_some() {
            self.phase = Phase::DefaultProvider;
        }
        self.seal = seal;
        match iv.map(<&[u8; NONCE_LEN]>::try_from) {
            Some(Ok(iv)) => self.nonce_accepted(iv),
            Some(Err(_)) => {
                self.iv_len = iv.map_or(0, <[u8]>::len);
                self.phase = Phase::DefaultProvider;
            }
            // A key alone starts another message of ChaCha20-Poly1305 under the same nonce. With GCM, a message that has begun continues
            // under the new key, and a used nonce stays used.
            None if self.aead == Aead::ChaCha && key.is_some() => match self.phase {
                // The nonce of a message refused midway is known to the default provider only.
                Phase::DefaultProvider | Phase::Broken => self.phase = Phase::DefaultProvider,
                _ => self.begin_message(),
            },
            // The default provider has seen part of the message and must finish it.
            None if self.phase == Phase::Begun && self.default_ctx_has_aad => self.phase = Phase::DefaultProvider,
            None => {}
        }
    }

    /// Returns the nonce length that can be set without a key in this direction.
    #[inline(always)]
    pub(crate) fn nonce_len_without_key(&self, seal: bool) -> Option<usize> {
        (self.seal == seal).then_some(NONCE_LEN)
    }

    /// Returns true if the default provider has this key.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.key.equals(key)
    }

    /// Records a new nonce that the default provider has accepted.
    #[inline(always)]
    pub(crate) fn nonce_accepted(&mut self, iv: &[u8; NONCE_LEN]) {
        if self.aead == Aead::ChaCha {
            self.record_header = None;
        }
        (self.iv, self.fixed_nonce) = (*iv, Some(*iv));
        (self.iv_len, self.message_has_ended) = (NONCE_LEN, false);
        self.begin_message();
    }

    /// Records an initialisation that the default provider has refused.
    pub(crate) fn init_refused(&mut self, has_key: bool) {
        self.phase = if self.phase == Phase::Device { Phase::Broken } else { Phase::DefaultProvider };
        // The default provider may have kept the nonce.
        self.fixed_nonce = None;
        if has_key {
            self.drop_stream();
            self.key.set(&[]);
            self.device_side.new_key();
        }
    }

    /// Drops the stream. A stream of the parent of a fork is leaked instead.
    fn drop_stream(&mut self) {
        let stream = self.stream.take();
        if !self.device_side.is_of_this_process() {
            std::mem::forget(stream);
        }
    }

    #[inline(always)]
    fn begin_message(&mut self) {
        (self.aad_len, self.default_ctx_has_aad) = (0, false);
        self.phase = if self.device_sizes == SizeSet::NONE { Phase::DefaultProvider } else { Phase::Begun };
    }

    fn savings<'w>(&self, wrapped: &'w WrappedAlgorithm) -> Option<&'w Savings> {
        Some(wrapped.framework_if_open()?.savings(wrapped.algorithm()?, self.operation()))
    }

    fn operation(&self) -> Operation {
        if self.seal { Operation::Seal } else { Operation::Open }
    }

    /// Returns true if the default provider has all of this message so far.
    #[inline(always)]
    pub(crate) fn default_ctx_is_current(&self) -> bool {
        let has_message = match self.phase {
            Phase::DefaultProvider => true,
            Phase::Begun => self.default_ctx_has_aad,
            Phase::Device | Phase::Ended | Phase::Broken => false,
        };
        has_message && self.record_header.is_none() && !self.is_used_up(CipherCall::Update)
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the default provider.
    #[inline(always)]
    pub(crate) fn device_sizes(&self) -> SizeSet {
        match self.phase {
            _ if !self.default_ctx_is_current() => SizeSet::ALL,
            Phase::Begun => self.device_sizes,
            _ => SizeSet::NONE,
        }
    }

    /// Records that the default provider, which has all of the message, was asked to end it, and whether it succeeded.
    #[inline(always)]
    pub(crate) fn default_ctx_ended(&mut self, has_ended: bool) {
        self.phase = Phase::DefaultProvider;
        self.message_has_ended |= has_ended;
        self.has_computed_tag &= !has_ended;
    }

    /// Returns the tag of the last sealed message, if a device made the tag. It stays until another message ends.
    #[inline(always)]
    pub(crate) fn computed_tag(&self) -> Option<&[u8; TAG_LEN]> {
        (self.seal && self.has_computed_tag && self.phase != Phase::Broken).then_some(&self.tag)
    }

    /// Sets the tag that opening expects. A later call may replace the tag.
    #[inline(always)]
    pub(crate) fn set_tag(&mut self, tag: &[u8]) {
        if let Some(stored) = self.tag.get_mut(..tag.len()) {
            copy_short(stored, tag);
            self.tag_len = tag.len();
        }
    }

    /// Returns the nonce length, if it is known here.
    pub(crate) fn iv_len(&self) -> Option<usize> {
        Some(self.iv_len).filter(|length| self.aead == Aead::Gcm || *length == NONCE_LEN)
    }

    /// Returns true if the default provider refuses a call because its nonce is used up.
    fn is_used_up(&self, call: CipherCall) -> bool {
        self.aead == Aead::ChaCha && !self.may_reuse_nonce && self.message_has_ended && call == CipherCall::Update
    }

    /// Starts another message of ChaCha20-Poly1305 under the same nonce; the default provider has seen nothing of this message.
    fn restart_message(&mut self) {
        if self.aead == Aead::ChaCha && self.phase == Phase::Ended {
            self.begin_message();
        }
    }

    /// Handles the frequent cases without asking a device: buffers associated data, or sends a message whose first chunk is small to the
    /// default provider.
    #[inline(always)]
    pub(crate) fn try_fast_path(&mut self, default_ctx: &DefaultProviderCipherCtx, io: &mut Io<'_>) -> Option<i32> {
        if self.phase != Phase::Begun
            || self.record_header.is_some()
            || io.is_empty()
            || self.is_used_up(CipherCall::Update)
        {
            return None;
        }
        if !io.has_output() {
            self.default_ctx_has_aad |= self.default_provider_served_last && self.aad_len == 0;
            return self.buffer_aad(default_ctx, CipherCall::Update, io);
        }
        (!self.device_sizes.has(io.len())).then(|| self.move_to_default_provider(default_ctx, CipherCall::Update, io))
    }

    /// Buffers associated data, and forwards it if the default provider has the message so far. Returns `None` if
    /// there is no key, or the buffer is full: the message then goes to the default provider.
    #[inline(always)]
    fn buffer_aad(&mut self, default_ctx: &DefaultProviderCipherCtx, call: CipherCall, io: &mut Io<'_>) -> Option<i32> {
        if self.key.is_empty() {
            // The default provider refuses associated data without a key.
            return None;
        }
        let free = self.aad_buffer.get_mut(self.aad_len..self.aad_len.wrapping_add(io.len()))?;
        copy_short(free, io.input());
        self.aad_len += io.len();
        if !self.default_ctx_has_aad {
            return Some(io.succeed(io.len()));
        }
        let result = default_ctx.forward(call, io);
        if result != 1 {
            self.phase = Phase::DefaultProvider;
        }
        Some(result)
    }

    /// Handles a chunk of data, associated data if there is no output, or the end of the message if there is no input.
    /// `offset` includes the bytes of the message that went straight to the default provider.
    pub(crate) fn process(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
        offset: usize,
    ) -> i32 {
        if self.is_used_up(call) {
            return self.refuse(wrapped, call, io);
        }
        if let Some(header) = self.record_header.take() {
            return self.process_record(wrapped, default_ctx, call, io, header);
        }
        self.restart_message();
        if self.phase == Phase::Begun && self.default_ctx_has_aad && offset != 0 {
            self.phase = Phase::DefaultProvider;
        }
        if call == CipherCall::Cipher && !io.has_input() {
            return match self.phase {
                Phase::Device if self.allows_aad_after_data(wrapped) => io.succeed(0),
                Phase::DefaultProvider | Phase::Begun => {
                    let is_at_default_provider = self.phase == Phase::DefaultProvider;
                    let result = if is_at_default_provider {
                        default_ctx.forward(call, io)
                    } else {
                        self.move_to_default_provider(default_ctx, call, io)
                    };
                    self.has_computed_tag &= result != 1 || self.allows_aad_after_data(wrapped);
                    result
                }
                Phase::Device | Phase::Ended | Phase::Broken => self.finish_on_device(wrapped, default_ctx, io),
            };
        }
        match self.phase {
            Phase::DefaultProvider => {
                if io.has_output() {
                    wrapped.count(self.operation(), Side::DefaultProvider, io.len());
                }
                default_ctx.forward(call, io)
            }
            Phase::Begun | Phase::Device if io.is_empty() => io.succeed(0),
            Phase::Ended | Phase::Broken if io.is_empty() && self.aead == Aead::Gcm => io.succeed(0),
            Phase::Device if !io.has_output() && self.allows_aad_after_data(wrapped) => {
                let (stream, aad) = (self.stream.as_mut(), io.input());
                let taken = stream.and_then(|stream| with_enough_stack(|| stream.aad_after_data(aad).is_ok()));
                if taken == Some(true) { io.succeed(io.len()) } else { self.break_message(wrapped, io) }
            }
            // Refuses a reused nonce and associated data after data, as the default provider does.
            Phase::Ended | Phase::Broken => self.refuse(wrapped, call, io),
            Phase::Device if !io.has_output() => self.refuse(wrapped, call, io),
            Phase::Begun if !io.has_output() => self
                .buffer_aad(default_ctx, call, io)
                .unwrap_or_else(|| self.move_to_default_provider(default_ctx, call, io)),
            Phase::Begun => self.process_first_chunk(wrapped, default_ctx, call, io),
            Phase::Device => {
                let bytes = io.len();
                let stream_and_data = self.stream.as_mut().zip(io.buffers());
                let is_updated = stream_and_data
                    .is_some_and(|(stream, data)| with_enough_stack(|| stream.update(data).is_ok()).unwrap_or(false));
                wrapped.count(self.operation(), Side::Device, bytes);
                if is_updated { io.succeed(bytes) } else { self.break_message(wrapped, io) }
            }
        }
    }

    /// Handles the first chunk of data and decides the route.
    fn process_first_chunk(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
    ) -> i32 {
        let (bytes, operation) = (io.len(), self.operation());
        // A tag that is set later may be truncated, which only the default provider supports.
        let has_whole_tag = self.aead == Aead::Gcm || self.seal || self.tag_len == TAG_LEN;
        let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()).filter(|_| has_whole_tag)
        else {
            wrapped.count(operation, Side::DefaultProvider, bytes);
            return self.move_to_default_provider(default_ctx, call, io);
        };
        let key = &self.key;
        let params = || SessionParams::new(algorithm, &key.bytes());
        if !self.device_side.is_bound_to(framework) {
            // The stream belongs to the parent of a fork.
            std::mem::forget(self.stream.take());
        }
        let savings = framework.savings(algorithm, operation);
        let side = self.device_side.choose_side(framework, operation, bytes, params, algorithm);
        self.device_sizes = savings.sizes();
        if side == Side::Device {
            let is_in_place = io.is_in_place();
            if self.stream.is_none() {
                self.stream = self.device_side.open_timed(savings, |session| session.aead_stream(operation));
            }
            if let (Some(stream), Some(data)) = (self.stream.as_mut(), io.buffers()) {
                let aad = &self.aad_buffer[..self.aad_len];
                if stream.begin_with(&self.iv, aad, data).is_ok() {
                    wrapped.count(operation, Side::Device, bytes);
                    (self.phase, self.default_provider_served_last) = (Phase::Device, false);
                    return io.succeed(bytes);
                }
                // The chunk may be half done; then the default provider cannot start over.
                self.stream = None;
                self.device_side.give_up();
                if is_in_place {
                    return self.break_message(wrapped, io);
                }
            }
        }
        let result = self.move_to_default_provider(default_ctx, call, io);
        wrapped.count(operation, Side::DefaultProvider, bytes);
        result
    }

    /// Sends the message to the default provider: first the buffered associated data, then this call.
    fn move_to_default_provider(
        &mut self,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
    ) -> i32 {
        if self.flush_aad(default_ctx) { default_ctx.forward(call, io) } else { io.fail() }
    }

    /// Gives the default provider the buffered associated data.
    fn flush_aad(&mut self, default_ctx: &DefaultProviderCipherCtx) -> bool {
        self.phase = Phase::DefaultProvider;
        // ChaCha20-Poly1305 may reuse the nonce for another message; the default provider must then have seen nothing of that message.
        self.default_provider_served_last = self.aead == Aead::Gcm;
        let aad = &self.aad_buffer[..self.aad_len];
        self.default_ctx_has_aad || aad.is_empty() || default_ctx.update_aad(aad) == 1
    }

    /// Returns true for ChaCha20-Poly1305 if the default provider takes associated data after data. Then `EVP_Cipher` does not end its
    /// messages either.
    fn allows_aad_after_data(&self, wrapped: &WrappedAlgorithm) -> bool {
        self.aead == Aead::ChaCha && wrapped.takes_aad_after_data()
    }

    /// Refuses a call as the default provider does: GCM with a reason for `EVP_CipherUpdate`, ChaCha20-Poly1305 without one.
    fn refuse(&self, wrapped: &WrappedAlgorithm, call: CipherCall, io: &mut Io<'_>) -> i32 {
        if self.aead == Aead::Gcm && call == CipherCall::Update {
            wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
        }
        io.fail()
    }

    /// Marks the message as broken: a device failed midway, and no result can be returned.
    fn break_message(&mut self, wrapped: &WrappedAlgorithm, io: &mut Io<'_>) -> i32 {
        self.phase = Phase::Broken;
        wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
        io.fail()
    }
}

/// Copies slices of equal length, most of them short: two overlapping words are faster than a loop or a call.
#[inline(always)]
fn copy_short(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last), Some((at, _))) =
        (from.first_chunk(), from.last_chunk(), to.split_first_chunk_mut())
        && from.len() <= 2 * size_of::<u64>()
    {
        let (first, last): (&[u8; 8], &[u8; 8]) = (first, last);
        *at = *first;
        if let Some(at) = to.last_chunk_mut() {
            *at = *last;
        }
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}
