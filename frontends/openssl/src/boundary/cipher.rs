//! Ciphers: our entries, and the host's functions behind them.

use std::ffi::{CStr, c_int, c_void};
use std::{ptr, slice};

use super::core::{Table, entry};
use super::family::{Family, functions, gettable_ctx_params, gettable_params, settable_ctx_params};
use super::params::{self, Answers, Questions};
use super::provider::{Functions, Wrapped, dispatch};
use super::{Io, guard};
use gantry::driver::Buffers;
use zeroize::Zeroizing;

use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::choice::Sizes;
use crate::cipher::{State, Way};
use crate::table::CIPHERS;

/// The host's functions of one algorithm.
pub(in crate::boundary) struct CipherFns {
    newctx: Option<NewCtx>,
    encrypt_init: Option<CipherInit>,
    decrypt_init: Option<CipherInit>,
    update: Option<CipherUpdate>,
    cipher: Option<CipherUpdate>,
    finish: Option<Final>,
    freectx: Option<FreeCtx>,
    dupctx: Option<NewCtx>,
    get_ctx_params: Option<GetParams>,
    set_ctx_params: Option<SetParams>,
    gettable_params: Option<Gettable>,
    gettable_ctx_params: Option<GettableCtx>,
    settable_ctx_params: Option<GettableCtx>,
}

impl CipherFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_CIPHER_NEWCTX, NewCtx),
            encrypt_init: entry!(table, OSSL_FUNC_CIPHER_ENCRYPT_INIT, CipherInit),
            decrypt_init: entry!(table, OSSL_FUNC_CIPHER_DECRYPT_INIT, CipherInit),
            update: entry!(table, OSSL_FUNC_CIPHER_UPDATE, CipherUpdate),
            cipher: entry!(table, OSSL_FUNC_CIPHER_CIPHER, CipherUpdate),
            finish: entry!(table, OSSL_FUNC_CIPHER_FINAL, Final),
            freectx: entry!(table, OSSL_FUNC_CIPHER_FREECTX, FreeCtx),
            dupctx: entry!(table, OSSL_FUNC_CIPHER_DUPCTX, NewCtx),
            get_ctx_params: entry!(table, OSSL_FUNC_CIPHER_GET_CTX_PARAMS, GetParams),
            set_ctx_params: entry!(table, OSSL_FUNC_CIPHER_SET_CTX_PARAMS, SetParams),
            gettable_params: entry!(table, OSSL_FUNC_CIPHER_GETTABLE_PARAMS, Gettable),
            gettable_ctx_params: entry!(table, OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, GettableCtx),
            settable_ctx_params: entry!(table, OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, GettableCtx),
        }
    }
}

/// A context of the host, and its functions.
pub(crate) struct Host {
    context: *mut c_void,
    functions: *const CipherFns,
}

impl Host {
    fn functions(&self) -> &CipherFns {
        // SAFETY: ours: the provider owns them, and outlives its contexts.
        unsafe { &*self.functions }
    }

    /// A call with data, as it came.
    pub(crate) fn data(&self, way: Way, io: &mut Io<'_>) -> c_int {
        let function = match way {
            Way::Update => self.functions().update,
            Way::Cipher => self.functions().cipher,
        };
        let Io { output, written, room, input, length, .. } = *io;
        // SAFETY: the host, with what the call brought.
        function.map_or(0, |function| unsafe { function(self.context, output, written, room, input, length) })
    }

    /// The end of a message.
    pub(crate) fn finish(&self, io: &mut Io<'_>) -> c_int {
        let Io { output, written, room, .. } = *io;
        // SAFETY: the host, with what the call brought.
        self.functions().finish.map_or(0, |finish| unsafe { finish(self.context, output, written, room) })
    }

    /// Associated data of ours. The host wants room for as much, although it writes nothing.
    pub(crate) fn associated(&self, data: &[u8]) -> c_int {
        let mut written = 0;
        let (at, length) = (data.as_ptr(), data.len());
        let update = self.functions().update;
        // SAFETY: the host, with a slice to read.
        update
            .map_or(0, |update| unsafe { update(self.context, ptr::null_mut(), &raw mut written, length, at, length) })
    }

    /// Another nonce, under the same key.
    pub(crate) fn restart(&self, encrypt: bool, iv: &[u8]) -> c_int {
        let init = if encrypt { self.functions().encrypt_init } else { self.functions().decrypt_init };
        let (at, length) = (iv.as_ptr(), iv.len());
        // SAFETY: the host, with a slice to read and no parameters.
        init.map_or(0, |init| unsafe { init(self.context, ptr::null(), 0, at, length, ptr::null()) })
    }

    /// A direction alone: key, nonce and lengths stay.
    fn turn(&self, encrypt: bool) -> bool {
        let init = if encrypt { self.functions().encrypt_init } else { self.functions().decrypt_init };
        // SAFETY: the host, with nothing else.
        init.is_some_and(|init| unsafe { init(self.context, ptr::null(), 0, ptr::null(), 0, ptr::null()) == 1 })
    }

    /// CCM: so much data will come.
    pub(crate) fn announce(&self, bytes: usize) -> c_int {
        let mut written = 0;
        let update = self.functions().update;
        // SAFETY: the host: without input there is only a number.
        update.map_or(0, |update| unsafe {
            update(self.context, ptr::null_mut(), &raw mut written, bytes, ptr::null(), bytes)
        })
    }

    /// CCM: a message without data, under the nonce that the host has. Afterwards it stands where any message leaves it that was
    /// sealed, but for the tag; or, when opening, where one with a bad tag does, whose error is on the stack then.
    pub(crate) fn nothing(&self, with_aad: bool) -> bool {
        let (mut none, mut written) = ([0], 0);
        if self.announce(0) != 1 || (with_aad && self.associated(&none) != 1) {
            return false;
        }
        let at = none.as_mut_ptr();
        // SAFETY: the host, with a place of its own that is not even written.
        self.functions()
            .update
            .is_some_and(|update| unsafe { update(self.context, at, &raw mut written, 0, at, 0) == 1 })
    }

    /// CCM: the same, and the host stands where a message leaves it that was opened. One that was sealed is over in the same way
    /// once its tag, of `tag_len` bytes, was asked for.
    pub(crate) fn opened_nothing(&self, tag_len: usize) -> bool {
        let mut tag = Zeroizing::new([0; 16]);
        let mut table = [Param::octets(c"tag", tag.as_mut_ptr().cast(), tag_len.min(tag.len())), params::end()];
        let get = self.functions().get_ctx_params;
        self.turn(true)
            && self.nothing(false)
            // SAFETY: the host, with a table with its end, whose data has room.
            && get.is_some_and(|get| unsafe { get(self.context, table.as_mut_ptr()) == 1 })
            && self.turn(false)
    }

    /// What it says of itself.
    pub(crate) fn ask(&self, mut questions: Questions<'_>) -> c_int {
        let get = self.functions().get_ctx_params;
        // SAFETY: the host, with what the call brought.
        get.map_or(0, |get| unsafe { get(self.context, questions.as_mut_ptr()) })
    }

    /// A parameter of `N` bytes.
    pub(crate) fn octets<const N: usize>(&self, key: &CStr) -> Option<[u8; N]> {
        let get = self.functions().get_ctx_params?;
        // SAFETY: the host, with a table with its end.
        params::octets(key, |table| unsafe { get(self.context, table) })
    }

    /// A parameter that is a number.
    pub(crate) fn number(&self, key: &CStr) -> Option<usize> {
        let get = self.functions().get_ctx_params?;
        // SAFETY: the host, with a table with its end.
        params::number(key, |table| unsafe { get(self.context, table) })
    }
}

/// One algorithm of the host, for contexts that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostAlgorithm {
    theirs: *mut c_void,
    functions: *const CipherFns,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostAlgorithm {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostAlgorithm {}

impl HostAlgorithm {
    pub(super) fn new(wrapped: &Wrapped) -> Option<Self> {
        let Functions::Cipher(functions) = &wrapped.functions else { return None };
        let theirs = wrapped.default_ctx();
        (!theirs.is_null()).then_some(Self { theirs, functions })
    }

    pub(crate) fn context(&self) -> Option<HostContext> {
        // SAFETY: ours: the provider owns them, and outlives its framework; the host, with its own context.
        let context = unsafe { (*self.functions).newctx?(self.theirs) };
        (!context.is_null()).then_some(HostContext(Host { context, functions: self.functions }))
    }
}

/// A context of the host that is ours alone.
pub(crate) struct HostContext(Host);

// SAFETY: the host: a context belongs to no thread.
unsafe impl Send for HostContext {}

impl HostContext {
    pub(crate) fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> bool {
        let functions = self.0.functions();
        let init = if encrypt { functions.encrypt_init } else { functions.decrypt_init };
        let parts = |slice: Option<&[u8]>| slice.map_or((ptr::null(), 0), |slice| (slice.as_ptr(), slice.len()));
        let ((key, key_len), (iv, iv_len)) = (parts(key), parts(iv));
        // SAFETY: the host, with slices to read and no parameters.
        init.is_some_and(|init| unsafe { init(self.0.context, key, key_len, iv, iv_len, ptr::null()) == 1 })
    }

    /// All data in one call, without padding.
    pub(crate) fn whole(&mut self, data: Buffers<'_>) -> bool {
        self.data(Way::Cipher, data)
    }

    /// Some data.
    pub(crate) fn feed(&mut self, data: Buffers<'_>) -> bool {
        self.data(Way::Update, data)
    }

    fn data(&mut self, way: Way, mut data: Buffers<'_>) -> bool {
        let (input, length) = (data.input().as_ptr(), data.len());
        let (output, mut written) = (data.output().as_mut_ptr(), 0);
        // In place, the pointer for reading must come from the one for writing.
        let input = if input == output.cast_const() { output.cast_const() } else { input };
        // SAFETY: both are as long as each other, and borrowed for this call.
        let mut io = unsafe { Io::new(output, &raw mut written, length, input, length) };
        // Of all modes, only CCM wants to hear of nothing.
        (length == 0 && way == Way::Cipher) || self.0.data(way, &mut io) == 1
    }

    pub(crate) fn associated(&mut self, aad: &[u8]) -> bool {
        aad.is_empty() || self.0.associated(aad) == 1
    }

    pub(crate) fn end(&mut self) -> bool {
        let (mut block, mut written) = ([0; 16], 0);
        // SAFETY: a place of its own, for this call.
        let mut io = unsafe { Io::new(block.as_mut_ptr(), &raw mut written, block.len(), ptr::null(), 0) };
        self.0.finish(&mut io) == 1
    }

    /// CCM: so much data will come.
    pub(crate) fn announce(&mut self, bytes: usize) -> bool {
        self.0.announce(bytes) == 1
    }

    /// The tag of what was sealed.
    pub(crate) fn tag(&mut self, tag: &mut [u8]) -> bool {
        let mut table = [Param::octets(c"tag", tag.as_mut_ptr().cast(), tag.len()), params::end()];
        let get = self.0.functions().get_ctx_params;
        // SAFETY: the host, with a table with its end, whose data has room.
        get.is_some_and(|get| unsafe { get(self.0.context, table.as_mut_ptr()) == 1 })
    }

    /// The tag of what will be opened.
    pub(crate) fn expect(&mut self, tag: &[u8]) -> bool {
        self.set(Param::octets(c"tag", tag.as_ptr().cast_mut().cast(), tag.len()))
    }

    /// The length of tags, for the next key.
    pub(crate) fn tag_length(&mut self, bytes: usize) -> bool {
        self.set(Param::octets(c"tag", ptr::null_mut(), bytes))
    }

    pub(crate) fn nonce_length(&mut self, mut bytes: usize) -> bool {
        let data: *mut c_void = (&raw mut bytes).cast();
        let data_type = crate::abi::OSSL_PARAM_UNSIGNED_INTEGER as u32;
        self.set(Param { data_type, ..Param::octets(c"ivlen", data, size_of::<usize>()) })
    }

    fn set(&mut self, param: Param) -> bool {
        let table = [param, params::end()];
        let set = self.0.functions().set_ctx_params;
        // SAFETY: the host, with a table with its end.
        set.is_some_and(|set| unsafe { set(self.0.context, table.as_ptr()) == 1 })
    }
}

impl Drop for HostContext {
    fn drop(&mut self) {
        if let Some(freectx) = self.0.functions().freectx {
            // SAFETY: the host, with its own context, once.
            unsafe { freectx(self.0.context) };
        }
    }
}

/// What the core calls `cctx`.
struct CipherCtx {
    host: Host,
    /// Calls with other numbers of bytes go straight to the host.
    elsewhere: Sizes,
    /// Bytes that went by, as far as it matters: where in a block they end.
    fed: usize,
    /// The length of keys.
    key_len: usize,
    /// Every call is counted, or made to fail.
    watched: bool,
    wrapped: *const Wrapped,
    state: State,
}

impl CipherCtx {
    fn boxed(host: Host, wrapped: &Wrapped, state: State) -> *mut c_void {
        let watched = wrapped.watches();
        let elsewhere = if watched { Sizes::ALL } else { Sizes::NONE };
        let key_len = wrapped.algorithm().map_or(0, |algorithm| algorithm.info().key.max);
        Box::into_raw(Box::new(Self { host, elsewhere, fed: 0, key_len, watched, wrapped, state })).cast()
    }

    /// Where the next call goes at once.
    #[inline(always)]
    fn settle(&mut self, wrapped: &Wrapped) {
        self.elsewhere = if self.watched { Sizes::ALL } else { self.state.elsewhere(wrapped) };
    }

    /// # Safety
    ///
    /// The call: what `newctx` or `dupctx` gave out.
    unsafe fn of<'c>(context: *mut c_void) -> (&'c mut Self, &'c Wrapped) {
        // SAFETY: as the caller promises; the provider owns the second one, and outlives its contexts.
        unsafe {
            let this = &mut *context.cast::<Self>();
            (this, &*(*context.cast::<Self>()).wrapped)
        }
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let Some((wrapped, functions)) = (unsafe { functions::<CipherFns>(provider, PLACE) }) else {
            return ptr::null_mut();
        };
        let theirs = wrapped.default_ctx();
        let Some(newctx) = functions.newctx.filter(|_| !theirs.is_null()) else { return ptr::null_mut() };
        // SAFETY: the host, with its own context.
        let context = unsafe { newctx(theirs) };
        if context.is_null() {
            return context;
        }
        CipherCtx::boxed(Host { context, functions }, wrapped, State::new(wrapped))
    })
}

unsafe extern "C" fn dupctx(context: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let (this, _) = unsafe { CipherCtx::of(context) };
        let functions = this.host.functions;
        // SAFETY: the host, with its own context.
        let context =
            this.host.functions().dupctx.map_or(ptr::null_mut(), |dupctx| unsafe { dupctx(this.host.context) });
        if context.is_null() {
            return context;
        }
        let host = Host { context, functions };
        Box::into_raw(Box::new(CipherCtx { host, state: this.state.clone(), ..*this })).cast()
    })
}

unsafe extern "C" fn freectx(context: *mut c_void) {
    guard((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `newctx` or `dupctx`, and the core frees it once.
        let this = unsafe { Box::from_raw(context.cast::<CipherCtx>()) };
        if let Some(freectx) = this.host.functions().freectx {
            // SAFETY: the host, with its own context, once.
            unsafe { freectx(this.host.context) };
        }
    });
}

unsafe extern "C" fn encrypt_init(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    params: *const Param,
) -> c_int {
    // SAFETY: the call.
    unsafe { init(context, true, (key, key_len), (iv, iv_len), params) }
}

unsafe extern "C" fn decrypt_init(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    params: *const Param,
) -> c_int {
    // SAFETY: the call.
    unsafe { init(context, false, (key, key_len), (iv, iv_len), params) }
}

/// # Safety
///
/// The call.
unsafe fn init(
    context: *mut c_void,
    encrypt: bool,
    (key, key_len): (*const u8, usize),
    (iv, iv_len): (*const u8, usize),
    params: *const Param,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, wrapped) = unsafe { CipherCtx::of(context) };
        let functions = this.host.functions();
        let init = if encrypt { functions.encrypt_init } else { functions.decrypt_init };
        let Some(init) = init else { return 0 };
        if this.state.before_init(&this.host, !key.is_null(), !iv.is_null()) != 1 {
            return 0;
        }
        // SAFETY: the host, with what the call brought.
        let result = unsafe { init(this.host.context, key, key_len, iv, iv_len, params) };
        if result == 1 {
            // SAFETY: the call.
            let slice = |at: *const u8, length| (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at, length) });
            this.fed = 0;
            this.state.initialised(wrapped, encrypt, slice(key, key_len), slice(iv, iv_len));
            if !params.is_null() {
                // SAFETY: the call.
                this.state.told(&this.host, unsafe { Answers::new(params) });
            }
            this.settle(wrapped);
        } else {
            this.state.refused(!key.is_null());
            this.settle(wrapped);
        }
        result
    })
}

unsafe extern "C" fn update(
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
        if !(*this).elsewhere.has(length)
            && let Some(update) = (*(*this).host.functions).update
        {
            (*this).fed = (*this).fed.wrapping_add(length);
            return update((*this).host.context, output, written, room, input, length);
        }
        if let CipherCtx { watched: false, host, elsewhere, state: State::Aead(sealed), .. } = &mut *this
            && let Some(result) = sealed.quick(host, &mut Io::new(output, written, room, input, length))
        {
            *elsewhere = if sealed.is_hosts() { Sizes::NONE } else { Sizes::ALL };
            return result;
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
    // SAFETY: the call.
    unsafe { data(context, Way::Cipher, Io::new(output, written, room, input, length)) }
}

/// # Safety
///
/// The call.
#[inline(never)]
unsafe fn data(context: *mut c_void, way: Way, mut io: Io<'_>) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, wrapped) = unsafe { CipherCtx::of(context) };
        if wrapped.fails() {
            return io.refused();
        }
        let (length, fed) = (io.len(), this.fed);
        let result = this.state.data(wrapped, &this.host, way, &mut io, fed);
        this.fed = fed.wrapping_add(length);
        this.settle(wrapped);
        result
    })
}

unsafe extern "C" fn finish(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        if (*this).elsewhere == Sizes::NONE
            && let Some(finish) = (*(*this).host.functions).finish
        {
            return finish((*this).host.context, output, written, room);
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let ((this, wrapped), mut io) =
            unsafe { (CipherCtx::of(context), Io::new(output, written, room, ptr::null(), 0)) };
        if wrapped.fails() {
            return io.refused();
        }
        let result = this.state.finish(&this.host, &mut io);
        this.settle(wrapped);
        result
    })
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the call. Nothing here can panic.
    unsafe {
        // Asked at every initialisation by OpenSSL itself.
        let CipherCtx { key_len, state, .. } = &*context.cast::<CipherCtx>();
        if let Some(iv_len) = state.iv_len()
            && (Questions::new(params).only_number(c"ivlen", iv_len)
                || Questions::new(params).only_number(c"keylen", *key_len))
        {
            return 1;
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let ((this, wrapped), questions) = unsafe { (CipherCtx::of(context), Questions::new(params)) };
        let result = this.state.ask(&this.host, questions);
        this.settle(wrapped);
        result
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    let this = context.cast::<CipherCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        if let State::Aead(sealed) = &mut (*this).state
            && let Some(tag) = Answers::new(params).only_octets(c"tag")
            && let Some(set) = (*(*this).host.functions).set_ctx_params
        {
            let result = set((*this).host.context, params);
            if result == 1 {
                sealed.expect(tag);
            }
            return result;
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let ((this, wrapped), answers) = unsafe { (CipherCtx::of(context), Answers::new(params)) };
        let Some(set) = this.host.functions().set_ctx_params else { return 0 };
        // SAFETY: the host, with what the call brought.
        let result = unsafe { set(this.host.context, params) };
        if result != 1 {
            this.state.refused_params();
        } else if !params.is_null() {
            this.state.told(&this.host, answers);
            this.settle(wrapped);
        }
        result
    })
}

impl Family for CipherFns {
    const KIND: usize = 1;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Cipher(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }

    fn gettable_ctx_params(&self) -> Option<GettableCtx> {
        self.gettable_ctx_params
    }

    fn settable_ctx_params(&self) -> Option<GettableCtx> {
        self.settable_ctx_params
    }

    unsafe fn host_context(context: *mut c_void) -> *mut c_void {
        // SAFETY: as the caller promises.
        unsafe { (*context.cast::<CipherCtx>()).host.context }
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

macro_rules! at_places {
    ($($place:literal)*) => { [$(at::<$place>()),*] };
}

static AT: [AtPlace; CIPHERS.len()] = at_places!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25);

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_CIPHER_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_CIPHER_ENCRYPT_INIT => encrypt_init, CipherInit;
        OSSL_FUNC_CIPHER_DECRYPT_INIT => decrypt_init, CipherInit;
        OSSL_FUNC_CIPHER_UPDATE => update, CipherUpdate;
        OSSL_FUNC_CIPHER_FINAL => finish, Final;
        OSSL_FUNC_CIPHER_CIPHER => cipher, CipherUpdate;
        OSSL_FUNC_CIPHER_FREECTX => freectx, FreeCtx;
        OSSL_FUNC_CIPHER_DUPCTX => dupctx, NewCtx;
        OSSL_FUNC_CIPHER_GET_CTX_PARAMS => get_ctx_params, GetParams;
        OSSL_FUNC_CIPHER_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_CIPHER_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    super::provider::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_CIPHER_GET_PARAMS])
}
