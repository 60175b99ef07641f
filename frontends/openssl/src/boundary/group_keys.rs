//! Our functions for keys of post-quantum TLS groups, which OpenSSL calls. Only releases before 3.5 get these functions: from 3.5 on, the
//! default provider has such keys.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use super::tables::dispatch;
use crate::abi::fns::*;
use crate::abi::{self, AlgorithmRow, Dispatch, Param};
use crate::groups::{GROUPS, Group};
use crate::libcrypto::{ParamQuery, ParamValues, catch_panic, params};
use crate::modes::group::{GroupKey, RefusalReason};
use crate::provider::Provider;

/// The core's `keydata`: an `Arc`, shared with contexts.
pub(super) struct GroupKeyData {
    provider: *const Provider,
    pub(super) key: GroupKey,
}

// SAFETY: the default provider: a key is not bound to a thread; ours: the provider may be used on any thread.
unsafe impl Send for GroupKeyData {}
// SAFETY: a key does not change once it is set, and threads set it under a lock.
unsafe impl Sync for GroupKeyData {}

impl GroupKeyData {
    fn into_raw(provider: *const Provider, key: GroupKey) -> *mut c_void {
        Arc::into_raw(Arc::new(Self { provider, key })).cast_mut().cast()
    }

    pub(super) fn provider(&self) -> &Provider {
        // SAFETY: ours: the provider outlives its keys.
        unsafe { &*self.provider }
    }

    /// Returns `None` for null.
    ///
    /// # Safety
    ///
    /// The call: null, or a key from `into_raw` that is not freed.
    unsafe fn borrow<'c>(keydata: *const c_void) -> Option<&'c Self> {
        // SAFETY: as the caller promises.
        unsafe { keydata.cast::<Self>().as_ref() }
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

    /// Puts the reason of a refusal on the error stack, and returns 0.
    fn raise_refusal(&self, reason: RefusalReason) -> c_int {
        self.provider().raise_refusal(self.key.group, reason);
        0
    }

    /// Sets the share of a peer. If it is invalid, puts the reason on the error stack and returns 0.
    fn set_peer(&self, share: &[u8]) -> c_int {
        match self.key.set_peer(self.provider(), share) {
            Ok(()) => 1,
            Err(reason) => self.raise_refusal(reason),
        }
    }
}

/// The core's `genctx`.
struct Generator {
    provider: *const Provider,
    group: &'static Group,
    selection: c_int,
}

unsafe extern "C" fn new<const GROUP: usize>(provider: *mut c_void) -> *mut c_void {
    catch_panic(ptr::null_mut(), || GroupKeyData::into_raw(provider.cast(), GroupKey::new(&GROUPS[GROUP])))
}

unsafe extern "C" fn free(keydata: *mut c_void) {
    catch_panic((), || {
        if !keydata.is_null() {
            // SAFETY: ours: the core's reference, which it releases once.
            drop(unsafe { Arc::from_raw(keydata.cast_const().cast::<GroupKeyData>()) });
        }
    });
}

unsafe extern "C" fn gen_init<const GROUP: usize>(
    provider: *mut c_void,
    selection: c_int,
    params: *const Param,
) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        let generator =
            Box::into_raw(Box::new(Generator { provider: provider.cast(), group: &GROUPS[GROUP], selection }));
        // SAFETY: ours, just made; the call's parameters.
        if unsafe { gen_set_params(generator.cast(), params) } == 1 {
            return generator.cast();
        }
        // SAFETY: ours: not shared yet.
        drop(unsafe { Box::from_raw(generator) });
        ptr::null_mut()
    })
}

/// Refuses every group name except the key type's own. libssl sets this name.
unsafe extern "C" fn gen_set_params(context: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call: a context from `gen_init`, and a table or null.
        let (this, values) = unsafe { (&*context.cast::<Generator>(), ParamValues::new(params)) };
        let is_ours = |name: &[u8]| {
            [this.group.name, this.group.key_type].iter().any(|ours| ours.to_bytes().eq_ignore_ascii_case(name))
        };
        if !values.has(c"group") || values.text(c"group").is_some_and(is_ours) {
            return 1;
        }
        // SAFETY: ours: the provider outlives its contexts.
        unsafe { &*this.provider }.raise_refusal(this.group, "keys of this type have another group");
        0
    })
}

unsafe extern "C" fn generate(context: *mut c_void, _: Option<ParamsCallback>, _: *mut c_void) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the call: a context from `gen_init`; the provider outlives it.
        let (this, provider) = unsafe { (&*context.cast::<Generator>(), &*(*context.cast::<Generator>()).provider) };
        // Only parameters are wanted: the key knows its group, and receives the share of a peer later.
        if this.selection & abi::OSSL_KEYMGMT_SELECT_KEYPAIR == 0 {
            return GroupKeyData::into_raw(provider, GroupKey::new(this.group));
        }
        if provider.raise_if_forced(this.group) {
            return ptr::null_mut();
        }
        match GroupKey::generate(provider, this.group) {
            Ok(key) => GroupKeyData::into_raw(provider, key),
            Err(reason) => {
                provider.raise_refusal(this.group, reason);
                ptr::null_mut()
            }
        }
    })
}

unsafe extern "C" fn gen_cleanup(context: *mut c_void) {
    catch_panic((), || {
        if !context.is_null() {
            // SAFETY: ours: made by `gen_init`, and the core frees it once.
            drop(unsafe { Box::from_raw(context.cast::<Generator>()) });
        }
    });
}

unsafe extern "C" fn get_params(keydata: *mut c_void, params: *mut Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, mut query) = unsafe { (GroupKeyData::borrow(keydata), ParamQuery::new(params)) };
        let Some(this) = this else { return 0 };
        let key = &this.key;
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let mut good = query.put_number(c"bits", key.group.ml_kem_bits())
            && query.put_number(c"security-bits", key.group.security_bits)
            && query.put_number(c"max-size", small(key.group.server_share_len()));
        for name in [c"encoded-pub-key", c"pub"] {
            good &= key.public().is_none_or(|public| query.put_octets(name, public));
        }
        if good { 1 } else { this.raise_refusal("a parameter has another type, or no room for its value") }
    })
}

unsafe extern "C" fn set_params(keydata: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, values) = unsafe { (GroupKeyData::borrow(keydata), ParamValues::new(params)) };
        let Some(this) = this else { return 0 };
        if !values.has(c"encoded-pub-key") {
            return 1;
        }
        values
            .octets(c"encoded-pub-key")
            .map_or_else(|| this.raise_refusal("the share is no string"), |share| this.set_peer(share))
    })
}

unsafe extern "C" fn import(keydata: *mut c_void, _: c_int, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, values) = unsafe { (GroupKeyData::borrow(keydata), ParamValues::new(params)) };
        // Private keys stay where they were made.
        let share = values.octets(c"pub").filter(|_| !values.has(c"priv"));
        let Some(this) = this else { return 0 };
        share.map_or_else(|| this.raise_refusal("only public keys are imported"), |share| this.set_peer(share))
    })
}

unsafe extern "C" fn has(keydata: *const c_void, selection: c_int) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let Some(this) = (unsafe { GroupKeyData::borrow(keydata) }) else { return 0 };
        let wants = |bit: c_int| selection & bit != 0;
        c_int::from(
            (!wants(abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY) || this.key.public().is_some())
                && (!wants(abi::OSSL_KEYMGMT_SELECT_PRIVATE_KEY) || this.key.has_private()),
        )
    })
}

unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let both = unsafe { GroupKeyData::borrow(one).zip(GroupKeyData::borrow(other)) };
        let Some((one, other)) = both else { return 0 };
        let compares = selection & abi::OSSL_KEYMGMT_SELECT_KEYPAIR != 0;
        let same_group = one.key.group.id == other.key.group.id;
        c_int::from(same_group && (!compares || (one.key.public().is_some() && one.key.public() == other.key.public())))
    })
}

/// A terminated table of parameters without data: it lists only their names and types.
struct Names<const N: usize>([Param; N]);

// SAFETY: constant names without data.
unsafe impl<const N: usize> Sync for Names<N> {}

const fn named(key: &'static std::ffi::CStr, data_type: c_int) -> Param {
    Param {
        key: key.as_ptr(),
        data_type: data_type.cast_unsigned(),
        data: ptr::null_mut(),
        data_size: 0,
        return_size: 0,
    }
}

static GETTABLE: Names<6> = Names([
    named(c"bits", abi::OSSL_PARAM_INTEGER),
    named(c"security-bits", abi::OSSL_PARAM_INTEGER),
    named(c"max-size", abi::OSSL_PARAM_INTEGER),
    named(c"encoded-pub-key", abi::OSSL_PARAM_OCTET_STRING),
    named(c"pub", abi::OSSL_PARAM_OCTET_STRING),
    params::end(),
]);
static SETTABLE: Names<2> = Names([named(c"encoded-pub-key", abi::OSSL_PARAM_OCTET_STRING), params::end()]);
static IMPORTABLE: Names<2> = Names([named(c"pub", abi::OSSL_PARAM_OCTET_STRING), params::end()]);
static GENERATOR: Names<2> = Names([named(c"group", abi::OSSL_PARAM_UTF8_STRING), params::end()]);

unsafe extern "C" fn gettable(_: *mut c_void) -> *const Param {
    GETTABLE.0.as_ptr()
}

unsafe extern "C" fn settable(_: *mut c_void) -> *const Param {
    SETTABLE.0.as_ptr()
}

unsafe extern "C" fn gen_settable(_: *mut c_void, _: *mut c_void) -> *const Param {
    GENERATOR.0.as_ptr()
}

unsafe extern "C" fn import_types(_: c_int) -> *const Param {
    IMPORTABLE.0.as_ptr()
}

fn table<const GROUP: usize>() -> Box<[Dispatch]> {
    let entries = dispatch! {
        OSSL_FUNC_KEYMGMT_NEW => new::<GROUP>, NewCtx;
        OSSL_FUNC_KEYMGMT_FREE => free, FreeCtx;
        OSSL_FUNC_KEYMGMT_GEN_INIT => gen_init::<GROUP>, KeyGenInit;
        OSSL_FUNC_KEYMGMT_GEN_SET_PARAMS => gen_set_params, SetParams;
        OSSL_FUNC_KEYMGMT_GEN_SETTABLE_PARAMS => gen_settable, GettableCtx;
        OSSL_FUNC_KEYMGMT_GEN => generate, KeyGen;
        OSSL_FUNC_KEYMGMT_GEN_CLEANUP => gen_cleanup, FreeCtx;
        OSSL_FUNC_KEYMGMT_GET_PARAMS => get_params, GetParams;
        OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS => gettable, Gettable;
        OSSL_FUNC_KEYMGMT_SET_PARAMS => set_params, SetParams;
        OSSL_FUNC_KEYMGMT_SETTABLE_PARAMS => settable, Gettable;
        OSSL_FUNC_KEYMGMT_HAS => has, KeyHas;
        OSSL_FUNC_KEYMGMT_MATCH => matches, KeyMatch;
        OSSL_FUNC_KEYMGMT_IMPORT => import, KeyImport;
        OSSL_FUNC_KEYMGMT_IMPORT_TYPES => import_types, KeyTypes;
    };
    entries.into_iter().chain([Dispatch { id: 0, function: None }]).collect()
}

/// Returns one row for each group, under the names of the group's keys. `tables` has one table for each group, or a single table that all
/// rows share.
pub(super) fn rows(tables: &'static [Box<[Dispatch]>]) -> impl Iterator<Item = AlgorithmRow> {
    GROUPS.iter().zip(tables.iter().cycle()).map(|(group, table)| AlgorithmRow {
        names: group.key_type_names.as_ptr(),
        properties: c"provider=gantry".as_ptr(),
        implementation: table.as_ptr(),
        description: ptr::null(),
    })
}

/// Returns our key management tables, one for each group.
pub(super) fn tables() -> &'static [Box<[Dispatch]>] {
    static TABLES: OnceLock<[Box<[Dispatch]>; GROUPS.len()]> = OnceLock::new();
    TABLES.get_or_init(|| [table::<0>(), table::<1>(), table::<2>(), table::<3>(), table::<4>(), table::<5>()])
}
