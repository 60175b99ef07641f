//! Answers to programs about the provider: its name and version, and TLS groups.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::abi::fns::*;
use crate::abi::{self, Param};
use crate::groups::{GROUPS, Group};
use crate::libcrypto::catch_panic;
use crate::libcrypto::params::{self, ParamValues};
use crate::provider::Provider;
use crate::report;
use crate::table::KEY_TYPES;

/// Reports TLS groups. libssl uses a group only if the provider that reports it also provides the group's keys. So we report our own
/// groups, and the groups of the default provider whose keys we serve.
pub(super) unsafe extern "C" fn capabilities(
    provider: *mut c_void,
    capability: *const c_char,
    callback: ParamsCallback,
    data: *mut c_void,
) -> c_int {
    struct GroupQuery<'c> {
        this: &'c Provider,
        callback: ParamsCallback,
        data: *mut c_void,
    }
    unsafe extern "C" fn report_group(params: *const Param, query: *mut c_void) -> c_int {
        catch_panic(0, || {
            // SAFETY: `query` points to the `GroupQuery` below, which outlives this call; the default provider: a table with its end.
            let (query, values) = unsafe { (&*query.cast::<GroupQuery<'_>>(), ParamValues::new(params)) };
            let row =
                values.text(c"tls-group-alg").and_then(|name| KEY_TYPES.iter().find(|row| row.name.as_bytes() == name));
            let is_served = row.is_some_and(|row| query.this.selects(abi::OSSL_OP_KEYMGMT, row));
            // SAFETY: the call, with the default provider's parameters.
            if is_served { unsafe { (query.callback)(params, query.data) } } else { 1 }
        })
    }
    catch_panic(0, || {
        // SAFETY: the call: the context from `OSSL_provider_init`, and a string.
        let (this, name) = unsafe { (&*provider.cast::<Provider>(), CStr::from_ptr(capability)) };
        if !name.to_bytes().eq_ignore_ascii_case(b"TLS-GROUP") {
            return 1;
        }
        // Without the default provider there are no keys. A program may still load it later.
        if this.serves_own_groups() && this.default_provider.query_operation().is_some() {
            let mut groups = GROUPS.iter().filter(|group| this.has_curve_of(group));
            // SAFETY: the call.
            if !groups.all(|group| unsafe { report_own_group(group, callback, data) } == 1) {
                return 0;
            }
        }
        let Some(get_capabilities) = this.default_provider.get_capabilities() else { return 1 };
        let mut query = GroupQuery { this, callback, data };
        // SAFETY: the default provider, with its own context, the call's arguments, and a function that it calls before it returns.
        unsafe { get_capabilities(this.default_provider.provctx(), capability, report_group, (&raw mut query).cast()) }
    })
}

/// Reports a group that the default provider does not have, for TLS 1.3 and later but not for DTLS.
///
/// # Safety
///
/// The call: a function, and its data.
unsafe fn report_own_group(group: &Group, callback: ParamsCallback, data: *mut c_void) -> c_int {
    const TLS1_3: c_int = 0x0304;
    const ABSENT: c_int = -1;
    let (id, bits) = (group.id.cast_signed(), c_int::from(group.security_bits));
    let table = [
        Param::text(c"tls-group-name", group.name),
        Param::text(c"tls-group-name-internal", group.name),
        Param::text(c"tls-group-alg", group.key_type),
        Param::integer(c"tls-group-id", &id),
        Param::integer(c"tls-group-sec-bits", &bits),
        Param::integer(c"tls-group-is-kem", &1),
        Param::integer(c"tls-min-tls", &TLS1_3),
        Param::integer(c"tls-max-tls", &0),
        Param::integer(c"tls-min-dtls", &ABSENT),
        Param::integer(c"tls-max-dtls", &ABSENT),
        params::end(),
    ];
    // SAFETY: as the caller promises, with a terminated table.
    unsafe { callback(table.as_ptr(), data) }
}

const TEXT_PARAMS: [(&CStr, &CStr); 3] = [(c"name", c"Gantry"), (c"version", VERSION), (c"buildinfo", VERSION)];

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("the version contains no NUL"),
};

struct ParamTable([Param; 5]);

// SAFETY: constant names without data.
unsafe impl Sync for ParamTable {}

const fn text(key: &'static CStr) -> Param {
    let data_type = abi::OSSL_PARAM_UTF8_PTR as u32;
    Param { key: key.as_ptr(), data_type, data: ptr::null_mut(), data_size: 0, return_size: 0 }
}

static GETTABLE: ParamTable = ParamTable([
    text(c"name"),
    text(c"version"),
    text(c"buildinfo"),
    Param { data_type: abi::OSSL_PARAM_INTEGER as u32, ..text(c"status") },
    params::end(),
]);

pub(super) unsafe extern "C" fn gettable(_: *mut c_void) -> *const Param {
    GETTABLE.0.as_ptr()
}

pub(super) unsafe extern "C" fn get(provider: *mut c_void, table: *mut Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call: the context from `OSSL_provider_init`.
        let provider = unsafe { &*provider.cast::<Provider>() };
        // `gantry` commands start measurements with `openssl list -providers`, which queries these parameters.
        if let Some((file, only)) = provider.settings.measure.as_ref().filter(|(file, _)| !file.exists()) {
            report::write_new_file(file, &report::measurement_report(provider, only.as_deref()));
        }
        for (key, value) in TEXT_PARAMS {
            // SAFETY: the call: a table with its end.
            if let Some(param) = unsafe { params::find_mut(table, key) }
                && param.data_type.cast_signed() == abi::OSSL_PARAM_UTF8_PTR
                && !param.data.is_null()
            {
                // SAFETY: the call: there is room for a pointer.
                unsafe { param.data.cast::<*const c_char>().write(value.as_ptr()) };
                param.return_size = value.count_bytes();
            }
        }
        // SAFETY: the call: a table with its end.
        if let Some(param) = unsafe { params::find_mut(table, c"status") }
            && param.data_size == size_of::<c_int>()
            && !param.data.is_null()
        {
            // SAFETY: the call: there is room for a number of this size.
            unsafe { param.data.cast::<c_int>().write_unaligned(1) };
            param.return_size = size_of::<c_int>();
        }
        1
    })
}
