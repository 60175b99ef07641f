//! Key exchange: our entries, and the host's functions behind them.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use gantry::Outcome;
use gantry::driver::Operands;

use super::core::{Table, entry};
use super::family::{Family, functions, gettable_ctx_params, settable_ctx_params};
use super::guard;
use super::keys::{HostKey, KeyData};
use super::provider::{Functions, Wrapped, dispatch};
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::pair;
use crate::table::CURVES;

/// The host's functions of one algorithm.
pub(in crate::boundary) struct ExchangeFns {
    newctx: Option<NewCtx>,
    dupctx: Option<NewCtx>,
    freectx: Option<FreeCtx>,
    init: Option<KeyedInit>,
    set_peer: Option<ExchangeSetPeer>,
    derive: Option<Final>,
    get_ctx_params: Option<GetParams>,
    set_ctx_params: Option<SetParams>,
    gettable_ctx_params: Option<GettableCtx>,
    settable_ctx_params: Option<GettableCtx>,
}

impl ExchangeFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_KEYEXCH_NEWCTX, NewCtx),
            dupctx: entry!(table, OSSL_FUNC_KEYEXCH_DUPCTX, NewCtx),
            freectx: entry!(table, OSSL_FUNC_KEYEXCH_FREECTX, FreeCtx),
            init: entry!(table, OSSL_FUNC_KEYEXCH_INIT, KeyedInit),
            set_peer: entry!(table, OSSL_FUNC_KEYEXCH_SET_PEER, ExchangeSetPeer),
            derive: entry!(table, OSSL_FUNC_KEYEXCH_DERIVE, Final),
            get_ctx_params: entry!(table, OSSL_FUNC_KEYEXCH_GET_CTX_PARAMS, GetParams),
            set_ctx_params: entry!(table, OSSL_FUNC_KEYEXCH_SET_CTX_PARAMS, SetParams),
            gettable_ctx_params: entry!(table, OSSL_FUNC_KEYEXCH_GETTABLE_CTX_PARAMS, GettableCtx),
            settable_ctx_params: entry!(table, OSSL_FUNC_KEYEXCH_SETTABLE_CTX_PARAMS, GettableCtx),
        }
    }
}

/// What the core calls `exchctx`.
struct ExchangeCtx {
    /// The host's own.
    host: *mut c_void,
    functions: *const ExchangeFns,
    wrapped: *const Wrapped,
    /// `None` where something was said that only the host understands.
    key: Option<Arc<KeyData>>,
    /// The peer's public key.
    peer: Option<[u8; pair::SIZE]>,
}

impl ExchangeCtx {
    /// # Safety
    ///
    /// The call: what `newctx` or `dupctx` gave out.
    unsafe fn of<'c>(context: *mut c_void) -> (&'c mut Self, &'c ExchangeFns, &'c Wrapped) {
        // SAFETY: as the caller promises; the provider owns the others, and outlives its contexts.
        unsafe {
            let this = context.cast::<Self>();
            let (functions, wrapped) = (&*(*this).functions, &*(*this).wrapped);
            (&mut *this, functions, wrapped)
        }
    }

    /// Derives on another device, if it is to be there.
    fn elsewhere(&self, wrapped: &Wrapped, output: &mut [u8]) -> Option<Outcome> {
        let (key, peer) = (self.key.as_ref()?, self.peer.as_ref()?);
        key.pair().run(wrapped, key.raw()?, Operands::Derive { input: peer, output })
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let Some((wrapped, functions)) = (unsafe { functions::<ExchangeFns>(provider, PLACE) }) else {
            return ptr::null_mut();
        };
        let theirs = wrapped.default_ctx();
        let Some(newctx) = functions.newctx.filter(|_| !theirs.is_null()) else { return ptr::null_mut() };
        // SAFETY: the host, with its own context.
        let host = unsafe { newctx(theirs) };
        if host.is_null() {
            return host;
        }
        Box::into_raw(Box::new(ExchangeCtx { host, functions, wrapped, key: None, peer: None })).cast()
    })
}

unsafe extern "C" fn dupctx(context: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { ExchangeCtx::of(context) };
        // SAFETY: the host, with its own context.
        let host = functions.dupctx.map_or(ptr::null_mut(), |dupctx| unsafe { dupctx(this.host) });
        if host.is_null() {
            return host;
        }
        Box::into_raw(Box::new(ExchangeCtx { host, key: this.key.clone(), ..*this })).cast()
    })
}

unsafe extern "C" fn freectx(context: *mut c_void) {
    guard((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `newctx` or `dupctx`, and the core frees it once; the host, with its own context, once.
        unsafe {
            let this = Box::from_raw(context.cast::<ExchangeCtx>());
            if let Some(freectx) = (*this.functions).freectx {
                freectx(this.host);
            }
        }
    });
}

unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::of(context), KeyData::hold(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        // SAFETY: the host, with its own key and what the call brought.
        let result = functions.init.map_or(0, |init| unsafe { init(this.host, host, params) });
        // SAFETY: the call: null, or a table with its end.
        let plain = params.is_null() || unsafe { (*params).key.is_null() };
        this.key = key.filter(|_| plain && result == 1);
        this.peer = None;
        result
    })
}

unsafe extern "C" fn set_peer(context: *mut c_void, key: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::of(context), KeyData::hold(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        // SAFETY: the host, with its own key.
        let result = functions.set_peer.map_or(0, |set_peer| unsafe { set_peer(this.host, host) });
        let peer = key.filter(|_| result == 1);
        this.peer = peer.and_then(|peer| peer.raw()?.public().copied());
        result
    })
}

unsafe extern "C" fn derive(context: *mut c_void, secret: *mut u8, written: *mut usize, room: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { ExchangeCtx::of(context) };
        // Without a place for the secret this only asks for its length.
        if !secret.is_null() {
            if wrapped.fails() {
                return 0;
            }
            if room >= pair::SIZE {
                // SAFETY: the call: there is room for as many bytes.
                let output = unsafe { slice::from_raw_parts_mut(secret, pair::SIZE) };
                // A peer's key that is none is refused by the host, with its error.
                if this.elsewhere(wrapped, output) == Some(Outcome::Done) {
                    // SAFETY: the call.
                    unsafe { *written = pair::SIZE };
                    return 1;
                }
            }
        }
        // SAFETY: the host, with what the call brought.
        functions.derive.map_or(0, |derive| unsafe { derive(this.host, secret, written, room) })
    })
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { ExchangeCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        functions.get_ctx_params.map_or(0, |get| unsafe { get(this.host, params) })
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { ExchangeCtx::of(context) };
        this.key = None;
        // SAFETY: the host, with what the call brought.
        functions.set_ctx_params.map_or(0, |set| unsafe { set(this.host, params) })
    })
}

/// The host's key exchange of one algorithm, for keys that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostExchange {
    theirs: *const Wrapped,
    keys: *const Wrapped,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostExchange {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostExchange {}

impl HostExchange {
    pub(crate) fn new(theirs: &Wrapped) -> Option<Self> {
        Some(Self { theirs, keys: theirs.keys()? })
    }

    /// A private key, or the public one of a peer.
    pub(crate) fn key(&self, raw: &[u8], is_private: bool) -> Option<HostKey> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        HostKey::new(unsafe { &*self.keys }, raw, is_private)
    }

    pub(crate) fn derive(&self, key: &HostKey, peer: &HostKey, output: &mut [u8]) -> bool {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        let wrapped = unsafe { &*self.theirs };
        let mut written = 0;
        let mut run = || {
            let functions = ExchangeFns::of(&wrapped.functions)?;
            let (newctx, freectx, init) = (functions.newctx?, functions.freectx?, functions.init?);
            let (set_peer, derive, theirs) = (functions.set_peer?, functions.derive?, wrapped.default_ctx());
            if theirs.is_null() {
                return None;
            }
            // SAFETY: the host, with its own contexts and keys, and room for the secret; the context is freed once.
            unsafe {
                let context = newctx(theirs);
                if context.is_null() {
                    return None;
                }
                let good = init(context, key.as_ptr(), ptr::null()) == 1
                    && set_peer(context, peer.as_ptr()) == 1
                    && derive(context, output.as_mut_ptr(), &raw mut written, output.len()) == 1;
                freectx(context);
                Some(good)
            }
        };
        run() == Some(true) && written == output.len()
    }
}

impl Family for ExchangeFns {
    const KIND: usize = 4;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Exchange(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        None
    }

    fn gettable_ctx_params(&self) -> Option<GettableCtx> {
        self.gettable_ctx_params
    }

    fn settable_ctx_params(&self) -> Option<GettableCtx> {
        self.settable_ctx_params
    }

    unsafe fn host_context(context: *mut c_void) -> *mut c_void {
        // SAFETY: as the caller promises.
        unsafe { (*context.cast::<ExchangeCtx>()).host }
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (NewCtx, GettableCtx, GettableCtx);

const fn at<const PLACE: usize>() -> AtPlace {
    (newctx::<PLACE>, gettable_ctx_params::<ExchangeFns, PLACE>, settable_ctx_params::<ExchangeFns, PLACE>)
}

static AT: [AtPlace; CURVES.len()] = [at::<0>(), at::<1>()];

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_KEYEXCH_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_KEYEXCH_DUPCTX => dupctx, NewCtx;
        OSSL_FUNC_KEYEXCH_FREECTX => freectx, FreeCtx;
        OSSL_FUNC_KEYEXCH_INIT => init, KeyedInit;
        OSSL_FUNC_KEYEXCH_SET_PEER => set_peer, ExchangeSetPeer;
        OSSL_FUNC_KEYEXCH_DERIVE => derive, Final;
        OSSL_FUNC_KEYEXCH_GET_CTX_PARAMS => get_ctx_params, GetParams;
        OSSL_FUNC_KEYEXCH_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_KEYEXCH_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_KEYEXCH_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    super::provider::complete(theirs, &ours, &[])
}
