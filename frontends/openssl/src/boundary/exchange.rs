//! Key exchange: our entries, and the host's functions behind them.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use gantry_core::driver::Operands;
use gantry_core::{Operation, Outcome};

use super::core::{Table, dispatch};
use super::family::{
    Context, Contexts, Family, Host, dupctx, freectx, get_ctx_params, gettable_ctx_params, is_empty, new_context,
    settable_ctx_params,
};
use super::functions::{Common, ExchangeFns, Functions};
use super::guard;
use super::host_keys::{HostKey, HostPair};
use super::keys::KeyData;
use super::wrapped::Wrapped;
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::framework::Side;
use crate::pair::{self, Pair};
use crate::table::PAIRS;

impl ExchangeFns {
    /// The host's, with its own context.
    unsafe fn begin(&self, theirs: *mut c_void) -> Option<*mut c_void> {
        // SAFETY: as the caller promises.
        self.newctx.map(|newctx| unsafe { newctx(theirs) })
    }
}

/// What the core calls `exchctx`.
type ExchangeCtx = Context<ExchangeFns>;

/// Whose secret it is.
#[derive(Clone, Default)]
pub(crate) struct Parties {
    /// `None` where something was said that only the host understands.
    key: Option<Arc<KeyData>>,
    peer: Option<Arc<KeyData>>,
}

impl Parties {
    /// Derives on another device, if it is to be there.
    fn elsewhere(&self, wrapped: &Wrapped, output: &mut [u8]) -> Option<Outcome> {
        let (key, peer) = (self.key.as_ref()?, self.peer.as_ref()?);
        // A peer's key in another form is the host's.
        let algorithm = wrapped.algorithm()?;
        let takes = algorithm.info().public_key;
        let public = || peer.raw()?.public().filter(|bytes| takes.allows(bytes.len()));
        let may_go = Pair::may_go(wrapped, algorithm, Operation::Derive);
        let Some(input) = Some(()).filter(|()| may_go).and_then(|()| public()) else {
            wrapped.count(Operation::Derive, Side::Host, pair::SIZE);
            return None;
        };
        key.pair().run(wrapped, algorithm, || key.raw(), Operands::Derive { input, output })
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call; the host, with its own context.
    unsafe {
        new_context(
            provider,
            PLACE,
            |functions: &ExchangeFns, theirs| functions.begin(theirs),
            |_, _| Parties::default(),
        )
    }
}

unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::of(context), KeyData::hold(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        // SAFETY: the host, with its own key and what the call brought.
        let result = functions.init.map_or(0, |init| unsafe { init(this.host.context(), host, params) });
        // SAFETY: the call.
        let plain = unsafe { is_empty(params) };
        this.state.key = key.filter(|_| plain && result == 1);
        this.state.peer = None;
        result
    })
}

unsafe extern "C" fn set_peer(context: *mut c_void, key: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (ExchangeCtx::of(context), KeyData::hold(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        // SAFETY: the host, with its own key.
        let result = functions.set_peer.map_or(0, |set_peer| unsafe { set_peer(this.host.context(), host) });
        this.state.peer = key.filter(|_| result == 1);
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
                if this.state.elsewhere(wrapped, output) == Some(Outcome::Done) {
                    // SAFETY: the call.
                    unsafe { *written = pair::SIZE };
                    return 1;
                }
            }
        }
        // SAFETY: the host, with what the call brought.
        functions.derive.map_or(0, |derive| unsafe { derive(this.host.context(), secret, written, room) })
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, ..) = unsafe { ExchangeCtx::of(context) };
        this.state.key = None;
        // SAFETY: the call.
        unsafe { this.host.set_params(params) }
    })
}

/// Two keys, ready for their secret.
pub(crate) struct Agreement(Host<ExchangeFns>);

impl HostPair {
    /// For which no program asked.
    pub(crate) fn agreement(&self, key: &HostKey, peer: &HostKey) -> Option<Agreement> {
        // SAFETY: the host, with its own context.
        let host = self.context(|functions: &ExchangeFns, theirs| unsafe { functions.begin(theirs) })?;
        let (init, set_peer) = (host.functions().init?, host.functions().set_peer?);
        // SAFETY: the host, with its own context and keys, which it then holds.
        let good = unsafe {
            init(host.context(), key.as_ptr(), ptr::null()) == 1 && set_peer(host.context(), peer.as_ptr()) == 1
        };
        good.then_some(Agreement(host))
    }
}

impl Agreement {
    pub(crate) fn derive(&self, output: &mut [u8]) -> bool {
        let Some(derive) = self.0.functions().derive else { return false };
        let mut written = 0;
        // SAFETY: the host, with its own context and room for the secret.
        let good = unsafe { derive(self.0.context(), output.as_mut_ptr(), &raw mut written, output.len()) } == 1;
        good && written == output.len()
    }
}

impl Family for ExchangeFns {
    const KIND: usize = 2;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Exchange(functions) = functions { Some(functions) } else { None }
    }
}

impl Contexts for ExchangeFns {
    type State = Parties;

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (NewCtx, GettableCtx, GettableCtx);

const fn at<const PLACE: usize>() -> AtPlace {
    (newctx::<PLACE>, gettable_ctx_params::<ExchangeFns, PLACE>, settable_ctx_params::<ExchangeFns, PLACE>)
}

static AT: [AtPlace; PAIRS.len()] = super::family::at_places!(0 1 2 3 4 5 6 7 8 9 10 11 12 13);

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_KEYEXCH_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_KEYEXCH_DUPCTX => dupctx::<ExchangeFns>, NewCtx;
        OSSL_FUNC_KEYEXCH_FREECTX => freectx::<ExchangeFns>, FreeCtx;
        OSSL_FUNC_KEYEXCH_INIT => init, KeyedInit;
        OSSL_FUNC_KEYEXCH_SET_PEER => set_peer, WithKey;
        OSSL_FUNC_KEYEXCH_DERIVE => derive, Final;
        OSSL_FUNC_KEYEXCH_GET_CTX_PARAMS => get_ctx_params::<ExchangeFns>, GetParams;
        OSSL_FUNC_KEYEXCH_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_KEYEXCH_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_KEYEXCH_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    super::core::complete(theirs, &ours, &[])
}
