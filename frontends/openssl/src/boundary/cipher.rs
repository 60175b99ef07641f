//! Ciphers: our entries, and the host's functions behind them.

use std::ffi::{CStr, c_int, c_void};
use std::{ptr, slice};

use super::core::{Table, entry};
use super::family::{
    self, Common, Context, Contexts, Family, dupctx, freectx, gettable_ctx_params, gettable_params, new_context,
    settable_ctx_params,
};
use super::jobs::{self, Place};
use super::params::{self, Answers, Questions};
use super::provider::{Functions, Wrapped, dispatch};
use super::{Io, guard, guard_with_room, pipeline, stack};
use gantry::Algorithm;
use gantry::driver::Buffers;
use zeroize::Zeroizing;

use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::chain::Chained;
use crate::choice::{Gate, Sizes};
use crate::cipher::{State, Way};
use crate::pipes::{Pipes, has_pipelines};
use crate::table::{CIPHERS, Mode};

/// The host's functions of one algorithm.
pub(crate) struct CipherFns {
    newctx: Option<NewCtx>,
    encrypt_init: Option<CipherInit>,
    decrypt_init: Option<CipherInit>,
    /// Every cipher has it; called so often that there is no other way.
    update: CipherUpdate,
    cipher: Option<CipherUpdate>,
    finish: Option<Final>,
    gettable_params: Option<Gettable>,
    common: Common,
}

impl CipherFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_CIPHER_NEWCTX, NewCtx),
            encrypt_init: entry!(table, OSSL_FUNC_CIPHER_ENCRYPT_INIT, CipherInit),
            decrypt_init: entry!(table, OSSL_FUNC_CIPHER_DECRYPT_INIT, CipherInit),
            update: entry!(table, OSSL_FUNC_CIPHER_UPDATE, CipherUpdate).unwrap_or(no_update),
            cipher: entry!(table, OSSL_FUNC_CIPHER_CIPHER, CipherUpdate),
            finish: entry!(table, OSSL_FUNC_CIPHER_FINAL, Final),
            gettable_params: entry!(table, OSSL_FUNC_CIPHER_GETTABLE_PARAMS, Gettable),
            common: Common {
                dupctx: entry!(table, OSSL_FUNC_CIPHER_DUPCTX, NewCtx),
                freectx: entry!(table, OSSL_FUNC_CIPHER_FREECTX, FreeCtx),
                get_ctx_params: entry!(table, OSSL_FUNC_CIPHER_GET_CTX_PARAMS, GetParams),
                set_ctx_params: entry!(table, OSSL_FUNC_CIPHER_SET_CTX_PARAMS, SetParams),
                gettable_ctx_params: entry!(table, OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, GettableCtx),
                settable_ctx_params: entry!(table, OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, GettableCtx),
            },
        }
    }

    fn init(&self, encrypt: bool) -> Option<CipherInit> {
        if encrypt { self.encrypt_init } else { self.decrypt_init }
    }
}

/// Of a host whose cipher takes no data.
unsafe extern "C" fn no_update(_: *mut c_void, _: *mut u8, _: *mut usize, _: usize, _: *const u8, _: usize) -> c_int {
    0
}

/// A context of the host, and its functions.
pub(crate) type Host = family::Host<CipherFns>;

impl Host {
    /// A call with data, as it came.
    pub(crate) fn data(&self, way: Way, io: &mut Io<'_>) -> c_int {
        let function = match way {
            Way::Update => Some(self.functions().update),
            Way::Cipher => self.functions().cipher,
        };
        let Io { output, written, room, input, length, .. } = *io;
        // SAFETY: the host, with what the call brought.
        function.map_or(0, |function| unsafe { function(self.context(), output, written, room, input, length) })
    }

    /// The end of a message.
    pub(crate) fn finish(&self, io: &mut Io<'_>) -> c_int {
        let Io { output, written, room, .. } = *io;
        // SAFETY: the host, with what the call brought.
        self.functions().finish.map_or(0, |finish| unsafe { finish(self.context(), output, written, room) })
    }

    /// Associated data of ours. The host wants room for as much, although it writes nothing.
    pub(crate) fn associated(&self, data: &[u8]) -> c_int {
        let mut written = 0;
        let (at, length) = (data.as_ptr(), data.len());
        // SAFETY: the host, with a slice to read.
        unsafe { (self.functions().update)(self.context(), ptr::null_mut(), &raw mut written, length, at, length) }
    }

    /// GCM: a device has had the record whose header the host was told. A record that is too short is none, and done with it.
    pub(crate) fn end_record(&self) {
        let (mut nothing, mut written) = ([0_u8; 1], 0);
        let at = nothing.as_mut_ptr();
        if let Some(cipher) = self.functions().cipher {
            // SAFETY: the host, with a place for no bytes.
            unsafe { cipher(self.context(), at, &raw mut written, 0, at, 0) };
        }
    }

    /// Another nonce, under the same key.
    pub(crate) fn restart(&self, encrypt: bool, iv: &[u8]) -> c_int {
        let init = self.functions().init(encrypt);
        let (at, length) = (iv.as_ptr(), iv.len());
        // SAFETY: the host, with a slice to read and no parameters.
        init.map_or(0, |init| unsafe { init(self.context(), ptr::null(), 0, at, length, ptr::null()) })
    }

    /// A context that was let go is made anew, with what it knew. Whether it is there.
    pub(crate) fn recall(&self, known: &Known<'_>) -> bool {
        // SAFETY: the host answers with a new context; ours: the provider owns the functions, and outlives its contexts.
        unsafe { self.renew(begin) };
        let init = self.functions().init(known.encrypt);
        let (key, iv) = (known.key, known.iv);
        // SAFETY: the host, with slices to read and no parameters.
        let good = init.is_some_and(|init| unsafe {
            !self.is_away() && init(self.context(), key.as_ptr(), key.len(), iv.as_ptr(), iv.len(), ptr::null()) == 1
        });
        let tag = [Param::octets(c"tag", known.tag.as_ptr().cast_mut().cast(), known.tag.len()), params::end()];
        // SAFETY: a table with its end.
        let good = good && (known.tag.is_empty() || unsafe { self.set_params(tag.as_ptr()) } == 1);
        if !good {
            self.let_go();
        }
        good
    }

    /// A direction alone: key, nonce and lengths stay.
    fn turn(&self, encrypt: bool) -> bool {
        let init = self.functions().init(encrypt);
        // SAFETY: the host, with nothing else.
        init.is_some_and(|init| unsafe { init(self.context(), ptr::null(), 0, ptr::null(), 0, ptr::null()) == 1 })
    }

    /// CCM: so much data will come.
    pub(crate) fn announce(&self, bytes: usize) -> c_int {
        let mut written = 0;
        // SAFETY: the host: without input there is only a number.
        unsafe {
            (self.functions().update)(self.context(), ptr::null_mut(), &raw mut written, bytes, ptr::null(), bytes)
        }
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
        unsafe { (self.functions().update)(self.context(), at, &raw mut written, 0, at, 0) == 1 }
    }

    /// CCM: the same, and the host stands where a message leaves it that was opened. One that was sealed is over in the same way
    /// once its tag, of `tag_len` bytes, was asked for.
    pub(crate) fn opened_nothing(&self, tag_len: usize) -> bool {
        let mut tag = Zeroizing::new([0; 16]);
        let mut table = [Param::octets(c"tag", tag.as_mut_ptr().cast(), tag_len.min(tag.len())), params::end()];
        self.turn(true)
            && self.nothing(false)
            // SAFETY: a table with its end, whose data has room.
            && unsafe { self.get_params(table.as_mut_ptr()) == 1 }
            && self.turn(false)
    }

    /// What it says of itself.
    pub(crate) fn ask(&self, mut questions: Questions<'_>) -> c_int {
        // SAFETY: what the call brought.
        unsafe { self.get_params(questions.as_mut_ptr()) }
    }

    /// A parameter of `N` bytes.
    pub(crate) fn octets<const N: usize>(&self, key: &CStr) -> Option<[u8; N]> {
        // SAFETY: a table with its end.
        params::octets(key, |table| unsafe { self.get_params(table) })
    }

    /// Parameters that are numbers.
    pub(crate) fn numbers<const N: usize>(&self, keys: [&CStr; N]) -> Option<[usize; N]> {
        // SAFETY: a table with its end.
        params::numbers(keys, |table| unsafe { self.get_params(table) })
    }

    /// A parameter that is a number.
    pub(crate) fn number(&self, key: &CStr) -> Option<usize> {
        // SAFETY: a table with its end.
        params::number(key, |table| unsafe { self.get_params(table) })
    }
}

/// What a context of the host knows, if it was told nothing else.
pub(crate) struct Known<'k> {
    pub(crate) encrypt: bool,
    pub(crate) key: &'k [u8],
    pub(crate) iv: &'k [u8],
    /// To open with, or empty.
    pub(crate) tag: &'k [u8],
}

/// One algorithm of the host, for contexts that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostAlgorithm {
    theirs: *mut c_void,
    wrapped: *const Wrapped,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostAlgorithm {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostAlgorithm {}

impl HostAlgorithm {
    pub(super) fn new(wrapped: &Wrapped) -> Option<Self> {
        let theirs = wrapped.default_ctx();
        CipherFns::of(&wrapped.functions).filter(|_| !theirs.is_null())?;
        Some(Self { theirs, wrapped })
    }

    fn wrapped(&self) -> &Wrapped {
        // SAFETY: ours: the provider owns it, and outlives its framework.
        unsafe { &*self.wrapped }
    }

    pub(crate) fn context(&self) -> Option<HostContext> {
        let functions = CipherFns::of(&self.wrapped().functions)?;
        // SAFETY: the host made the context for us; ours: the provider owns the functions, and outlives its framework.
        unsafe { Host::new(self.theirs, functions, begin) }.map(|host| HostContext { host, nonce_len: None })
    }

    /// Runs what no program asked for, and leaves no errors of it.
    pub(crate) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        self.wrapped().quietly(body)
    }
}

/// A context of the host that is ours alone.
pub(crate) struct HostContext {
    host: Host,
    /// The length of nonces, once it was set.
    nonce_len: Option<usize>,
}

impl HostContext {
    pub(crate) fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> bool {
        let functions = self.host.functions();
        let init = functions.init(encrypt);
        let parts = |slice: Option<&[u8]>| slice.map_or((ptr::null(), 0), |slice| (slice.as_ptr(), slice.len()));
        let ((key, key_len), (iv, iv_len)) = (parts(key), parts(iv));
        // SAFETY: the host, with slices to read and no parameters.
        init.is_some_and(|init| unsafe { init(self.host.context(), key, key_len, iv, iv_len, ptr::null()) == 1 })
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
        (length == 0 && way == Way::Cipher) || self.host.data(way, &mut io) == 1
    }

    pub(crate) fn associated(&mut self, aad: &[u8]) -> bool {
        aad.is_empty() || self.host.associated(aad) == 1
    }

    pub(crate) fn end(&mut self) -> bool {
        let (mut block, mut written) = ([0; 16], 0);
        // SAFETY: a place of its own, for this call.
        let mut io = unsafe { Io::new(block.as_mut_ptr(), &raw mut written, block.len(), ptr::null(), 0) };
        self.host.finish(&mut io) == 1
    }

    /// CCM: so much data will come.
    pub(crate) fn announce(&mut self, bytes: usize) -> bool {
        self.host.announce(bytes) == 1
    }

    /// The tag of what was sealed.
    pub(crate) fn tag(&mut self, tag: &mut [u8]) -> bool {
        let mut table = [Param::octets(c"tag", tag.as_mut_ptr().cast(), tag.len()), params::end()];
        // SAFETY: a table with its end, whose data has room.
        unsafe { self.host.get_params(table.as_mut_ptr()) == 1 }
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
        if self.nonce_len == Some(bytes) {
            return true;
        }
        self.nonce_len = Some(bytes);
        let data: *mut c_void = (&raw mut bytes).cast();
        let data_type = crate::abi::OSSL_PARAM_UNSIGNED_INTEGER as u32;
        self.set(Param { data_type, ..Param::octets(c"ivlen", data, size_of::<usize>()) })
    }

    fn set(&mut self, param: Param) -> bool {
        let table = [param, params::end()];
        // SAFETY: a table with its end.
        unsafe { self.host.set_params(table.as_ptr()) == 1 }
    }
}

/// Asks the host for a context, with its own.
fn begin(functions: &CipherFns, theirs: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the host, with its own context.
    functions.newctx.map(|newctx| unsafe { newctx(theirs) })
}

/// What the core calls `cctx`.
pub(super) type CipherCtx = Context<CipherFns>;

/// What is known of it.
#[derive(Clone)]
pub(crate) struct Calls {
    /// Calls with other numbers of bytes go straight to the host.
    elsewhere: Gate,
    /// Those that would go there, too, if it were not for jobs.
    only_in_jobs: Sizes,
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
    /// Where its data wait for those of other jobs.
    pub(super) place: Place,
}

impl Calls {
    #[inline(always)]
    fn new(wrapped: &Wrapped) -> Self {
        let watched = wrapped.watches();
        let elsewhere = Gate::from(if watched { Sizes::ALL } else { Sizes::NONE });
        let info = wrapped.algorithm().map(Algorithm::info);
        let (key_len, iv_len) = info.map_or((0, 0), |info| (info.key.max, info.iv.max));
        let (message, pipes, place) = (State::new(wrapped), Pipes::default(), Place::default());
        let only_in_jobs = Sizes::NONE;
        Self { elsewhere, only_in_jobs, hosts: !watched, fed: 0, key_len, iv_len, watched, message, pipes, place }
    }

    /// Where the next call goes at once.
    #[inline(always)]
    fn settle(&mut self, wrapped: &Wrapped) {
        if !self.watched {
            let (led, meets) = (self.message.elsewhere(wrapped), self.message.meets(wrapped));
            (self.elsewhere, self.only_in_jobs) = (led.and(meets).into(), meets.but(led));
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
            && family::is_empty(params)
            && (*this).state.message.takes_nonce(ENCRYPT, iv_len)
            && (key.is_null() || (*this).state.message.has_key(slice::from_raw_parts(key, key_len)))
            && let Some(init) = (*(*this).host.functions).init(ENCRYPT)
        {
            // A host that was let go hears of the last one when it is needed again.
            (*this).count_straight();
            (*this).straight.back = !ENCRYPT;
            let away = (*this).host.is_away();
            let result = if away { 1 } else { init((*this).host.context(), ptr::null(), 0, iv, iv_len, params) };
            if result == 1 {
                (*this).state.fed = 0;
                (*this).state.message.restarted(slice::from_raw_parts(iv, iv_len));
                if away && (*this).state.message.is_hosts() {
                    return guard(0, || c_int::from(CipherFns::recall(&(*this).host, &mut (*this).state)));
                }
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
        this.state.place.withdraw();
        if !CipherFns::recall(&this.host, &mut this.state) {
            return 0;
        }
        if !key.is_null() {
            this.state.pipes.close();
        }
        // SAFETY: the call.
        let has_params = unsafe { !family::is_empty(params) };
        if this.state.message.before_init(&this.host, !key.is_null(), !iv.is_null(), has_params) != 1 {
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
                State::Ccm(ccm) => ccm.quick(host, io),
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
    // SAFETY: the call. Where there is no guard, nothing can panic.
    unsafe {
        if !stack::has_room() {
            return jobs::data(context, way, io);
        }
        let this = &mut *context.cast::<CipherCtx>();
        if this.state.only_in_jobs.has(io.len()) {
            this.state.fed = this.state.fed.wrapping_add(io.len());
            this.goes_straight(io.len());
            return this.host.data(way, &mut io);
        }
        guard(0, || work(context, way, io))
    }
}

/// # Safety
///
/// The call.
pub(super) unsafe fn work(context: *mut c_void, way: Way, mut io: Io<'_>) -> c_int {
    // SAFETY: the call.
    let (this, _, wrapped) = unsafe { CipherCtx::of(context) };
    if wrapped.fails() {
        return io.refused();
    }
    let (length, fed) = (io.len(), this.state.fed);
    let result = this.state.message.data(wrapped, &this.host, way, &mut io, fed);
    this.state.moved_on(wrapped, length);
    result
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
                (*this).state.elsewhere = Gate::passing(Sizes::NONE);
            }
            return result;
        }
    }
    guard_with_room(0, || {
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
        if let State::Ccm(ccm) = message
            && !ccm.has_sealed()
            && questions.is_only(c"tag")
        {
            let result = host.get_params(params);
            if result == 1 {
                ccm.over();
            }
            return result;
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let ((this, _, wrapped), questions) = unsafe { (CipherCtx::of(context), Questions::new(params)) };
        if !CipherFns::recall(&this.host, &mut this.state) {
            return 0;
        }
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
            && (!host.is_away() || sealed.can_expect(tag))
        {
            let result = if host.is_away() { 1 } else { host.set_params(params) };
            if result == 1 {
                sealed.expect(tag);
            }
            return result;
        }
        if let State::Ccm(ccm) = message
            && let Some(tag) = Answers::new(params).only_octets(c"tag")
        {
            ccm.before_params(host, false);
            let result = host.set_params(params);
            if result == 1 {
                ccm.expect(tag);
            } else {
                ccm.refused(false);
            }
            return result;
        }
        // A length that a host which was let go has already.
        if host.is_away()
            && Answers::new(params).is_only(c"ivlen")
            && Answers::new(params).number(c"ivlen") == message.iv_len(0)
        {
            return 1;
        }
        // OpenSSL 3.0 says it again with each nonce. Most modes do not pad.
        if pipes.is_empty() && Answers::new(params).is_only(c"padding") {
            let result = if host.is_away() { 1 } else { host.set_params(params) };
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
        if !CipherFns::recall(&this.host, &mut this.state) {
            return 0;
        }
        this.state.message.before_params(&this.host);
        // SAFETY: the call.
        let result = unsafe { this.host.set_params(params) };
        if result != 1 {
            this.state.message.refused_params();
        } else if !params.is_null() {
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
    const KIND: usize = 1;

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

    fn recall(host: &Host, state: &mut Calls) -> bool {
        !host.is_away() || state.message.recall(host)
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
    let mut table = super::provider::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_CIPHER_GET_PARAMS]);
    if has_pipelines(&CIPHERS[place], version) {
        // The host has no such functions: all that these need of it is in the others.
        let end = table.len() - 1;
        table.splice(end..end, pipeline::entries());
    }
    table
}
