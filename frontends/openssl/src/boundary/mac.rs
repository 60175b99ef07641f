//! MACs: our entries, and the host's functions behind them.

use std::ffi::{CString, c_int, c_void};
use std::{ptr, slice};

use gantry::Algorithm;
use zeroize::Zeroize;

use super::core::{Table, entry};
use super::family::{Family, functions, gettable_ctx_params, gettable_params, settable_ctx_params};
use super::guard;
use super::params::{self, Answers};
use super::provider::{Functions, Wrapped, dispatch};
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::choice::Sizes;
use crate::digest::Done;
use crate::mac::Macing;
use crate::table::{MACS, Mac, Mode};

/// The host's functions of one algorithm.
pub(in crate::boundary) struct MacFns {
    newctx: Option<NewCtx>,
    dupctx: Option<NewCtx>,
    freectx: Option<FreeCtx>,
    init: Option<MacInit>,
    update: Option<Update>,
    finish: Option<Final>,
    get_ctx_params: Option<GetParams>,
    set_ctx_params: Option<SetParams>,
    gettable_params: Option<Gettable>,
    gettable_ctx_params: Option<GettableCtx>,
    settable_ctx_params: Option<GettableCtx>,
}

impl MacFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_MAC_NEWCTX, NewCtx),
            dupctx: entry!(table, OSSL_FUNC_MAC_DUPCTX, NewCtx),
            freectx: entry!(table, OSSL_FUNC_MAC_FREECTX, FreeCtx),
            init: entry!(table, OSSL_FUNC_MAC_INIT, MacInit),
            update: entry!(table, OSSL_FUNC_MAC_UPDATE, Update),
            finish: entry!(table, OSSL_FUNC_MAC_FINAL, Final),
            get_ctx_params: entry!(table, OSSL_FUNC_MAC_GET_CTX_PARAMS, GetParams),
            set_ctx_params: entry!(table, OSSL_FUNC_MAC_SET_CTX_PARAMS, SetParams),
            gettable_params: entry!(table, OSSL_FUNC_MAC_GETTABLE_PARAMS, Gettable),
            gettable_ctx_params: entry!(table, OSSL_FUNC_MAC_GETTABLE_CTX_PARAMS, GettableCtx),
            settable_ctx_params: entry!(table, OSSL_FUNC_MAC_SETTABLE_CTX_PARAMS, GettableCtx),
        }
    }
}

/// What the core calls `mctx`.
struct MacCtx {
    /// The host's own.
    host: *mut c_void,
    functions: *const MacFns,
    /// Pieces of other numbers of bytes go straight to the host.
    elsewhere: Sizes,
    /// Whether the host has been given nothing of this message.
    fresh: bool,
    wrapped: *const Wrapped,
    state: Macing,
}

impl MacCtx {
    /// # Safety
    ///
    /// The call: what `newctx` or `dupctx` gave out.
    unsafe fn of<'c>(context: *mut c_void) -> (&'c mut Self, &'c MacFns, &'c Wrapped) {
        // SAFETY: as the caller promises; the provider owns the others, and outlives its contexts.
        unsafe {
            let this = context.cast::<Self>();
            let (functions, wrapped) = (&*(*this).functions, &*(*this).wrapped);
            (&mut *this, functions, wrapped)
        }
    }

    /// Whether a message begins.
    fn settle(&mut self, wrapped: &Wrapped, begins: bool) {
        self.fresh |= begins;
        self.elsewhere = self.state.elsewhere(wrapped);
    }

    /// The host takes the message over: it gets what was held.
    fn hand_over(&mut self, functions: &MacFns) -> bool {
        let Some(held) = self.state.held() else { return true };
        // SAFETY: the host, with its own context and a slice to read.
        functions.update.is_some_and(|update| unsafe { update(self.host, held.as_ptr(), held.len()) == 1 })
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let Some((wrapped, functions)) = (unsafe { functions::<MacFns>(provider, PLACE) }) else {
            return ptr::null_mut();
        };
        let theirs = wrapped.default_ctx();
        let Some(newctx) = functions.newctx.filter(|_| !theirs.is_null()) else { return ptr::null_mut() };
        let Mode::Mac(mac) = wrapped.row().mode else { return ptr::null_mut() };
        // SAFETY: the host, with its own context.
        let host = unsafe { newctx(theirs) };
        if host.is_null() {
            return host;
        }
        let state = Macing::new(mac);
        let elsewhere = state.elsewhere(wrapped);
        Box::into_raw(Box::new(MacCtx { host, functions, elsewhere, fresh: true, wrapped, state })).cast()
    })
}

unsafe extern "C" fn dupctx(context: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { MacCtx::of(context) };
        // SAFETY: the host, with its own context.
        let host = functions.dupctx.map_or(ptr::null_mut(), |dupctx| unsafe { dupctx(this.host) });
        if host.is_null() {
            return host;
        }
        Box::into_raw(Box::new(MacCtx { host, state: this.state.clone(), ..*this })).cast()
    })
}

unsafe extern "C" fn freectx(context: *mut c_void) {
    guard((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `newctx` or `dupctx`, and the core frees it once; the host, with its own context, once.
        unsafe {
            let this = Box::from_raw(context.cast::<MacCtx>());
            if let Some(freectx) = (*this.functions).freectx {
                freectx(this.host);
            }
        }
    });
}

unsafe extern "C" fn init(context: *mut c_void, key: *const u8, length: usize, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { MacCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let result = functions.init.map_or(0, |init| unsafe { init(this.host, key, length, params) });
        if result == 1 {
            // SAFETY: the call.
            let (key, told) =
                unsafe { ((!key.is_null()).then(|| slice::from_raw_parts(key, length)), Answers::new(params)) };
            let told = this.state.told(wrapped, told);
            let begins = this.state.initialised(wrapped, key) || told;
            this.settle(wrapped, begins);
        } else {
            this.state.refused();
        }
        result
    })
}

unsafe extern "C" fn update(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    let this = context.cast::<MacCtx>();
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
        let (this, functions, wrapped) = unsafe { MacCtx::of(context) };
        let Some(update) = functions.update.filter(|_| !wrapped.fails()) else { return 0 };
        let slice = if length == 0 || input.is_null() {
            &[]
        } else {
            // SAFETY: the call.
            unsafe { slice::from_raw_parts(input, length) }
        };
        let result = match this.state.update(wrapped, slice, this.fresh) {
            // Poly1305 wants to know that its key is used up. Nothing is a piece, too.
            // SAFETY: the host, with its own context.
            Done::Good if this.fresh => unsafe { update(this.host, slice.as_ptr(), 0) },
            Done::Good => 1,
            Done::Bad => 0,
            Done::Host if !this.hand_over(functions) => 0,
            // SAFETY: the host, with what the call brought.
            Done::Host => unsafe { update(this.host, input, length) },
        };
        this.fresh &= length == 0;
        this.elsewhere = this.state.elsewhere(wrapped);
        result
    })
}

unsafe extern "C" fn finish(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { MacCtx::of(context) };
        // Without a place for the MAC this only asks for its length.
        if !output.is_null() {
            if wrapped.fails() {
                return 0;
            }
            let size = this.state.size();
            if size <= room {
                // SAFETY: the call: there is room for as many bytes.
                let done = this.state.finish(wrapped, unsafe { slice::from_raw_parts_mut(output, size) });
                this.elsewhere = this.state.elsewhere(wrapped);
                match done {
                    Done::Good => {
                        // SAFETY: the call.
                        unsafe { *written = size };
                        return 1;
                    }
                    Done::Bad => return 0,
                    Done::Host if !this.hand_over(functions) => return 0,
                    Done::Host => {}
                }
            }
        }
        // SAFETY: the host, with what the call brought.
        functions.finish.map_or(0, |finish| unsafe { finish(this.host, output, written, room) })
    })
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { MacCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        functions.get_ctx_params.map_or(0, |get| unsafe { get(this.host, params) })
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { MacCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let result = functions.set_ctx_params.map_or(0, |set| unsafe { set(this.host, params) });
        if result == 1 {
            // SAFETY: the call.
            let begins = this.state.told(wrapped, unsafe { Answers::new(params) });
            this.settle(wrapped, begins);
        } else {
            this.state.refused();
        }
        result
    })
}

/// One MAC of the host, for contexts that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostMac {
    theirs: *mut c_void,
    functions: *const MacFns,
    mac: Mac,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostMac {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostMac {}

impl HostMac {
    pub(crate) fn new(wrapped: &Wrapped) -> Option<Self> {
        let (Functions::Mac(functions), Mode::Mac(mac)) = (&wrapped.functions, wrapped.row().mode) else { return None };
        let theirs = wrapped.default_ctx();
        (!theirs.is_null()).then_some(Self { theirs, functions, mac })
    }

    pub(crate) fn mac(&self) -> Mac {
        self.mac
    }

    /// A context with its key, and with what is inside.
    pub(crate) fn context(&self, inside: Option<Algorithm>, key: &[u8]) -> Option<HostMacContext> {
        // SAFETY: ours: the provider owns them, and outlives its framework; the host, with its own context.
        let context = unsafe { (*self.functions).newctx?(self.theirs) };
        let context = (!context.is_null()).then_some(HostMacContext { context, functions: self.functions })?;
        let mut table = [params::end(), params::end(), params::end()];
        let name = inside.map_or_else(Default::default, |inside| CString::new(inside.name()).unwrap_or_default());
        if let Some(parameter) = self.mac.parameter() {
            // The host's own, whatever the program prefers.
            table[0] = Param::text(parameter, &name);
            table[1] = Param::text(c"properties", c"provider=default");
        }
        context.init(Some(key), &table).then_some(context)
    }
}

/// A context of the host that is ours alone.
pub(crate) struct HostMacContext {
    context: *mut c_void,
    functions: *const MacFns,
}

// SAFETY: the host: a context belongs to no thread.
unsafe impl Send for HostMacContext {}

impl HostMacContext {
    fn functions(&self) -> &MacFns {
        // SAFETY: ours: the provider owns them, and outlives its contexts.
        unsafe { &*self.functions }
    }

    /// `table` ends with [`params::end`].
    fn init(&self, key: Option<&[u8]>, table: &[Param]) -> bool {
        let (at, length) = key.map_or((ptr::null(), 0), |key| (key.as_ptr(), key.len()));
        let init = self.functions().init;
        // SAFETY: the host, with a slice to read and a table with its end.
        init.is_some_and(|init| unsafe { init(self.context, at, length, table.as_ptr()) == 1 })
    }

    /// A message, under the same key unless another one is given.
    pub(crate) fn whole(&mut self, key: Option<&[u8]>, iv: &[u8], input: &[u8], output: &mut [u8]) -> bool {
        let mut table = [params::end(), params::end()];
        if !iv.is_empty() {
            table[0] = Param::octets(c"iv", iv.as_ptr().cast_mut().cast(), iv.len());
        }
        let (Some(update), Some(finish)) = (self.functions().update, self.functions().finish) else { return false };
        let (mut written, mut mac) = (0, [0; 64]);
        // SAFETY: the host, with its own context, a slice to read, and room for the longest MAC.
        let good = self.init(key, &table)
            && unsafe {
                update(self.context, input.as_ptr(), input.len()) == 1
                    && finish(self.context, mac.as_mut_ptr(), &raw mut written, mac.len()) == 1
            };
        // A MAC may be asked for in part.
        let good = good && written <= mac.len() && output.len() <= written;
        if good {
            output.copy_from_slice(&mac[..output.len()]);
        }
        mac.zeroize();
        good
    }
}

impl Drop for HostMacContext {
    fn drop(&mut self) {
        if let Some(freectx) = self.functions().freectx {
            // SAFETY: the host, with its own context, once.
            unsafe { freectx(self.context) };
        }
    }
}

impl Family for MacFns {
    const KIND: usize = 2;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Mac(functions) = functions { Some(functions) } else { None }
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
        unsafe { (*context.cast::<MacCtx>()).host }
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (NewCtx, Gettable, GettableCtx, GettableCtx);

const fn at<const PLACE: usize>() -> AtPlace {
    (
        newctx::<PLACE>,
        gettable_params::<MacFns, PLACE>,
        gettable_ctx_params::<MacFns, PLACE>,
        settable_ctx_params::<MacFns, PLACE>,
    )
}

static AT: [AtPlace; MACS.len()] = [at::<0>(), at::<1>(), at::<2>(), at::<3>()];

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_MAC_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_MAC_DUPCTX => dupctx, NewCtx;
        OSSL_FUNC_MAC_FREECTX => freectx, FreeCtx;
        OSSL_FUNC_MAC_INIT => init, MacInit;
        OSSL_FUNC_MAC_UPDATE => update, Update;
        OSSL_FUNC_MAC_FINAL => finish, Final;
        OSSL_FUNC_MAC_GET_CTX_PARAMS => get_ctx_params, GetParams;
        OSSL_FUNC_MAC_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_MAC_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_MAC_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_MAC_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    super::provider::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_MAC_GET_PARAMS])
}
