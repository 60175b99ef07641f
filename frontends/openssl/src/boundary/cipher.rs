//! Ciphers: our entries.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use gantry_core::Algorithm;
use gantry_core::route::SizeSet;

use super::core::{Table, dispatch};
use super::family::{
    Context, Contexts, Family, dupctx, freectx, gettable_ctx_params, gettable_params, is_empty, new_context,
    settable_ctx_params,
};
use super::functions::{CipherFns, Common, Functions};
use super::host_cipher::{Host, begin};
use super::params::{Answers, Questions};
use super::wrapped::Wrapped;
use super::{Io, Way, guard, pipeline};
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::chain::Chained;
use crate::cipher::State;
use crate::gate::Gate;
use crate::pipes::Pipes;
use crate::table::{CIPHERS, Mode};

/// What the core calls `cctx`.
pub(super) type CipherCtx = Context<CipherFns>;

/// What is known of it.
#[derive(Clone)]
pub(crate) struct Calls {
    /// Calls with other numbers of bytes go straight to the host.
    elsewhere: Gate,
    /// The host has all of the message so far: its end goes straight there, too.
    hosts: bool,
    /// Bytes that went by, as far as it matters: where in a block they end.
    pub(super) fed: usize,
    /// The length of keys, and of nonces unless the mode has several.
    key_len: usize,
    iv_len: usize,
    /// Every call is counted, or made to fail.
    watched: bool,
    pub(super) message: State,
    pub(super) pipes: Pipes,
}

impl Calls {
    #[inline(always)]
    fn new(wrapped: &Wrapped) -> Self {
        let watched = wrapped.watches();
        let elsewhere = Gate::from(if watched { SizeSet::ALL } else { SizeSet::NONE });
        let info = wrapped.algorithm().map(Algorithm::info);
        let (key_len, iv_len) = info.map_or((0, 0), |info| (info.key.max, info.iv.max));
        let (message, pipes) = (State::new(wrapped), Pipes::default());
        Self { elsewhere, hosts: !watched, fed: 0, key_len, iv_len, watched, message, pipes }
    }

    /// Where the next call goes at once.
    #[inline(always)]
    fn settle(&mut self, wrapped: &Wrapped) {
        if !self.watched {
            self.elsewhere = self.message.elsewhere(wrapped).into();
            self.hosts = self.message.is_hosts();
        }
    }

    /// The same after a call that only an AEAD looks at.
    #[inline(always)]
    fn settle_sealed(&mut self) {
        if let Self { watched: false, elsewhere, hosts, message: State::Aead(sealed), .. } = self {
            (*elsewhere, *hosts) = (Gate::passing(sealed.elsewhere()), sealed.is_hosts());
        }
    }

    /// So many bytes went by.
    pub(super) fn moved_on(&mut self, wrapped: &Wrapped, bytes: usize) {
        self.fed = self.fed.wrapping_add(bytes);
        self.settle(wrapped);
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call, and the host's answer.
    unsafe { new_context(provider, PLACE, begin, |_: &CipherFns, wrapped| Calls::new(wrapped)) }
}

unsafe extern "C" fn init_for<const ENCRYPT: bool>(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    params: *const Param,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        // Each message with a tag and each unit of XTS begins with a nonce alone, or with the key that was there already.
        if !iv.is_null()
            && is_empty(params)
            && (*this).state.message.takes_nonce(ENCRYPT, iv_len)
            && (key.is_null() || (*this).state.message.has_key(slice::from_raw_parts(key, key_len)))
            && let Some(init) = (*(*this).host.functions).init(ENCRYPT)
        {
            (*this).count_straight();
            (*this).straight.back = !ENCRYPT;
            let result = init((*this).host.context(), ptr::null(), 0, iv, iv_len, params);
            if result == 1 {
                (*this).state.fed = 0;
                (*this).state.message.restarted(slice::from_raw_parts(iv, iv_len));
            } else {
                (*this).state.message.refused(false);
            }
            (*this).state.settle_sealed();
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
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { CipherCtx::of(context) };
        let init = functions.init(encrypt);
        let Some(init) = init else { return 0 };
        this.count_straight();
        this.straight.back = !encrypt;
        if !key.is_null() {
            this.state.pipes.close();
        }
        // SAFETY: the call.
        let has_params = unsafe { !is_empty(params) };
        if this.state.message.before_init(&this.host, !iv.is_null()) != 1 {
            return 0;
        }
        // SAFETY: the host, with what the call brought.
        let result = unsafe { init(this.host.context(), key, key_len, iv, iv_len, params) };
        if result == 1 {
            // SAFETY: the call.
            let slice = |at: *const u8, length| (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at, length) });
            this.state.fed = 0;
            this.state.message.initialised(wrapped, encrypt, slice(key, key_len), slice(iv, iv_len));
            if has_params {
                // SAFETY: the call.
                this.state.message.told(&this.host, unsafe { Answers::new(params) });
            }
            this.state.settle(wrapped);
        } else {
            this.state.message.refused(!key.is_null());
            this.state.settle(wrapped);
        }
        result
    })
}

/// `COUNTED`: it matters how much of a message went by. (Not in XTS: what comes with one call is a data unit by itself.)
unsafe extern "C" fn update<const COUNTED: bool>(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        if (*this).state.elsewhere.is_below(length) {
            if COUNTED {
                (*this).state.fed = (*this).state.fed.wrapping_add(length);
            }
            (*this).goes_straight(length);
            return ((*(*this).host.functions).update)((*this).host.context(), output, written, room, input, length);
        }
        large_update(context, output, written, room, input, length)
    }
}

/// An update that one comparison does not tell to be the host's.
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
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        if (*this).state.elsewhere.has(length) {
            return considered_update(context, output, written, room, input, length);
        }
        (*this).state.fed = (*this).state.fed.wrapping_add(length);
        (*this).goes_straight(length);
        ((*(*this).host.functions).update)((*this).host.context(), output, written, room, input, length)
    }
}

/// An update that may not be the host's. By itself, so that what is the host's saves no registers on its way.
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
        let CipherCtx { host, state, .. } = &mut *this;
        if !state.watched {
            let io = &mut Io::new(output, written, room, input, length);
            let done = match &mut state.message {
                State::Aead(sealed) => sealed.quick(host, io),
                State::Xts(_) | State::Chain(_) => None,
            };
            if let Some(result) = done {
                state.settle_sealed();
                (*this).goes_straight(length);
                return result;
            }
        }
        data(context, Way::Update, Io::new(output, written, room, input, length))
    }
}

unsafe extern "C" fn cipher(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        // CMAC of the default provider takes this way for each block. Without input it is the end of a message.
        if !(*this).state.elsewhere.has(length)
            && !input.is_null()
            && let Some(cipher) = (*(*this).host.functions).cipher
        {
            (*this).state.fed = (*this).state.fed.wrapping_add(length);
            (*this).goes_straight(length);
            return cipher((*this).host.context(), output, written, room, input, length);
        }
        data(context, Way::Cipher, Io::new(output, written, room, input, length))
    }
}

/// # Safety
///
/// The call.
#[inline(never)]
unsafe fn data(context: *mut c_void, way: Way, mut io: Io<'_>) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { CipherCtx::of(context) };
        if wrapped.fails() {
            return io.refused();
        }
        let (length, fed) = (io.len(), this.state.fed);
        let result = this.state.message.data(wrapped, &this.host, way, &mut io, fed);
        this.state.moved_on(wrapped, length);
        result
    })
}

unsafe extern "C" fn finish(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        if (*this).state.hosts
            && let Some(finish) = (*(*this).host.functions).finish
        {
            (*this).count_straight();
            let result = finish((*this).host.context(), output, written, room);
            if let State::Aead(sealed) = &mut (*this).state.message {
                // Nothing follows that could be a device's.
                sealed.leave_all(result == 1);
                (*this).state.elsewhere = Gate::passing(SizeSet::NONE);
            }
            return result;
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let ((this, _, wrapped), mut io) =
            unsafe { (CipherCtx::of(context), Io::new(output, written, room, ptr::null(), 0)) };
        if wrapped.fails() {
            return io.refused();
        }
        this.count_straight();
        let result = this.state.message.finish(&this.host, &mut io);
        this.state.settle(wrapped);
        result
    })
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the call. Nothing here can panic.
    unsafe {
        // Asked at every initialisation by OpenSSL itself.
        let CipherCtx { host, state: Calls { key_len, iv_len, hosts, message, .. }, .. } =
            &mut *context.cast::<CipherCtx>();
        let mut questions = Questions::new(params);
        if message.iv_len(*iv_len).is_some_and(|iv_len| questions.only_number(c"ivlen", iv_len))
            || questions.only_number(c"keylen", *key_len)
        {
            return 1;
        }
        // Asked at the end of every message that was sealed.
        if let State::Aead(sealed) = message {
            if *hosts && questions.is_only(c"tag") {
                return host.get_params(params);
            }
            if sealed.made_tag().is_some_and(|tag| questions.only_octets(c"tag", tag)) {
                return 1;
            }
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let ((this, _, wrapped), questions) = unsafe { (CipherCtx::of(context), Questions::new(params)) };
        let result = this.state.message.ask(&this.host, questions);
        this.state.settle(wrapped);
        result
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        let CipherCtx { host, state: Calls { message, pipes, .. }, .. } = &mut *this;
        if let State::Aead(sealed) = message
            && let Some(tag) = Answers::new(params).only_octets(c"tag")
        {
            let result = host.set_params(params);
            if result == 1 {
                sealed.expect(tag);
            }
            return result;
        }
        // OpenSSL 3.0 says it again with each nonce. Most modes do not pad.
        if pipes.is_empty() && Answers::new(params).is_only(c"padding") {
            let result = host.set_params(params);
            if let State::Chain(chained) = message
                && result == 1
            {
                chained.told_padding(Answers::new(params));
            }
            return result;
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let ((this, _, wrapped), answers) = unsafe { (CipherCtx::of(context), Answers::new(params)) };
        this.state.message.before_params(&this.host);
        // SAFETY: the call.
        let result = unsafe { this.host.set_params(params) };
        if result == 1 && !params.is_null() {
            this.state.message.told(&this.host, answers);
            this.state.settle(wrapped);
            let tell = |host: &Host, message: &mut Chained| {
                // SAFETY: the call.
                let (result, told) = unsafe { (host.set_params(params), Answers::new(params)) };
                message.told(told);
                result == 1
            };
            if !this.state.pipes.tell(tell) {
                return 0;
            }
        }
        result
    })
}

impl Family for CipherFns {
    const KIND: usize = 0;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Cipher(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

impl Contexts for CipherFns {
    type State = Calls;

    const HAS_KEY: bool = true;

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (NewCtx, Gettable, GettableCtx, GettableCtx);

const fn at<const PLACE: usize>() -> AtPlace {
    (
        newctx::<PLACE>,
        gettable_params::<CipherFns, PLACE>,
        gettable_ctx_params::<CipherFns, PLACE>,
        settable_ctx_params::<CipherFns, PLACE>,
    )
}

static AT: [AtPlace; CIPHERS.len()] = super::family::at_places!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize, version: (u32, u32)) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = AT[place];
    let update = if CIPHERS[place].mode == Mode::Xts { update::<false> } else { update::<true> };
    let ours = dispatch! {
        OSSL_FUNC_CIPHER_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_CIPHER_ENCRYPT_INIT => init_for::<true>, CipherInit;
        OSSL_FUNC_CIPHER_DECRYPT_INIT => init_for::<false>, CipherInit;
        OSSL_FUNC_CIPHER_UPDATE => update, CipherUpdate;
        OSSL_FUNC_CIPHER_FINAL => finish, Final;
        OSSL_FUNC_CIPHER_CIPHER => cipher, CipherUpdate;
        OSSL_FUNC_CIPHER_FREECTX => freectx::<CipherFns>, FreeCtx;
        OSSL_FUNC_CIPHER_DUPCTX => dupctx::<CipherFns>, NewCtx;
        OSSL_FUNC_CIPHER_GET_CTX_PARAMS => get_ctx_params, GetParams;
        OSSL_FUNC_CIPHER_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_CIPHER_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    let mut table = super::core::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_CIPHER_GET_PARAMS]);
    if CIPHERS[place].has_pipelines(version) {
        // The host has no such functions: all that these need of it is in the others.
        let end = table.len() - 1;
        table.splice(end..end, pipeline::entries());
    }
    table
}
