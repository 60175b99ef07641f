//! Our functions for keys, which OpenSSL calls.
//!
//! A key wraps a key of the host, and holds our own state of it. There is no `load`: objects from decoders belong to the default
//! provider, which turns them into its own keys.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use gantry_core::Algorithm;
use zeroize::Zeroizing;

use super::context::functions;
use crate::abi::Param;
use crate::abi::fns::*;
use crate::host::functions::{Functions, KeyFns};
use crate::host::{guard, params};
use crate::modes::pair::{self, Pair, RawKeys};
use crate::provider::Wrapped;
use crate::table::slh_dsa;

/// Bytes of the longest public key of SLH-DSA; a private key has twice as many bytes.
const LONGEST: usize = 64;

/// The core's `keydata`: an `Arc`, shared with contexts.
pub(super) struct KeyData {
    pub(super) host: *mut c_void,
    wrapped: *const Wrapped,
    pair: Pair,
}

// SAFETY: the host: a key is not bound to a thread.
unsafe impl Send for KeyData {}
// SAFETY: the host: several threads may use a key as long as none changes it.
unsafe impl Sync for KeyData {}

impl KeyData {
    /// # Safety
    ///
    /// `host` is a key of the host that only we own, or null; `wrapped` serves such keys.
    pub(super) unsafe fn into_raw(wrapped: &Wrapped, host: *mut c_void) -> *mut c_void {
        if host.is_null() {
            return host;
        }
        Arc::into_raw(Arc::new(Self { host, wrapped, pair: Pair::default() })).cast_mut().cast()
    }

    /// Returns `None` for null.
    ///
    /// # Safety
    ///
    /// The call: null, or a key from `into_raw` that is not freed.
    pub(super) unsafe fn borrow<'c>(keydata: *const c_void) -> Option<(&'c Self, &'c KeyFns)> {
        // SAFETY: as the caller promises; the provider owns the functions, and outlives its keys.
        let this = unsafe { keydata.cast::<Self>().as_ref() }?;
        Some((this, this.functions()))
    }

    /// Takes another reference to a key; `None` for null.
    ///
    /// # Safety
    ///
    /// The call: null, or a key from `into_raw` that is not freed.
    pub(super) unsafe fn share(keydata: *mut c_void) -> Option<Arc<Self>> {
        let this = keydata.cast_const().cast::<Self>();
        if this.is_null() {
            return None;
        }
        // SAFETY: as the caller promises: `into_raw` made it from an `Arc`, of which the core holds one reference.
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

    /// Returns the raw keys, as far as the host exposes them.
    pub(super) fn raw(&self) -> Option<&RawKeys> {
        let set = slh_dsa(self.wrapped().row().name);
        self.pair.raw(|| set.map_or_else(|| self.octets(), |algorithm| self.slh_dsa(algorithm)))
    }

    /// Reads the raw keys of a curve. An export would leave a copy of them in freed memory.
    fn octets(&self) -> RawKeys {
        let (mut public, mut private) = ([0_u8; pair::SIZE], Zeroizing::new([0_u8; pair::SIZE]));
        let mut table = [
            Param::octets(c"pub", public.as_mut_ptr().cast(), pair::SIZE),
            Param::octets(c"priv", private.as_mut_ptr().cast(), pair::SIZE),
            params::end(),
        ];
        // SAFETY: the host, with its own key and a terminated table, whose data has room.
        let answered =
            self.functions().get_params.is_some_and(|get| unsafe { get(self.host, table.as_mut_ptr()) } == 1);
        // An absent key has no length.
        let is_present = |place: usize| answered && table[place].return_size == pair::SIZE;
        RawKeys::new(is_present(1).then_some(&private[..]), is_present(0).then_some(&public[..]))
    }

    /// Reads the raw keys of SLH-DSA, also without an export.
    fn slh_dsa(&self, algorithm: Algorithm) -> RawKeys {
        let size = algorithm.info().public_key.max;
        let (mut public, mut private) = ([0_u8; LONGEST], Zeroizing::new([0_u8; 2 * LONGEST]));
        let mut table = [
            Param::octets(c"pub", public.as_mut_ptr().cast(), public.len()),
            Param::octets(c"priv", private.as_mut_ptr().cast(), private.len()),
            params::end(),
        ];
        // SAFETY: the host, with its own key and a terminated table, whose data has room.
        let answered =
            self.functions().get_params.is_some_and(|get| unsafe { get(self.host, table.as_mut_ptr()) } == 1);
        // An absent key has no length.
        let is_present = |place: usize, length: usize| answered && table[place].return_size == length;
        RawKeys::new(
            is_present(1, 2 * size).then(|| &private[..2 * size]),
            is_present(0, size).then(|| &public[..size]),
        )
    }

    fn functions(&self) -> &KeyFns {
        let Functions::Keys(functions) = &self.wrapped().functions else { unreachable!("keys belong to key types") };
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

pub(super) unsafe extern "C" fn new<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null_mut() };
            let host = functions.new.map_or(ptr::null_mut(), |new| new(wrapped.default_ctx()));
            KeyData::into_raw(wrapped, host)
        }
    })
}

pub(super) unsafe extern "C" fn free(keydata: *mut c_void) {
    guard((), || {
        if !keydata.is_null() {
            // SAFETY: ours: the core's reference, which it releases once.
            drop(unsafe { Arc::from_raw(keydata.cast_const().cast::<KeyData>()) });
        }
    });
}

pub(super) unsafe extern "C" fn get_params(keydata: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.get_params.map_or(0, |get| get(this.host, params))
        }
    })
}

pub(super) unsafe extern "C" fn set_params(keydata: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            this.pair.mark_changed();
            functions.set_params.map_or(0, |set| set(this.host, params))
        }
    })
}

pub(super) unsafe extern "C" fn settable_params<const PLACE: usize>(provider: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null() };
            functions.settable_params.map_or(ptr::null(), |settable| settable(wrapped.default_ctx()))
        }
    })
}

pub(super) unsafe extern "C" fn has(keydata: *const c_void, selection: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.has.map_or(0, |has| has(this.host, selection))
        }
    })
}

pub(super) unsafe extern "C" fn validate(keydata: *const c_void, selection: c_int, kind: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.validate.map_or(0, |validate| validate(this.host, selection, kind))
        }
    })
}

pub(super) unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own keys.
        unsafe {
            let Some(((one, functions), (other, _))) = KeyData::borrow(one).zip(KeyData::borrow(other)) else {
                return 0;
            };
            functions.matches.map_or(0, |matches| matches(one.host, other.host, selection))
        }
    })
}

pub(super) unsafe extern "C" fn import(keydata: *mut c_void, selection: c_int, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            this.pair.mark_changed();
            functions.import.map_or(0, |import| import(this.host, selection, params))
        }
    })
}

pub(super) unsafe extern "C" fn export(
    keydata: *mut c_void,
    selection: c_int,
    tell: ParamsCallback,
    data: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.export.map_or(0, |export| export(this.host, selection, tell, data))
        }
    })
}

pub(super) unsafe extern "C" fn dup(keydata: *const c_void, selection: c_int) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own key, which it copies.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return ptr::null_mut() };
            let host = functions.dup.map_or(ptr::null_mut(), |dup| dup(this.host, selection));
            KeyData::into_raw(&*this.wrapped, host)
        }
    })
}
