//! Digests: our entries, and the host's functions behind them.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use gantry::SessionParams;

use super::core::{Table, entry};
use super::family::{Family, functions, gettable_ctx_params, gettable_params, settable_ctx_params};
use super::guard;
use super::provider::{Functions, Wrapped, dispatch};
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::choice::Sizes;
use crate::digest::{Digesting, Done};
use crate::table::DIGESTS;

/// The host's functions of one algorithm.
pub(in crate::boundary) struct DigestFns {
    newctx: Option<NewCtx>,
    init: Option<SetParams>,
    update: Option<Update>,
    finish: Option<Final>,
    digest: Option<DigestDigest>,
    freectx: Option<FreeCtx>,
    dupctx: Option<NewCtx>,
    copyctx: Option<CopyCtx>,
    get_ctx_params: Option<GetParams>,
    set_ctx_params: Option<SetParams>,
    gettable_params: Option<Gettable>,
    gettable_ctx_params: Option<GettableCtx>,
    settable_ctx_params: Option<GettableCtx>,
    squeeze: Option<Final>,
    serialize: Option<Serialize>,
    deserialize: Option<Update>,
}

impl DigestFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_DIGEST_NEWCTX, NewCtx),
            init: entry!(table, OSSL_FUNC_DIGEST_INIT, SetParams),
            update: entry!(table, OSSL_FUNC_DIGEST_UPDATE, Update),
            finish: entry!(table, OSSL_FUNC_DIGEST_FINAL, Final),
            digest: entry!(table, OSSL_FUNC_DIGEST_DIGEST, DigestDigest),
            freectx: entry!(table, OSSL_FUNC_DIGEST_FREECTX, FreeCtx),
            dupctx: entry!(table, OSSL_FUNC_DIGEST_DUPCTX, NewCtx),
            copyctx: entry!(table, OSSL_FUNC_DIGEST_COPYCTX, CopyCtx),
            get_ctx_params: entry!(table, OSSL_FUNC_DIGEST_GET_CTX_PARAMS, GetParams),
            set_ctx_params: entry!(table, OSSL_FUNC_DIGEST_SET_CTX_PARAMS, SetParams),
            gettable_params: entry!(table, OSSL_FUNC_DIGEST_GETTABLE_PARAMS, Gettable),
            gettable_ctx_params: entry!(table, OSSL_FUNC_DIGEST_GETTABLE_CTX_PARAMS, GettableCtx),
            settable_ctx_params: entry!(table, OSSL_FUNC_DIGEST_SETTABLE_CTX_PARAMS, GettableCtx),
            squeeze: entry!(table, OSSL_FUNC_DIGEST_SQUEEZE, Final),
            serialize: entry!(table, OSSL_FUNC_DIGEST_SERIALIZE, Serialize),
            deserialize: entry!(table, OSSL_FUNC_DIGEST_DESERIALIZE, Update),
        }
    }
}

/// What the core calls `dctx`.
struct DigestCtx {
    /// The host's own.
    host: *mut c_void,
    functions: *const DigestFns,
    /// Pieces of other numbers of bytes go straight to the host.
    elsewhere: Sizes,
    /// Whether the host has been given nothing of this message.
    fresh: bool,
    wrapped: *const Wrapped,
    state: Digesting,
}

impl DigestCtx {
    /// # Safety
    ///
    /// The call: what `newctx` or `dupctx` gave out.
    unsafe fn of<'c>(context: *mut c_void) -> (&'c mut Self, &'c DigestFns, &'c Wrapped) {
        // SAFETY: as the caller promises; the provider owns the others, and outlives its contexts.
        unsafe {
            let this = context.cast::<Self>();
            let (functions, wrapped) = (&*(*this).functions, &*(*this).wrapped);
            (&mut *this, functions, wrapped)
        }
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let Some((wrapped, functions)) = (unsafe { functions::<DigestFns>(provider, PLACE) }) else {
            return ptr::null_mut();
        };
        let theirs = wrapped.default_ctx();
        let Some(newctx) = functions.newctx.filter(|_| !theirs.is_null()) else { return ptr::null_mut() };
        // SAFETY: the host, with its own context.
        let host = unsafe { newctx(theirs) };
        if host.is_null() {
            return host;
        }
        let state = Digesting::default();
        let elsewhere = state.elsewhere(wrapped, wrapped.algorithm());
        Box::into_raw(Box::new(DigestCtx { host, functions, elsewhere, fresh: true, wrapped, state })).cast()
    })
}

unsafe extern "C" fn dupctx(context: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with its own context.
        let host = functions.dupctx.map_or(ptr::null_mut(), |dupctx| unsafe { dupctx(this.host) });
        if host.is_null() {
            return host;
        }
        let (elsewhere, fresh, state) = (this.elsewhere, this.fresh, this.state.clone());
        Box::into_raw(Box::new(DigestCtx { host, functions, elsewhere, fresh, wrapped, state })).cast()
    })
}

unsafe extern "C" fn copyctx(to: *mut c_void, from: *mut c_void) {
    guard((), || {
        // SAFETY: the call: both are of the same algorithm.
        let ((to, functions, _), (from, ..)) = unsafe { (DigestCtx::of(to), DigestCtx::of(from)) };
        if let Some(copyctx) = functions.copyctx {
            // SAFETY: the host, with its own contexts.
            unsafe { copyctx(to.host, from.host) };
            (to.elsewhere, to.fresh, to.state) = (from.elsewhere, from.fresh, from.state.clone());
        }
    });
}

unsafe extern "C" fn freectx(context: *mut c_void) {
    guard((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `newctx` or `dupctx`, and the core frees it once; the host, with its own context, once.
        unsafe {
            let this = Box::from_raw(context.cast::<DigestCtx>());
            if let Some(freectx) = (*this.functions).freectx {
                freectx(this.host);
            }
        }
    });
}

unsafe extern "C" fn init(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let result = functions.init.map_or(0, |init| unsafe { init(this.host, params) });
        if result == 1 {
            this.fresh = true;
            this.state.begin();
            this.elsewhere = this.state.elsewhere(wrapped, wrapped.algorithm());
        }
        result
    })
}

unsafe extern "C" fn update(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    let this = context.cast::<DigestCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        if !(*this).elsewhere.has(length)
            && let Some(update) = (*(*this).functions).update
        {
            (*this).fresh &= length == 0;
            return update((*this).host, input, length);
        }
        piece(context, input, length)
    }
}

/// # Safety
///
/// The call.
#[inline(never)]
unsafe fn piece(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        if wrapped.fails() {
            return 0;
        }
        let slice = if length == 0 || input.is_null() {
            &[]
        } else {
            // SAFETY: the call.
            unsafe { slice::from_raw_parts(input, length) }
        };
        let Some(algorithm) = wrapped.algorithm() else { return 0 };
        let params = || SessionParams::new(algorithm, &[]);
        let result = match this.state.update(wrapped, algorithm, params, slice, this.fresh) {
            Done::Good => 1,
            Done::Bad => 0,
            Done::Host => {
                // SAFETY: the host, with what the call brought.
                let result = functions.update.map_or(0, |update| unsafe { update(this.host, input, length) });
                this.fresh &= length == 0;
                result
            }
        };
        this.elsewhere = this.state.elsewhere(wrapped, wrapped.algorithm());
        result
    })
}

unsafe extern "C" fn finish(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        if wrapped.fails() {
            return 0;
        }
        let size = wrapped.algorithm().map_or(0, |algorithm| algorithm.info().tag.max);
        if size <= room && !output.is_null() {
            // SAFETY: the call: there is room for as many bytes.
            let place = unsafe { slice::from_raw_parts_mut(output, size) };
            match this.state.finish(wrapped, &[], place) {
                Done::Good => {
                    // SAFETY: the call.
                    unsafe { *written = size };
                    return 1;
                }
                Done::Bad => return 0,
                Done::Host => {}
            }
        }
        // SAFETY: the host, with what the call brought.
        functions.finish.map_or(0, |finish| unsafe { finish(this.host, output, written, room) })
    })
}

unsafe extern "C" fn squeeze(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let host = || functions.squeeze.map_or(0, |squeeze| unsafe { squeeze(this.host, output, written, room) });
        if wrapped.fails() || !this.state.leave() { 0 } else { host() }
    })
}

/// A message in one call, without a context.
unsafe extern "C" fn digest<const PLACE: usize>(
    provider: *mut c_void,
    input: *const u8,
    length: usize,
    output: *mut u8,
    written: *mut usize,
    room: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let Some((wrapped, functions)) = (unsafe { functions::<DigestFns>(provider, PLACE) }) else { return 0 };
        let Some(digest) = functions.digest.filter(|_| !wrapped.fails()) else { return 0 };
        // SAFETY: the host, with its own context and what the call brought.
        unsafe { digest(wrapped.default_ctx(), input, length, output, written, room) }
    })
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        functions.get_ctx_params.map_or(0, |get| unsafe { get(this.host, params) })
    })
}

/// What can be set (how SSL 3 ends a message, how long an output is) only the host understands.
unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        if !this.state.leave() {
            return 0;
        }
        this.elsewhere = this.state.elsewhere(wrapped, wrapped.algorithm());
        // SAFETY: the host, with what the call brought.
        functions.set_ctx_params.map_or(0, |set| unsafe { set(this.host, params) })
    })
}

unsafe extern "C" fn serialize(context: *mut c_void, output: *mut u8, written: *mut usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let host = || functions.serialize.map_or(0, |serialize| unsafe { serialize(this.host, output, written) });
        // The state of a message on a device has no form that the host could read.
        if this.state.is_hosts() { host() } else { 0 }
    })
}

unsafe extern "C" fn deserialize(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let result = functions.deserialize.map_or(0, |deserialize| unsafe { deserialize(this.host, input, length) });
        if result == 1 {
            this.state = Digesting::default();
            this.elsewhere = this.state.elsewhere(wrapped, wrapped.algorithm());
        }
        result
    })
}

impl Family for DigestFns {
    const KIND: usize = 0;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Digest(functions) = functions { Some(functions) } else { None }
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
        unsafe { (*context.cast::<DigestCtx>()).host }
    }
}

/// Functions that are told only their place in our table.
struct AtPlace {
    newctx: NewCtx,
    digest: DigestDigest,
    gettable_params: Gettable,
    gettable_ctx_params: GettableCtx,
    settable_ctx_params: GettableCtx,
}

const fn at<const PLACE: usize>() -> AtPlace {
    AtPlace {
        newctx: newctx::<PLACE>,
        digest: digest::<PLACE>,
        gettable_params: gettable_params::<DigestFns, PLACE>,
        gettable_ctx_params: gettable_ctx_params::<DigestFns, PLACE>,
        settable_ctx_params: settable_ctx_params::<DigestFns, PLACE>,
    }
}

macro_rules! at_places {
    ($($place:literal)*) => { [$(at::<$place>()),*] };
}

static AT: [AtPlace; DIGESTS.len()] = at_places!(0 1 2 3 4 5 6 7 8 9 10 11);

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let at = &AT[place];
    let ours = dispatch! {
        OSSL_FUNC_DIGEST_NEWCTX => at.newctx, NewCtx;
        OSSL_FUNC_DIGEST_INIT => init, SetParams;
        OSSL_FUNC_DIGEST_UPDATE => update, Update;
        OSSL_FUNC_DIGEST_FINAL => finish, Final;
        OSSL_FUNC_DIGEST_DIGEST => at.digest, DigestDigest;
        OSSL_FUNC_DIGEST_FREECTX => freectx, FreeCtx;
        OSSL_FUNC_DIGEST_DUPCTX => dupctx, NewCtx;
        OSSL_FUNC_DIGEST_COPYCTX => copyctx, CopyCtx;
        OSSL_FUNC_DIGEST_GET_CTX_PARAMS => get_ctx_params, GetParams;
        OSSL_FUNC_DIGEST_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_DIGEST_GETTABLE_PARAMS => at.gettable_params, Gettable;
        OSSL_FUNC_DIGEST_GETTABLE_CTX_PARAMS => at.gettable_ctx_params, GettableCtx;
        OSSL_FUNC_DIGEST_SETTABLE_CTX_PARAMS => at.settable_ctx_params, GettableCtx;
        OSSL_FUNC_DIGEST_SQUEEZE => squeeze, Final;
        OSSL_FUNC_DIGEST_SERIALIZE => serialize, Serialize;
        OSSL_FUNC_DIGEST_DESERIALIZE => deserialize, Update;
    };
    super::provider::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_DIGEST_GET_PARAMS])
}
