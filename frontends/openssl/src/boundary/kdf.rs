//! Key derivations: our entries, and the host's functions behind them.

use std::ffi::{CString, c_int, c_void};
use std::{ptr, slice};

use gantry_digest::Algorithm;

use super::core::{Table, dispatch};
use super::family::{
    Context, Contexts, Family, Host, dupctx, freectx, get_ctx_params, gettable_ctx_params, gettable_params, is_empty,
    new_context, settable_ctx_params,
};
use super::functions::{Common, Functions, KdfFns};
use super::guard;
use super::params::{Answers, end};
use super::wrapped::Wrapped;
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::kdf::Deriving;
use crate::table::{KDFS, Kdf, Mode};

/// Asks the host for a context, with its own.
fn begin(functions: &KdfFns, theirs: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the host, with its own context.
    functions.newctx.map(|newctx| unsafe { newctx(theirs) })
}

/// The host's PBKDF2, for keys that no program asked for.
pub(crate) struct HostKdf<'w>(&'w Wrapped);

impl<'w> HostKdf<'w> {
    /// `None`: it is another algorithm.
    pub(crate) fn pbkdf2_of(wrapped: &'w Wrapped) -> Option<Self> {
        (wrapped.row().mode == Mode::Kdf(Kdf::Pbkdf2)).then_some(Self(wrapped))
    }

    /// Derives a key with HMAC over `hash`. Whether the host has it.
    pub(crate) fn pbkdf2(
        &self,
        hash: Algorithm,
        secret: &[u8],
        salt: &[u8],
        mut iterations: u32,
        key: &mut [u8],
    ) -> bool {
        let octets = |name, bytes: &[u8]| Param::octets(name, bytes.as_ptr().cast_mut().cast(), bytes.len());
        let Ok(name) = CString::new(hash.to_string()) else { return false };
        let table = [
            Param::text(c"digest", &name),
            octets(c"pass", secret),
            octets(c"salt", salt),
            Param::number(c"iter", (&raw mut iterations).cast(), size_of::<u32>()),
            end(),
        ];
        let Some(functions) = KdfFns::of(&self.0.functions) else { return false };
        // SAFETY: the host made the context for us; ours: the provider owns the functions, and outlives whatever measures.
        let Some(host) = (unsafe { Host::new(self.0.default_ctx(), functions, begin) }) else { return false };
        let (room, length) = (key.as_mut_ptr(), key.len());
        // SAFETY: the host, with its own context, room for the key, and a table with its end whose data it only reads.
        functions.derive.is_some_and(|derive| unsafe { derive(host.context(), room, length, table.as_ptr()) == 1 })
    }
}

/// What the core calls `kctx`.
type KdfCtx = Context<KdfFns>;

impl KdfCtx {
    /// The host is told first, and then we are.
    ///
    /// # Safety
    ///
    /// The call: null, or a table with its end.
    unsafe fn tell(&mut self, params: *const Param) -> c_int {
        // SAFETY: the call.
        let result = unsafe { self.host.set_params(params) };
        if result == 1 {
            // SAFETY: the call.
            self.state.told(unsafe { Answers::new(params) });
        } else {
            self.state.refused();
        }
        result
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call.
    unsafe { new_context::<KdfFns>(provider, PLACE, begin, |_, wrapped| Deriving::new(wrapped)) }
}

unsafe extern "C" fn reset(context: *mut c_void) {
    guard((), || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { KdfCtx::of(context) };
        this.state.reset();
        if let Some(reset) = functions.reset {
            // SAFETY: the host, with its own context.
            unsafe { reset(this.host.context()) };
        }
    });
}

unsafe extern "C" fn derive(context: *mut c_void, key: *mut u8, length: usize, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { KdfCtx::of(context) };
        // SAFETY: the call.
        if wrapped.fails() || (!unsafe { is_empty(params) } && unsafe { this.tell(params) } != 1) {
            return 0;
        }
        // It counts among the threads that derive until the key is there, also if that is the host's work.
        let present = this.state.enter(wrapped);
        if let Some(present) = &present
            && !key.is_null()
        {
            // SAFETY: the call: there is room for as many bytes.
            let output = unsafe { slice::from_raw_parts_mut(key, length) };
            if let Some(derived) = this.state.derive(present, output) {
                wrapped.derived(derived, length);
                return 1;
            }
        }
        wrapped.hosts(0, 1, length);
        // SAFETY: the host, with its own context and what the call brought.
        functions.derive.map_or(0, |derive| unsafe { derive(this.host.context(), key, length, ptr::null()) })
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: the call.
    guard(0, || unsafe { KdfCtx::of(context).0.tell(params) })
}

impl Family for KdfFns {
    const KIND: usize = 4;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Kdf(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

impl Contexts for KdfFns {
    type State = Deriving;

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
        gettable_params::<KdfFns, PLACE>,
        gettable_ctx_params::<KdfFns, PLACE>,
        settable_ctx_params::<KdfFns, PLACE>,
    )
}

static AT: [AtPlace; KDFS.len()] = [at::<0>(), at::<1>()];

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_params, gettable_ctx_params, settable_ctx_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_KDF_NEWCTX => newctx, NewCtx;
        OSSL_FUNC_KDF_DUPCTX => dupctx::<KdfFns>, NewCtx;
        OSSL_FUNC_KDF_FREECTX => freectx::<KdfFns>, FreeCtx;
        OSSL_FUNC_KDF_RESET => reset, FreeCtx;
        OSSL_FUNC_KDF_DERIVE => derive, KdfDerive;
        OSSL_FUNC_KDF_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_KDF_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_KDF_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
        OSSL_FUNC_KDF_GET_CTX_PARAMS => get_ctx_params::<KdfFns>, GetParams;
        OSSL_FUNC_KDF_SET_CTX_PARAMS => set_ctx_params, SetParams;
    };
    super::core::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_KDF_GET_PARAMS])
}
