//! Keys: our entries, and the host's functions behind them.
//!
//! A key is the host's own, and what is known of it here beside it. There is no `load`: objects that decoders made are the
//! default provider's, which gives them to its own keys.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use gantry_core::Algorithm;
use zeroize::Zeroizing;

use super::core::{Table, dispatch};
use super::family::{Family, functions, gettable_params};
use super::functions::{Functions, KeyFns};
use super::guard;
use super::params;
use super::wrapped::Wrapped;
use super::{generator, slhdsa};
use crate::abi::fns::*;
use crate::abi::{self, Dispatch, Param};
use crate::pair::{self, Pair, Raw};
use crate::table::{KEYS, slh_dsa};

/// What the core calls `keydata`: an `Arc`, which contexts hold, too.
pub(super) struct KeyData {
    /// The host's own.
    pub(super) host: *mut c_void,
    wrapped: *const Wrapped,
    pair: Pair,
}

// SAFETY: the host: a key belongs to no thread.
unsafe impl Send for KeyData {}
// SAFETY: the host: a key may be used by several threads as long as nobody changes it.
unsafe impl Sync for KeyData {}

impl KeyData {
    /// # Safety
    ///
    /// A key of the host that is ours alone, or null; `wrapped` is what serves such keys.
    pub(super) unsafe fn give(wrapped: &Wrapped, host: *mut c_void) -> *mut c_void {
        if host.is_null() {
            return host;
        }
        Arc::into_raw(Arc::new(Self { host, wrapped, pair: Pair::default() })).cast_mut().cast()
    }

    /// `None` of null.
    ///
    /// # Safety
    ///
    /// The call: null, or a key that was given out, and not freed.
    pub(super) unsafe fn of<'c>(keydata: *const c_void) -> Option<(&'c Self, &'c KeyFns)> {
        // SAFETY: as the caller promises; the provider owns the functions, and outlives its keys.
        let this = unsafe { keydata.cast::<Self>().as_ref() }?;
        Some((this, this.functions()))
    }

    /// One more hold on a key; `None` of null.
    ///
    /// # Safety
    ///
    /// The call: null, or a key that was given out, and not freed.
    pub(super) unsafe fn hold(keydata: *mut c_void) -> Option<Arc<Self>> {
        let this = keydata.cast_const().cast::<Self>();
        if this.is_null() {
            return None;
        }
        // SAFETY: as the caller promises: `give` made it from an `Arc`, of which the core has one.
        unsafe {
            Arc::increment_strong_count(this);
            Some(Arc::from_raw(this))
        }
    }

    pub(super) fn host(&self) -> *mut c_void {
        self.host
    }

    pub(super) fn wrapped(&self) -> &Wrapped {
        // SAFETY: ours: the provider owns it, and outlives its keys.
        unsafe { &*self.wrapped }
    }

    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// The raw keys, as far as the host gives them out.
    pub(super) fn raw(&self) -> Option<&Raw> {
        let set = slh_dsa(self.wrapped().row().name);
        self.pair.raw(|| set.map_or_else(|| self.octets(), |algorithm| self.slh_dsa(algorithm)))
    }

    /// Those of a curve whose keys are octets. (An export would leave a copy of them in memory that was freed.)
    fn octets(&self) -> Raw {
        let (mut public, mut private) = ([0_u8; pair::SIZE], Zeroizing::new([0_u8; pair::SIZE]));
        let mut table = [
            Param::octets(c"pub", public.as_mut_ptr().cast(), pair::SIZE),
            Param::octets(c"priv", private.as_mut_ptr().cast(), pair::SIZE),
            params::end(),
        ];
        // SAFETY: the host, with its own key and a table with its end, whose data has room.
        let told = self.functions().get_params.is_some_and(|get| unsafe { get(self.host, table.as_mut_ptr()) } == 1);
        // What is not there has no length.
        let is_there = |place: usize| told && table[place].return_size == pair::SIZE;
        Raw::new(is_there(1).then_some(&private[..]), is_there(0).then_some(&public[..]))
    }

    fn slh_dsa(&self, algorithm: Algorithm) -> Raw {
        // SAFETY: the host, with its own key and a table with its end, whose data has room.
        let ask = |table| self.functions().get_params.map_or(0, |get| unsafe { get(self.host, table) });
        slhdsa::raw(algorithm.info().public_key.max, ask)
    }

    fn functions(&self) -> &KeyFns {
        let Functions::Keys(functions) = &self.wrapped().functions else { unreachable!("a key's") };
        functions
    }
}

impl Drop for KeyData {
    fn drop(&mut self) {
        if let Some(free) = self.functions().free {
            // SAFETY: the host, with its own key, once.
            unsafe { free(self.host) };
        }
    }
}

unsafe extern "C" fn new<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null_mut() };
            let host = functions.new.map_or(ptr::null_mut(), |new| new(wrapped.default_ctx()));
            KeyData::give(wrapped, host)
        }
    })
}

unsafe extern "C" fn free(keydata: *mut c_void) {
    guard((), || {
        if !keydata.is_null() {
            // SAFETY: ours: the core's hold, which it gives up once.
            drop(unsafe { Arc::from_raw(keydata.cast_const().cast::<KeyData>()) });
        }
    });
}

unsafe extern "C" fn get_params(keydata: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.get_params.map_or(0, |get| get(this.host, params))
        }
    })
}

unsafe extern "C" fn set_params(keydata: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            this.pair.change();
            functions.set_params.map_or(0, |set| set(this.host, params))
        }
    })
}

unsafe extern "C" fn settable_params<const PLACE: usize>(provider: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null() };
            functions.settable_params.map_or(ptr::null(), |settable| settable(wrapped.default_ctx()))
        }
    })
}

unsafe extern "C" fn has(keydata: *const c_void, selection: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.has.map_or(0, |has| has(this.host, selection))
        }
    })
}

unsafe extern "C" fn validate(keydata: *const c_void, selection: c_int, kind: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.validate.map_or(0, |validate| validate(this.host, selection, kind))
        }
    })
}

unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own keys.
        unsafe {
            let Some(((one, functions), (other, _))) = KeyData::of(one).zip(KeyData::of(other)) else { return 0 };
            functions.matches.map_or(0, |matches| matches(one.host, other.host, selection))
        }
    })
}

unsafe extern "C" fn import(keydata: *mut c_void, selection: c_int, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            this.pair.change();
            functions.import.map_or(0, |import| import(this.host, selection, params))
        }
    })
}

unsafe extern "C" fn export(keydata: *mut c_void, selection: c_int, tell: ParamsCallback, data: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with what it brought.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return 0 };
            functions.export.map_or(0, |export| export(this.host, selection, tell, data))
        }
    })
}

unsafe extern "C" fn dup(keydata: *const c_void, selection: c_int) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own key, of which it makes another one.
        unsafe {
            let Some((this, functions)) = KeyData::of(keydata) else { return ptr::null_mut() };
            let host = functions.dup.map_or(ptr::null_mut(), |dup| dup(this.host, selection));
            KeyData::give(&*this.wrapped, host)
        }
    })
}

impl Family for KeyFns {
    const KIND: usize = 1;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Keys(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (NewCtx, KeyGenInit, GettableCtx, GettableCtx, Gettable, Gettable);

const fn at<const PLACE: usize>() -> AtPlace {
    (
        new::<PLACE>,
        generator::gen_init::<PLACE>,
        generator::gen_gettable_params::<PLACE>,
        generator::gen_settable_params::<PLACE>,
        gettable_params::<KeyFns, PLACE>,
        settable_params::<PLACE>,
    )
}

static AT: [AtPlace; KEYS.len()] = super::family::at_places!(0 1 2 3 4 5 6 7 8 9 10 11 12 13);

/// Our table for a type of keys: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (new, gen_init, gen_gettable_params, gen_settable_params, gettable_params, settable_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_KEYMGMT_NEW => new, NewCtx;
        OSSL_FUNC_KEYMGMT_FREE => free, FreeCtx;
        OSSL_FUNC_KEYMGMT_GEN_INIT => gen_init, KeyGenInit;
        OSSL_FUNC_KEYMGMT_GEN_SET_TEMPLATE => generator::gen_set_template, WithKey;
        OSSL_FUNC_KEYMGMT_GEN_SET_PARAMS => generator::gen_set_params, SetParams;
        OSSL_FUNC_KEYMGMT_GEN_GET_PARAMS => generator::gen_get_params, GetParams;
        OSSL_FUNC_KEYMGMT_GEN_GETTABLE_PARAMS => gen_gettable_params, GettableCtx;
        OSSL_FUNC_KEYMGMT_GEN_SETTABLE_PARAMS => gen_settable_params, GettableCtx;
        OSSL_FUNC_KEYMGMT_GEN => generator::generate, KeyGen;
        OSSL_FUNC_KEYMGMT_GEN_CLEANUP => generator::gen_cleanup, FreeCtx;
        OSSL_FUNC_KEYMGMT_GET_PARAMS => get_params, GetParams;
        OSSL_FUNC_KEYMGMT_SET_PARAMS => set_params, SetParams;
        OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS => gettable_params, Gettable;
        OSSL_FUNC_KEYMGMT_SETTABLE_PARAMS => settable_params, Gettable;
        OSSL_FUNC_KEYMGMT_HAS => has, KeyHas;
        OSSL_FUNC_KEYMGMT_VALIDATE => validate, KeyValidate;
        OSSL_FUNC_KEYMGMT_MATCH => matches, KeyMatch;
        OSSL_FUNC_KEYMGMT_IMPORT => import, KeyImport;
        OSSL_FUNC_KEYMGMT_EXPORT => export, KeyExport;
        OSSL_FUNC_KEYMGMT_DUP => dup, KeyDup;
    };
    let passed = [
        abi::OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME,
        abi::OSSL_FUNC_KEYMGMT_IMPORT_TYPES,
        abi::OSSL_FUNC_KEYMGMT_EXPORT_TYPES,
    ];
    super::core::complete(theirs, &ours, &passed)
}
