//! Our functions for keys, which OpenSSL calls.
//!
//! A key wraps a key of the default provider, and has our own state in addition. There is no `load` function: objects from decoders belong
//! to the default provider, which turns them into its own keys.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use gantry_core::Algorithm;
use zeroize::Zeroizing;

use super::context::functions;
use super::peer_share::PeerShare;
use crate::abi::fns::*;
use crate::abi::{self, Param};
use crate::groups::hybrid_group;
use crate::libcrypto::catch_panic;
use crate::libcrypto::functions::{Functions, KeyFns};
use crate::libcrypto::params::{self, ParamValues};
use crate::modes::group::GroupKey;
use crate::modes::key_pair::{self, KeyPairState, RawKeys};
use crate::provider::WrappedAlgorithm;
use crate::table::slh_dsa_parameter_set;

/// Bytes of the longest public key of SLH-DSA; a private key has twice as many bytes.
const MAX_PUBLIC_KEY_LEN: usize = 64;

/// The parameter with a property query.
pub(super) const PROPERTIES: &CStr = c"properties";

/// The core's `keydata`: an `Arc`, shared with contexts.
pub(super) struct KeyData {
    default_key: *mut c_void,
    wrapped: *const WrappedAlgorithm,
    pair: KeyPairState,
    /// The share of a peer in a hybrid TLS group, if one was set.
    share: OnceLock<PeerShare>,
    /// True if the key has a property query of its own, which only the default provider follows.
    has_properties: AtomicBool,
}

// SAFETY: the default provider: a key is not bound to a thread.
unsafe impl Send for KeyData {}
// SAFETY: the default provider: several threads may use a key as long as none changes it.
unsafe impl Sync for KeyData {}

impl KeyData {
    /// # Safety
    ///
    /// `default_key` is a key of the default provider that only we own, or null; `wrapped` serves such keys.
    pub(super) unsafe fn into_raw(
        wrapped: &WrappedAlgorithm,
        default_key: *mut c_void,
        has_properties: bool,
    ) -> *mut c_void {
        if default_key.is_null() {
            return default_key;
        }
        let (pair, share) = (KeyPairState::default(), OnceLock::new());
        let key = Self { default_key, wrapped, pair, share, has_properties: has_properties.into() };
        Arc::into_raw(Arc::new(key)).cast_mut().cast()
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

    /// Returns the default provider's key, which has a peer's share from then on.
    pub(super) fn default_key(&self) -> *mut c_void {
        if let Some(share) = self.share.get() {
            share.pass_on(self.functions(), self.default_key);
        }
        self.default_key
    }

    /// Returns the key with a peer's share, if the default provider has not seen the share.
    pub(super) fn unseen_share(&self) -> Option<&GroupKey> {
        self.share.get()?.unseen()
    }

    /// Keeps a peer's share of a hybrid TLS group. Returns false if the default provider is to take the parameters.
    fn take_share(&self, params: ParamValues<'_>) -> bool {
        let Some(group) = hybrid_group(self.wrapped().row().name) else { return false };
        if params.has(PROPERTIES) {
            self.has_properties.store(true, Ordering::Relaxed);
        }
        let Some(share) = params.only_octets(c"encoded-pub-key") else { return false };
        // SAFETY: the default provider, with its own key.
        let has_public = |has: KeyHas| unsafe { has(self.default_key, abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY) } == 1;
        let is_bound = self.has_properties.load(Ordering::Relaxed) || self.share.get().is_some();
        if is_bound || self.functions().has.is_none_or(has_public) {
            return false;
        }
        let share = PeerShare::new(self.wrapped().provider(), group, share);
        share.is_some_and(|share| self.share.set(share).is_ok())
    }

    pub(super) fn wrapped(&self) -> &WrappedAlgorithm {
        // SAFETY: ours: the provider owns it, and outlives its keys.
        unsafe { &*self.wrapped }
    }

    pub(super) fn pair(&self) -> &KeyPairState {
        &self.pair
    }

    /// Returns the raw keys, as far as the default provider exposes them; `None` if the key has changed since they were read.
    pub(super) fn raw(&self) -> Option<&RawKeys> {
        let set = slh_dsa_parameter_set(self.wrapped().row().name);
        self.pair.raw(|| set.map_or_else(|| self.read_curve_keys(), |algorithm| self.read_slh_dsa_keys(algorithm)))
    }

    /// Reads the raw keys of a curve as parameters, because an export would leave a copy of them in freed memory.
    fn read_curve_keys(&self) -> RawKeys {
        let (mut public, mut private) = ([0_u8; key_pair::KEY_LEN], Zeroizing::new([0_u8; key_pair::KEY_LEN]));
        let mut table = [
            Param::octets(c"pub", public.as_mut_ptr().cast(), key_pair::KEY_LEN),
            Param::octets(c"priv", private.as_mut_ptr().cast(), key_pair::KEY_LEN),
            params::end(),
        ];
        // SAFETY: the default provider, with its own key and a terminated table, whose data has room.
        let answered =
            self.functions().get_params.is_some_and(|get| unsafe { get(self.default_key, table.as_mut_ptr()) } == 1);
        // The default provider leaves the length of an absent key unset.
        let is_present = |index: usize| answered && table[index].return_size == key_pair::KEY_LEN;
        RawKeys::new(is_present(1).then_some(&private[..]), is_present(0).then_some(&public[..]))
    }

    /// Reads the raw keys of SLH-DSA, also without an export.
    fn read_slh_dsa_keys(&self, algorithm: Algorithm) -> RawKeys {
        let size = algorithm.info().public_key.max;
        let (mut public, mut private) = ([0_u8; MAX_PUBLIC_KEY_LEN], Zeroizing::new([0_u8; 2 * MAX_PUBLIC_KEY_LEN]));
        let mut table = [
            Param::octets(c"pub", public.as_mut_ptr().cast(), public.len()),
            Param::octets(c"priv", private.as_mut_ptr().cast(), private.len()),
            params::end(),
        ];
        // SAFETY: the default provider, with its own key and a terminated table, whose data has room.
        let answered =
            self.functions().get_params.is_some_and(|get| unsafe { get(self.default_key, table.as_mut_ptr()) } == 1);
        // The default provider leaves the length of an absent key unset.
        let is_present = |index: usize, length: usize| answered && table[index].return_size == length;
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
            // SAFETY: the default provider, with its own key, once.
            unsafe { free(self.default_key) };
        }
    }
}

pub(super) unsafe extern "C" fn new<const ROW: usize>(provider: *mut c_void) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the call; the default provider, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, ROW) else { return ptr::null_mut() };
            let default_key = functions.new.map_or(ptr::null_mut(), |new| new(wrapped.default_provctx()));
            KeyData::into_raw(wrapped, default_key, false)
        }
    })
}

pub(super) unsafe extern "C" fn free(keydata: *mut c_void) {
    catch_panic((), || {
        if !keydata.is_null() {
            // SAFETY: ours: the core's reference, which it releases once.
            drop(unsafe { Arc::from_raw(keydata.cast_const().cast::<KeyData>()) });
        }
    });
}

pub(super) unsafe extern "C" fn get_params(keydata: *mut c_void, params: *mut Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.get_params.map_or(0, |get| get(this.default_key(), params))
        }
    })
}

pub(super) unsafe extern "C" fn set_params(keydata: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            if this.take_share(ParamValues::new(params)) {
                return 1;
            }
            this.pair.mark_changed();
            functions.set_params.map_or(0, |set| set(this.default_key(), params))
        }
    })
}

pub(super) unsafe extern "C" fn settable_params<const ROW: usize>(provider: *mut c_void) -> *const Param {
    catch_panic(ptr::null(), || {
        // SAFETY: the call; the default provider, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, ROW) else { return ptr::null() };
            functions.settable_params.map_or(ptr::null(), |settable| settable(wrapped.default_provctx()))
        }
    })
}

pub(super) unsafe extern "C" fn has(keydata: *const c_void, selection: c_int) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.has.map_or(0, |has| has(this.default_key(), selection))
        }
    })
}

pub(super) unsafe extern "C" fn validate(keydata: *const c_void, selection: c_int, kind: c_int) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with its own key.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.validate.map_or(0, |validate| validate(this.default_key(), selection, kind))
        }
    })
}

pub(super) unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with its own keys.
        unsafe {
            let Some(((one, functions), (other, _))) = KeyData::borrow(one).zip(KeyData::borrow(other)) else {
                return 0;
            };
            functions.matches.map_or(0, |matches| matches(one.default_key(), other.default_key(), selection))
        }
    })
}

pub(super) unsafe extern "C" fn import(keydata: *mut c_void, selection: c_int, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            this.pair.mark_changed();
            functions.import.map_or(0, |import| import(this.default_key(), selection, params))
        }
    })
}

pub(super) unsafe extern "C" fn export(
    keydata: *mut c_void,
    selection: c_int,
    callback: ParamsCallback,
    data: *mut c_void,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with the call's arguments.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return 0 };
            functions.export.map_or(0, |export| export(this.default_key(), selection, callback, data))
        }
    })
}

pub(super) unsafe extern "C" fn dup(keydata: *const c_void, selection: c_int) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the call; the default provider, with its own key, which it copies.
        unsafe {
            let Some((this, functions)) = KeyData::borrow(keydata) else { return ptr::null_mut() };
            let default_key = functions.dup.map_or(ptr::null_mut(), |dup| dup(this.default_key(), selection));
            KeyData::into_raw(&*this.wrapped, default_key, this.has_properties.load(Ordering::Relaxed))
        }
    })
}
