//! MACs: our entries, and the host's functions behind them.

use std::ffi::{CString, c_int, c_void};
use std::{ptr, slice};

use gantry_core::Algorithm;
use zeroize::{Zeroize, Zeroizing};

use super::core::{Table, dispatch, entry};
use super::family::{
    Common, Context, Contexts, Family, Host, Pieces, bytes, dupctx, freectx, get_ctx_params, gettable_ctx_params,
    gettable_params, is_empty, new_context, piece, settable_ctx_params,
};
use super::guard;
use super::params::{self, Answers};
use super::wrapped::{Functions, Wrapped};
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::framework::Done;
use crate::mac::Macing;
use crate::sizes::Sizes;
use crate::table::{MACS, Mac, Mode};

/// The host's functions of one algorithm.
pub(crate) struct MacFns {
    newctx: Option<NewCtx>,
    init: Option<MacInit>,
    update: Option<Update>,
    finish: Option<Final>,
    gettable_params: Option<Gettable>,
    common: Common,
}

impl MacFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_MAC_NEWCTX, NewCtx),
            init: entry!(table, OSSL_FUNC_MAC_INIT, MacInit),
            update: entry!(table, OSSL_FUNC_MAC_UPDATE, Update),
            finish: entry!(table, OSSL_FUNC_MAC_FINAL, Final),
            gettable_params: entry!(table, OSSL_FUNC_MAC_GETTABLE_PARAMS, Gettable),
            common: Common {
                dupctx: entry!(table, OSSL_FUNC_MAC_DUPCTX, NewCtx),
                freectx: entry!(table, OSSL_FUNC_MAC_FREECTX, FreeCtx),
                get_ctx_params: entry!(table, OSSL_FUNC_MAC_GET_CTX_PARAMS, GetParams),
                set_ctx_params: entry!(table, OSSL_FUNC_MAC_SET_CTX_PARAMS, SetParams),
                gettable_ctx_params: entry!(table, OSSL_FUNC_MAC_GETTABLE_CTX_PARAMS, GettableCtx),
                settable_ctx_params: entry!(table, OSSL_FUNC_MAC_SETTABLE_CTX_PARAMS, GettableCtx),
            },
        }
    }
}

/// Asks the host for a context, with its own.
fn begin(functions: &MacFns, theirs: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the host, with its own context.
    functions.newctx.map(|newctx| unsafe { newctx(theirs) })
}

/// What the core calls `mctx`.
type MacCtx = Context<MacFns>;

impl MacCtx {
    /// Whether a message begins.
    #[inline(always)]
    fn settle(&mut self, begins: bool) {
        self.state.fresh |= begins;
        self.state.elsewhere = self.state.message.elsewhere();
    }

    /// The host ends a message of which it knows only the key, so that it forgets that.
    fn end(&self, functions: &MacFns) -> bool {
        let (mut mac, mut written) = (Zeroizing::new([0; 64]), 0);
        // SAFETY: the host, with its own context and room for the longest MAC.
        functions.finish.is_some_and(|finish| unsafe {
            finish(self.host.context(), mac.as_mut_ptr(), &raw mut written, mac.len()) == 1
        })
    }

    /// The host takes the message over: it gets what was held.
    fn hand_over(&mut self, functions: &MacFns) -> bool {
        let Some(held) = self.state.message.held() else { return true };
        // SAFETY: the host, with its own context and a slice to read.
        functions.update.is_some_and(|update| unsafe { update(self.host.context(), held.as_ptr(), held.len()) == 1 })
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    let state = |_: &MacFns, wrapped: &Wrapped| {
        let message = Macing::new(wrapped);
        let elsewhere = message.elsewhere();
        Pieces::new(message, elsewhere)
    };
    // SAFETY: the call, and the host's answer.
    unsafe { new_context(provider, PLACE, begin, state) }
}

unsafe extern "C" fn init(context: *mut c_void, key: *const u8, length: usize, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { MacCtx::of(context) };
        // SAFETY: the call.
        let (key_slice, told, nothing) = unsafe {
            let key = (!key.is_null()).then(|| slice::from_raw_parts(key, length));
            (key, Answers::new(params), is_empty(params))
        };
        if key.is_null() && nothing && this.state.message.is_spent() {
            return 0;
        }
        // SAFETY: the host, with what the call brought.
        let result = functions.init.map_or(0, |init| unsafe { init(this.host.context(), key, length, params) });
        if result == 1 {
            let told = !nothing && this.state.message.told(wrapped, told);
            let begins = this.state.message.initialised(wrapped, key_slice) || told;
            this.settle(begins);
        } else {
            this.state.message.refused();
        }
        result
    })
}

unsafe extern "C" fn update(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    // SAFETY: the call.
    unsafe { piece(context, input, length, |functions: &MacFns| functions.update, ours) }
}

/// A piece that may not be the host's.
///
/// # Safety
///
/// The call.
#[inline(never)]
unsafe extern "C" fn ours(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, wrapped), slice) = unsafe { (MacCtx::of(context), bytes(input, length)) };
        let Some(update) = functions.update.filter(|_| !wrapped.fails()) else { return 0 };
        let result = match this.state.message.update(wrapped, slice, this.state.fresh) {
            Done::Good if this.state.fresh && this.state.message.spend() => c_int::from(this.end(functions)),
            Done::Good => 1,
            Done::Bad => 0,
            Done::Host if !this.hand_over(functions) => 0,
            // SAFETY: the host, with what the call brought.
            Done::Host => unsafe { update(this.host.context(), input, length) },
        };
        this.state.fresh &= length == 0;
        this.settle(false);
        result
    })
}

unsafe extern "C" fn finish(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    let this = context.cast::<MacCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        // What is not the host's, or is counted, is looked at piece by piece, whatever its size.
        if !output.is_null()
            && (*this).state.elsewhere != Sizes::ALL
            && (*this).state.message.leave()
            && let Some(finish) = (*(*this).host.functions).finish
        {
            (*this).state.elsewhere = Sizes::NONE;
            (*this).count_straight();
            return finish((*this).host.context(), output, written, room);
        }
        considered_finish(context, output, written, room)
    }
}

/// The end of a message that may not be the host's.
///
/// # Safety
///
/// The call.
#[inline(never)]
unsafe fn considered_finish(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { MacCtx::of(context) };
        // Without a place for the MAC this only asks for its length.
        if !output.is_null() {
            this.count_straight();
            if wrapped.fails() {
                return 0;
            }
            let size = this.state.message.size();
            if size <= room {
                // SAFETY: the call: there is room for as many bytes.
                let done = this.state.message.finish(wrapped, unsafe { slice::from_raw_parts_mut(output, size) });
                this.settle(false);
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
        functions.finish.map_or(0, |finish| unsafe { finish(this.host.context(), output, written, room) })
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { MacCtx::of(context) };
        // SAFETY: the call.
        let result = unsafe { this.host.set_params(params) };
        if result == 1 {
            // SAFETY: the call.
            let begins = this.state.message.told(wrapped, unsafe { Answers::new(params) });
            this.settle(begins);
        } else {
            this.state.message.refused();
        }
        result
    })
}

/// One MAC of the host, for contexts that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostMac {
    theirs: *mut c_void,
    wrapped: *const Wrapped,
    mac: Mac,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostMac {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostMac {}

impl HostMac {
    pub(crate) fn new(wrapped: &Wrapped) -> Option<Self> {
        let (Functions::Mac(_), Mode::Mac(mac)) = (&wrapped.functions, wrapped.row().mode) else { return None };
        let theirs = wrapped.default_ctx();
        (!theirs.is_null()).then_some(Self { theirs, wrapped, mac })
    }

    fn wrapped(&self) -> &Wrapped {
        // SAFETY: ours: the provider owns it, and outlives its framework.
        unsafe { &*self.wrapped }
    }

    /// Runs what no program asked for, and leaves no errors of it.
    pub(crate) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        self.wrapped().quietly(body)
    }

    pub(crate) fn mac(&self) -> Mac {
        self.mac
    }

    /// A context with its key, and with what is inside.
    pub(crate) fn context(&self, inside: Option<Algorithm>, key: &[u8]) -> Option<HostMacContext> {
        let functions = MacFns::of(&self.wrapped().functions)?;
        // SAFETY: the host made the context for us; ours: the provider owns the functions, and outlives its framework.
        let context = HostMacContext(unsafe { Host::new(self.theirs, functions, begin) }?);
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
pub(crate) struct HostMacContext(Host<MacFns>);

impl HostMacContext {
    /// `table` ends with [`params::end`].
    fn init(&self, key: Option<&[u8]>, table: &[Param]) -> bool {
        let (at, length) = key.map_or((ptr::null(), 0), |key| (key.as_ptr(), key.len()));
        let init = self.0.functions().init;
        // SAFETY: the host, with a slice to read and a table with its end.
        init.is_some_and(|init| unsafe { init(self.0.context(), at, length, table.as_ptr()) == 1 })
    }

    /// A message, under the same key unless another one is given.
    pub(crate) fn whole(&mut self, key: Option<&[u8]>, iv: &[u8], input: &[u8], output: &mut [u8]) -> bool {
        let mut table = [params::end(), params::end()];
        if !iv.is_empty() {
            table[0] = Param::octets(c"iv", iv.as_ptr().cast_mut().cast(), iv.len());
        }
        let (Some(update), Some(finish)) = (self.0.functions().update, self.0.functions().finish) else { return false };
        let (mut written, mut mac) = (0, [0; 64]);
        // SAFETY: the host, with its own context, a slice to read, and room for the longest MAC.
        let good = self.init(key, &table)
            && unsafe {
                update(self.0.context(), input.as_ptr(), input.len()) == 1
                    && finish(self.0.context(), mac.as_mut_ptr(), &raw mut written, mac.len()) == 1
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

impl Family for MacFns {
    const KIND: usize = 2;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Mac(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

impl Contexts for MacFns {
    type State = Pieces<Macing>;

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
        OSSL_FUNC_MAC_DUPCTX => dupctx::<MacFns>, NewCtx;
        OSSL_FUNC_MAC_FREECTX => freectx::<MacFns>, FreeCtx;
        OSSL_FUNC_MAC_INIT => init, MacInit;
        OSSL_FUNC_MAC_UPDATE => update, Update;
        OSSL_FUNC_MAC_FINAL => finish, Final;
        OSSL_FUNC_MAC_GET_CTX_PARAMS => get_ctx_params::<MacFns>, GetParams;
        OSSL_FUNC_MAC_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_MAC_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_MAC_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_MAC_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    super::core::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_MAC_GET_PARAMS])
}
