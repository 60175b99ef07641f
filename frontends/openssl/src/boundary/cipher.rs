//! Our functions for ciphers, which OpenSSL calls.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use gantry_core::Algorithm;
use gantry_core::route::SizeSet;

use super::context::{Context, Contexts, new_context};
use crate::abi::Param;
use crate::libcrypto::functions::CipherFns;
use crate::libcrypto::params::is_empty;
use crate::libcrypto::{CipherCall, DefaultProviderCipherCtx, Io, ParamQuery, ParamValues, catch_panic};
use crate::modes::chain::ChainState;
use crate::modes::cipher::CipherModeState;
use crate::modes::pipes::Pipes;
use crate::provider::WrappedAlgorithm;
use crate::size_filter::SizeFilter;

/// Our context of a cipher, which OpenSSL calls `cctx` (provider-cipher(7)).
pub(super) type CipherCtx = Context<CipherFns>;

#[derive(Clone)]
pub(crate) struct CipherState {
    /// Call sizes that a device may serve; calls of other sizes go straight to the default provider.
    device_sizes: SizeFilter,
    /// True if the default provider has all of the message so far: then the end of the message also goes straight to it.
    default_ctx_is_current: bool,
    /// Bytes of the message so far, which tell a block's position and ChaCha20's counter.
    pub(super) offset: usize,
    /// Bytes of the longest key.
    key_len: usize,
    /// Bytes of the longest nonce. A mode with several lengths reports the current one instead ([`CipherModeState::iv_len`]).
    iv_len: usize,
    /// True if every call is examined, because the configuration makes calls fail.
    examines_all_calls: bool,
    pub(super) message: CipherModeState,
    pub(super) pipes: Pipes,
}

impl CipherState {
    #[inline(always)]
    fn new(wrapped: &WrappedAlgorithm) -> Self {
        let examines_all_calls = wrapped.examines_all_calls();
        let device_sizes = SizeFilter::from(if examines_all_calls { SizeSet::ALL } else { SizeSet::NONE });
        let info = wrapped.algorithm().map(Algorithm::info);
        let (key_len, iv_len) = info.map_or((0, 0), |info| (info.key.max, info.iv.max));
        let (message, pipes) = (CipherModeState::new(wrapped), Pipes::default());
        Self {
            device_sizes,
            default_ctx_is_current: !examines_all_calls,
            offset: 0,
            key_len,
            iv_len,
            examines_all_calls,
            message,
            pipes,
        }
    }

    /// Updates the shortcuts for the next call, `device_sizes` and `default_ctx_is_current`.
    #[inline(always)]
    fn update_shortcuts(&mut self, wrapped: &WrappedAlgorithm) {
        if !self.examines_all_calls {
            self.device_sizes = self.message.device_sizes(wrapped).into();
            self.default_ctx_is_current = self.message.default_ctx_is_current();
        }
    }

    /// Updates the shortcuts of an AEAD. Those of other modes stay as they are.
    #[inline(always)]
    fn update_aead_shortcuts(&mut self) {
        if let Self {
            examines_all_calls: false,
            device_sizes,
            default_ctx_is_current,
            message: CipherModeState::Aead(aead),
            ..
        } = self
        {
            (*device_sizes, *default_ctx_is_current) =
                (SizeFilter::without_shortcut(aead.device_sizes()), aead.default_ctx_is_current());
        }
    }

    /// Records that the message has grown by `bytes` bytes.
    pub(super) fn advance(&mut self, wrapped: &WrappedAlgorithm, bytes: usize) {
        self.offset = self.offset.wrapping_add(bytes);
        self.update_shortcuts(wrapped);
    }
}

pub(super) unsafe extern "C" fn newctx<const ROW: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call; the default provider, with its own context.
    unsafe { new_context(provider, ROW, CipherFns::call_newctx, |_, wrapped| CipherState::new(wrapped)) }
}

pub(super) unsafe extern "C" fn init_for<const ENCRYPT: bool>(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    params: *const Param,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call; the default provider, with the call's arguments. Nothing here can panic.
    unsafe {
        // Frequent case: an AEAD message or XTS data unit starts with a nonce alone, or with the key that is already set.
        if !iv.is_null()
            && is_empty(params)
            && (*this).state.message.takes_nonce(ENCRYPT, iv_len)
            && (key.is_null() || (*this).state.message.has_key(slice::from_raw_parts(key, key_len)))
            && let Some(init) = (*(*this).default_ctx.functions).init(ENCRYPT)
        {
            (*this).count_forwarded();
            (*this).forwarded.is_decrypting = !ENCRYPT;
            let result = init((*this).default_ctx.as_ptr(), ptr::null(), 0, iv, iv_len, params);
            if result == 1 {
                (*this).state.offset = 0;
                (*this).state.message.nonce_accepted(slice::from_raw_parts(iv, iv_len));
            } else {
                (*this).state.message.init_refused(false);
            }
            (*this).state.update_aead_shortcuts();
            return result;
        }
        init(context, ENCRYPT, (key, key_len), (iv, iv_len), params)
    }
}

/// # Safety
///
/// The call.
pub(super) unsafe fn init(
    context: *mut c_void,
    encrypt: bool,
    (key, key_len): (*const u8, usize),
    (iv, iv_len): (*const u8, usize),
    params: *const Param,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { CipherCtx::parts(context) };
        let init = functions.init(encrypt);
        let Some(init) = init else { return 0 };
        this.count_forwarded();
        this.forwarded.is_decrypting = !encrypt;
        if !key.is_null() {
            this.state.pipes.close();
        }
        // SAFETY: the call.
        let has_params = unsafe { !is_empty(params) };
        if this.state.message.before_init(&this.default_ctx, !iv.is_null()) != 1 {
            return 0;
        }
        // SAFETY: the default provider, with the call's arguments.
        let result = unsafe { init(this.default_ctx.as_ptr(), key, key_len, iv, iv_len, params) };
        if result == 1 {
            // SAFETY: the call.
            let slice = |at: *const u8, length| (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at, length) });
            this.state.offset = 0;
            this.state.message.init_accepted(wrapped, encrypt, slice(key, key_len), slice(iv, iv_len));
            if has_params {
                // SAFETY: the call.
                this.state.message.params_accepted(&this.default_ctx, unsafe { ParamValues::new(params) }, 0);
            }
            this.state.update_shortcuts(wrapped);
        } else {
            this.state.message.init_refused(!key.is_null());
            this.state.update_shortcuts(wrapped);
        }
        result
    })
}

/// `TRACKS_OFFSET` is false for XTS only: each of its calls is a data unit, so the message has no offset.
pub(super) unsafe extern "C" fn update<const TRACKS_OFFSET: bool>(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call; the default provider, with the call's arguments. Nothing here can panic.
    unsafe {
        if (*this).state.device_sizes.is_below(length) {
            if TRACKS_OFFSET {
                (*this).state.offset = (*this).state.offset.wrapping_add(length);
            }
            (*this).record_forwarded(length);
            return ((*(*this).default_ctx.functions).update)(
                (*this).default_ctx.as_ptr(),
                output,
                written,
                room,
                input,
                length,
            );
        }
        large_update(context, output, written, room, input, length)
    }
}

/// Handles an update that is too large for the one-comparison shortcut.
///
/// # Safety
///
/// The call.
#[inline(never)]
unsafe extern "C" fn large_update(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call; the default provider, with the call's arguments. Nothing here can panic.
    unsafe {
        if (*this).state.device_sizes.has(length) {
            return considered_update(context, output, written, room, input, length);
        }
        (*this).state.offset = (*this).state.offset.wrapping_add(length);
        (*this).record_forwarded(length);
        ((*(*this).default_ctx.functions).update)((*this).default_ctx.as_ptr(), output, written, room, input, length)
    }
}

/// Handles an update that a device may serve. It is a function of its own, so that the shortcuts need not save registers.
///
/// # Safety
///
/// The call.
#[inline(never)]
unsafe extern "C" fn considered_update(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call. Nothing here can panic.
    unsafe {
        let CipherCtx { default_ctx, state, .. } = &mut *this;
        if !state.examines_all_calls {
            let io = &mut Io::new(output, written, room, input, length);
            let done = match &mut state.message {
                CipherModeState::Aead(aead) => aead.try_fast_path(default_ctx, io),
                CipherModeState::Xts(_) | CipherModeState::Chain(_) => None,
            };
            if let Some(result) = done {
                state.update_aead_shortcuts();
                (*this).record_forwarded(length);
                return result;
            }
        }
        process(context, CipherCall::Update, Io::new(output, written, room, input, length))
    }
}

pub(super) unsafe extern "C" fn cipher(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call; the default provider, with the call's arguments. Nothing here can panic.
    unsafe {
        // The default provider's CMAC calls this function for each block, so it has a shortcut. A call without input ends a message.
        if !(*this).state.device_sizes.has(length)
            && !input.is_null()
            && let Some(cipher) = (*(*this).default_ctx.functions).cipher
        {
            (*this).state.offset = (*this).state.offset.wrapping_add(length);
            (*this).record_forwarded(length);
            return cipher((*this).default_ctx.as_ptr(), output, written, room, input, length);
        }
        process(context, CipherCall::Cipher, Io::new(output, written, room, input, length))
    }
}

/// # Safety
///
/// The call.
#[inline(never)]
unsafe fn process(context: *mut c_void, call: CipherCall, mut io: Io<'_>) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { CipherCtx::parts(context) };
        if wrapped.raise_if_forced() {
            return io.fail();
        }
        let (length, offset) = (io.len(), this.state.offset);
        let result = this.state.message.process(wrapped, &this.default_ctx, call, &mut io, offset);
        this.state.advance(wrapped, length);
        result
    })
}

pub(super) unsafe extern "C" fn finish(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call; the default provider, with the call's arguments. Nothing here can panic.
    unsafe {
        if (*this).state.default_ctx_is_current
            && let Some(finish) = (*(*this).default_ctx.functions).finish
        {
            (*this).count_forwarded();
            let result = finish((*this).default_ctx.as_ptr(), output, written, room);
            match &mut (*this).state.message {
                CipherModeState::Aead(aead) => {
                    // No device can serve a later call of this message.
                    aead.default_ctx_ended(result == 1);
                    (*this).state.device_sizes = SizeFilter::without_shortcut(SizeSet::NONE);
                }
                CipherModeState::Chain(chain) => chain.default_ctx_ended(),
                CipherModeState::Xts(_) => {}
            }
            return result;
        }
    }
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, _, wrapped), mut io) =
            unsafe { (CipherCtx::parts(context), Io::new(output, written, room, ptr::null(), 0)) };
        if wrapped.raise_if_forced() {
            return io.fail();
        }
        this.count_forwarded();
        let result = this.state.message.finish(wrapped, &this.default_ctx, &mut io);
        this.state.update_shortcuts(wrapped);
        result
    })
}

pub(super) unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the call. Nothing here can panic.
    unsafe {
        // OpenSSL itself queries these two lengths at every initialisation.
        let CipherCtx {
            default_ctx, state: CipherState { key_len, iv_len, default_ctx_is_current, message, .. }, ..
        } = &mut *context.cast::<CipherCtx>();
        let mut query = ParamQuery::new(params);
        if message.iv_len(*iv_len).is_some_and(|iv_len| query.answer_number(c"ivlen", iv_len))
            || query.answer_number(c"keylen", *key_len)
        {
            return 1;
        }
        // Programs query the tag at the end of every sealed message.
        if let CipherModeState::Aead(aead) = message {
            match aead.computed_tag() {
                Some(tag) if query.answer_octets(c"tag", tag) => return 1,
                None if *default_ctx_is_current && query.is_only(c"tag") => return default_ctx.get_params(params),
                _ => {}
            }
        }
    }
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, _, wrapped), query) = unsafe { (CipherCtx::parts(context), ParamQuery::new(params)) };
        let result = this.state.message.query_params(wrapped, &this.default_ctx, query);
        this.state.update_shortcuts(wrapped);
        result
    })
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call; the default provider, with the call's arguments. Nothing here can panic.
    unsafe {
        let CipherCtx { default_ctx, state: CipherState { message, pipes, offset, .. }, .. } = &mut *this;
        if let CipherModeState::Aead(aead) = message
            && let Some(tag) = ParamValues::new(params).only_octets(c"tag")
        {
            let result = default_ctx.set_params(params);
            if result == 1 {
                aead.set_tag(tag);
            }
            return result;
        }
        // If a program has turned padding off, OpenSSL turns it off again at every initialisation. Most modes do not pad.
        if pipes.is_empty() && ParamValues::new(params).is_only(c"padding") {
            let result = default_ctx.set_params(params);
            if let CipherModeState::Chain(chain) = message
                && result == 1
            {
                chain.padding_accepted(ParamValues::new(params), *offset);
            }
            return result;
        }
    }
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, _, wrapped), values) = unsafe { (CipherCtx::parts(context), ParamValues::new(params)) };
        this.state.message.before_params(&this.default_ctx);
        // SAFETY: the call.
        let result = unsafe { this.default_ctx.set_params(params) };
        if result == 1 && !params.is_null() {
            this.state.message.params_accepted(&this.default_ctx, values, this.state.offset);
            this.state.update_shortcuts(wrapped);
            let repeat = |default_ctx: &DefaultProviderCipherCtx, message: &mut ChainState, offset: usize| {
                // SAFETY: the call.
                let (result, values) = unsafe { (default_ctx.set_params(params), ParamValues::new(params)) };
                message.params_accepted(values, offset);
                result == 1
            };
            if !this.state.pipes.repeat_params(repeat) {
                return 0;
            }
        }
        result
    })
}

impl Contexts for CipherFns {
    type State = CipherState;

    const HAS_KEY: bool = true;
}
