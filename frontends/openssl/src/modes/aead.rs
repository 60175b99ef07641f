//! GCM and ChaCha20-Poly1305: a message is its nonce, then associated data, then data in chunks, then the tag.
//!
//! The host's context receives every key, nonce and parameter, so a message can move to the host at any moment before its
//! first byte of data. The route is decided at the first chunk of data, whose length is the only hint of the message's size.
//! Associated data is buffered here until then. A TLS 1.2 record is one chunk with everything in it.

mod end;
mod params;
mod record;

use gantry_core::route::{SizeSet, Worth};
use gantry_core::{AeadStream, Operation, SessionParams};

use crate::abi;
use crate::framework::{Engine, Side};
use crate::host::{CipherCall, Host, Io, with_stack};
use crate::modes::key::Key;
use crate::provider::Wrapped;
use crate::table::Aead;

/// The only nonce length that devices serve, in bytes; all protocols use it.
const NONCE: usize = 12;

/// Bytes of associated data that can be buffered; a message with more goes to the host. TLS has 5 or 13 bytes. ESP and SSH have fewer
/// than 64.
const MAX_AAD: usize = 64;

/// Bytes of a tag, and of the associated data of a TLS 1.2 record.
const TAG: usize = 16;
const HEADER: usize = 13;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The host serves the message, or there is none.
    #[default]
    Host,
    /// The nonce is known; no data has arrived.
    Begun,
    /// A device serves the message.
    Device,
    /// A device served the message; its tag has been made or checked. A nonce of GCM is used up.
    Ended,
    /// A device served the message and failed.
    Broken,
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "five facts, each by itself")]
pub(crate) struct AeadState {
    aead: Aead,
    /// ChaCha20-Poly1305: true if a nonce may be reused for any number of consecutive messages.
    reusable: bool,
    phase: Phase,
    seal: bool,
    key: Key,
    iv: [u8; NONCE],
    aad_buffer: [u8; MAX_AAD],
    aad_len: usize,
    /// True if the host already has the nonce and the buffered data: it served the previous message, and may serve this one.
    host_has_aad: bool,
    /// True if the host served the previous message.
    host_served_last: bool,
    /// The computed tag when sealing, the expected tag when opening.
    tag: [u8; TAG],
    tag_len: usize,
    /// True if a device computed the tag of the last sealed message.
    has_computed: bool,
    /// Header of the next TLS 1.2 record.
    header: Option<[u8; HEADER]>,
    /// ChaCha20-Poly1305: the fixed part of record nonces.
    fixed: Option<[u8; NONCE]>,
    /// GCM: true if the host has the fixed part of record nonces.
    has_fixed: bool,
    /// True if a message has ended since the last nonce was set.
    has_ended: bool,
    stream: Option<AeadStream>,
    engine: Engine,
    /// The host's nonce length in bytes.
    iv_len: usize,
    /// Sizes of first chunks that a device may serve; all others go to the host without asking.
    device_sizes: SizeSet,
}

impl AeadState {
    #[inline(always)]
    pub(crate) fn new(aead: Aead, wrapped: &Wrapped) -> Self {
        Self {
            aead,
            // OpenSSL 4.0 refuses to reuse a nonce, except through the one-shot call; earlier releases allow it.
            reusable: aead == Aead::ChaCha && wrapped.version() < (4, 0),
            phase: Phase::default(),
            seal: false,
            key: Key::default(),
            iv: [0; NONCE],
            aad_buffer: [0; MAX_AAD],
            aad_len: 0,
            host_has_aad: false,
            host_served_last: false,
            tag: [0; TAG],
            tag_len: 0,
            has_computed: false,
            header: None,
            fixed: None,
            has_fixed: false,
            has_ended: false,
            stream: None,
            engine: Engine::default(),
            iv_len: NONCE,
            device_sizes: wrapped.initial_sizes(),
        }
    }

    /// Records an initialisation that the host has accepted.
    pub(crate) fn init_accepted(&mut self, wrapped: &Wrapped, seal: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        if key.is_some() || seal != self.seal {
            self.close();
        }
        if let Some(key) = key {
            if self.aead == Aead::ChaCha {
                // The host forgets the header.
                self.header = None;
            }
            self.key.set(key);
            self.engine.new_key();
            self.seal = seal;
            if let Some(worth) = self.worth(wrapped) {
                worth.new_key();
                self.device_sizes = worth.sizes();
            }
        }
        if seal != self.seal && self.aead == Aead::ChaCha {
            self.tag_len = 0;
        }
        if seal != self.seal && self.header.take().is_some() {
            self.phase = Phase::Host;
        }
        self.seal = seal;
        match iv.map(<&[u8; NONCE]>::try_from) {
            Some(Ok(iv)) => self.nonce_accepted(iv),
            Some(Err(_)) => {
                self.iv_len = iv.map_or(0, <[u8]>::len);
                self.phase = Phase::Host;
            }
            // A key alone. GCM: a message that has begun continues under the new key; a used nonce stays used.
            None if self.aead == Aead::ChaCha && key.is_some() => match self.phase {
                // The nonce of a message refused midway is known to the host only.
                Phase::Host | Phase::Broken => self.phase = Phase::Host,
                _ => self.begin(),
            },
            // The host has seen part of the message and must finish it.
            None if self.phase == Phase::Begun && self.host_has_aad => self.phase = Phase::Host,
            None => {}
        }
    }

    /// Returns the nonce length that can be set without a key in this direction.
    #[inline(always)]
    pub(crate) fn nonce_len_without_key(&self, seal: bool) -> Option<usize> {
        (self.seal == seal).then_some(NONCE)
    }

    /// Returns true if the host has this key.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.key.equals(key)
    }

    /// Records a new nonce that the host has accepted.
    #[inline(always)]
    pub(crate) fn nonce_accepted(&mut self, iv: &[u8; NONCE]) {
        if self.aead == Aead::ChaCha {
            self.header = None;
        }
        (self.iv, self.fixed) = (*iv, Some(*iv));
        (self.iv_len, self.has_ended) = (NONCE, false);
        self.begin();
    }

    /// Records an initialisation that the host has refused.
    pub(crate) fn init_refused(&mut self, key: bool) {
        self.phase = if self.phase == Phase::Device { Phase::Broken } else { Phase::Host };
        // The host may have kept the nonce.
        self.fixed = None;
        if key {
            self.close();
            self.key.set(&[]);
            self.engine.new_key();
        }
    }

    /// Drops the stream. A stream of the parent of a fork is leaked instead.
    fn close(&mut self) {
        let stream = self.stream.take();
        if !self.engine.is_of_this_process() {
            std::mem::forget(stream);
        }
    }

    #[inline(always)]
    fn begin(&mut self) {
        (self.aad_len, self.host_has_aad) = (0, false);
        self.phase = if self.device_sizes == SizeSet::NONE { Phase::Host } else { Phase::Begun };
    }

    fn worth<'w>(&self, wrapped: &'w Wrapped) -> Option<&'w Worth> {
        Some(wrapped.framework_if_open()?.worth(wrapped.algorithm()?, self.operation()))
    }

    fn operation(&self) -> Operation {
        if self.seal { Operation::Seal } else { Operation::Open }
    }

    /// Returns true if the host has all of this message so far.
    #[inline(always)]
    pub(crate) fn host_is_current(&self) -> bool {
        let has_all = match self.phase {
            Phase::Host => true,
            Phase::Begun => self.host_has_aad,
            Phase::Device | Phase::Ended | Phase::Broken => false,
        };
        has_all && self.header.is_none() && !self.is_used_up(CipherCall::Update)
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the host.
    #[inline(always)]
    pub(crate) fn device_sizes(&self) -> SizeSet {
        match self.phase {
            _ if !self.host_is_current() => SizeSet::ALL,
            Phase::Begun => self.device_sizes,
            _ => SizeSet::NONE,
        }
    }

    /// Records that the host, which has all of the message, was asked to end it, and whether it succeeded.
    #[inline(always)]
    pub(crate) fn host_ended(&mut self, has_ended: bool) {
        self.phase = Phase::Host;
        self.has_ended |= has_ended;
        self.has_computed &= !has_ended;
    }

    /// Returns the tag of the last sealed message, if a device made the tag. The host keeps its own tags equally long.
    #[inline(always)]
    pub(crate) fn computed_tag(&self) -> Option<&[u8; TAG]> {
        (self.seal && self.has_computed && self.phase != Phase::Broken).then_some(&self.tag)
    }

    /// Sets the tag to open with, unless a later call replaces it.
    #[inline(always)]
    pub(crate) fn set_tag(&mut self, tag: &[u8]) {
        if let Some(place) = self.tag.get_mut(..tag.len()) {
            copy(place, tag);
            self.tag_len = tag.len();
        }
    }

    /// Returns the nonce length, if it is known here.
    pub(crate) fn iv_len(&self) -> Option<usize> {
        Some(self.iv_len).filter(|length| self.aead == Aead::Gcm || *length == NONCE)
    }

    /// Returns true if the host refuses a call because its nonce is used up.
    fn is_used_up(&self, call: CipherCall) -> bool {
        self.aead == Aead::ChaCha && !self.reusable && self.has_ended && call == CipherCall::Update
    }

    /// Starts another message of ChaCha20-Poly1305 under the same nonce; the host has seen nothing of this message.
    fn restart_message(&mut self) {
        if self.aead == Aead::ChaCha && self.phase == Phase::Ended {
            self.begin();
        }
    }

    /// Handles the frequent cases without asking a device: buffers associated data, sends a small chunk's message to the host.
    #[inline(always)]
    pub(crate) fn try_quickly(&mut self, host: &Host, io: &mut Io<'_>) -> Option<i32> {
        if self.phase != Phase::Begun || self.header.is_some() || io.is_empty() || self.is_used_up(CipherCall::Update) {
            return None;
        }
        if !io.has_output() {
            self.host_has_aad |= self.host_served_last && self.aad_len == 0;
            return self.buffer_aad(host, CipherCall::Update, io);
        }
        (!self.device_sizes.has(io.len())).then(|| self.move_to_host(host, CipherCall::Update, io))
    }

    /// Buffers associated data, and forwards it if the host has the message so far. Returns `None` for the host: there is no key, or the
    /// buffer is full.
    #[inline(always)]
    fn buffer_aad(&mut self, host: &Host, call: CipherCall, io: &mut Io<'_>) -> Option<i32> {
        if self.key.is_empty() {
            // The host refuses associated data without a key.
            return None;
        }
        let place = self.aad_buffer.get_mut(self.aad_len..self.aad_len.wrapping_add(io.len()))?;
        copy(place, io.input());
        self.aad_len += io.len();
        if !self.host_has_aad {
            return Some(io.succeed(io.len()));
        }
        let result = host.forward(call, io);
        if result != 1 {
            self.phase = Phase::Host;
        }
        Some(result)
    }

    /// Handles a chunk of data, associated data if there is no output, or the end of the message if there is no input.
    /// `fed` bytes went straight to the host before.
    pub(crate) fn process(
        &mut self,
        wrapped: &Wrapped,
        host: &Host,
        call: CipherCall,
        io: &mut Io<'_>,
        fed: usize,
    ) -> i32 {
        if self.is_used_up(call) {
            return self.refuse(wrapped, call, io);
        }
        if let Some(header) = self.header.take() {
            return self.record(wrapped, host, call, io, header);
        }
        self.restart_message();
        if self.phase == Phase::Begun && self.host_has_aad && fed != 0 {
            self.phase = Phase::Host;
        }
        if call == CipherCall::Cipher && !io.has_input() {
            return match self.phase {
                Phase::Device if self.is_lenient(wrapped) => io.succeed(0),
                Phase::Host | Phase::Begun => {
                    let is_at_host = self.phase == Phase::Host;
                    let result = if is_at_host { host.forward(call, io) } else { self.move_to_host(host, call, io) };
                    self.has_computed &= result != 1 || self.is_lenient(wrapped);
                    result
                }
                Phase::Device | Phase::Ended | Phase::Broken => self.finish_on_device(wrapped, host, io),
            };
        }
        match self.phase {
            Phase::Host => {
                if io.has_output() {
                    wrapped.count(self.operation(), Side::Host, io.len());
                }
                host.forward(call, io)
            }
            Phase::Begun | Phase::Device if io.is_empty() => io.succeed(0),
            Phase::Ended | Phase::Broken if io.is_empty() && self.aead == Aead::Gcm => io.succeed(0),
            Phase::Device if !io.has_output() && self.is_lenient(wrapped) => {
                let (stream, aad) = (self.stream.as_mut(), io.input());
                let taken = stream.and_then(|stream| with_stack(|| stream.aad_after_data(aad).is_ok()));
                if taken == Some(true) { io.succeed(io.len()) } else { self.fail(wrapped, io) }
            }
            // Refuses a reused nonce and associated data after data, as the host does.
            Phase::Ended | Phase::Broken => self.refuse(wrapped, call, io),
            Phase::Device if !io.has_output() => self.refuse(wrapped, call, io),
            Phase::Begun if !io.has_output() => {
                self.buffer_aad(host, call, io).unwrap_or_else(|| self.move_to_host(host, call, io))
            }
            Phase::Begun => self.first_chunk(wrapped, host, call, io),
            Phase::Device => {
                let bytes = io.len();
                let fed = self.stream.as_mut().zip(io.buffers());
                let fed = fed.is_some_and(|(stream, data)| with_stack(|| stream.update(data).is_ok()).unwrap_or(false));
                wrapped.count(self.operation(), Side::Device, bytes);
                if fed { io.succeed(bytes) } else { self.fail(wrapped, io) }
            }
        }
    }

    /// Handles the first chunk of data and decides the route.
    fn first_chunk(&mut self, wrapped: &Wrapped, host: &Host, call: CipherCall, io: &mut Io<'_>) -> i32 {
        let (bytes, operation) = (io.len(), self.operation());
        // A tag that is set later may be truncated, which only the host supports.
        let whole = self.aead == Aead::Gcm || self.seal || self.tag_len == TAG;
        let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()).filter(|_| whole) else {
            wrapped.count(operation, Side::Host, bytes);
            return self.move_to_host(host, call, io);
        };
        let key = &self.key;
        let params = || SessionParams::new(algorithm, &key.bytes());
        if !self.engine.is_bound_to(framework) {
            // The stream belongs to the parent of a fork.
            std::mem::forget(self.stream.take());
        }
        let worth = framework.worth(algorithm, operation);
        let side = self.engine.side(framework, operation, bytes, params, algorithm);
        self.device_sizes = worth.sizes();
        if side == Side::Device {
            let in_place = io.in_place();
            if self.stream.is_none() {
                self.stream = self.engine.open(worth, |session| session.aead_stream(operation));
            }
            if let (Some(stream), Some(data)) = (self.stream.as_mut(), io.buffers()) {
                let aad = &self.aad_buffer[..self.aad_len];
                if stream.begin_with(&self.iv, aad, data).is_ok() {
                    wrapped.count(operation, Side::Device, bytes);
                    (self.phase, self.host_served_last) = (Phase::Device, false);
                    return io.succeed(bytes);
                }
                // The chunk may be half done; then the host cannot start over.
                self.stream = None;
                self.engine.give_up();
                if in_place {
                    return self.fail(wrapped, io);
                }
            }
        }
        let result = self.move_to_host(host, call, io);
        wrapped.count(operation, Side::Host, bytes);
        result
    }

    /// Sends the message to the host: first the buffered associated data, then this call.
    fn move_to_host(&mut self, host: &Host, call: CipherCall, io: &mut Io<'_>) -> i32 {
        if self.flush_aad(host) { host.forward(call, io) } else { io.fail() }
    }

    /// Gives the host the buffered associated data.
    fn flush_aad(&mut self, host: &Host) -> bool {
        self.phase = Phase::Host;
        // ChaCha20-Poly1305 may reuse the nonce for a message of which the host must have seen nothing.
        self.host_served_last = self.aead == Aead::Gcm;
        let aad = &self.aad_buffer[..self.aad_len];
        self.host_has_aad || aad.is_empty() || host.update_aad(aad) == 1
    }

    /// Returns true for ChaCha20-Poly1305 if the host takes associated data after data, and `EVP_Cipher` does not end its messages.
    fn is_lenient(&self, wrapped: &Wrapped) -> bool {
        self.aead == Aead::ChaCha && wrapped.takes_aad_after_data()
    }

    /// Refuses a call as the host does: GCM with a reason for `EVP_CipherUpdate`, ChaCha20-Poly1305 without one.
    fn refuse(&self, wrapped: &Wrapped, call: CipherCall, io: &mut Io<'_>) -> i32 {
        if self.aead == Aead::Gcm && call == CipherCall::Update {
            wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
        }
        io.fail()
    }

    /// Marks the message as broken: a device failed midway, and no result can be returned.
    fn fail(&mut self, wrapped: &Wrapped, io: &mut Io<'_>) -> i32 {
        self.phase = Phase::Broken;
        wrapped.raise(abi::PROV_R_CIPHER_OPERATION_FAILED);
        io.fail()
    }
}

/// Copies slices of equal length, most of them short: two overlapping words are faster than a loop or a call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
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
