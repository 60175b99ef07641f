//! What a program can ask a provider for: its name and version, and groups of TLS.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::guard;
use super::params::{self, Answers};
use super::provider::Provider;
use crate::abi::fns::*;
use crate::abi::{self, Param};
use crate::report;
use crate::table::KEYS;

/// Groups of TLS: libssl uses a group only if the provider that names it is the one from which it gets the keys of that group.
/// We name those of the default provider of which we serve the keys.
pub(super) unsafe extern "C" fn capabilities(
    provider: *mut c_void,
    capability: *const c_char,
    tell: ParamsCallback,
    data: *mut c_void,
) -> c_int {
    struct Asked<'c> {
        this: &'c Provider,
        tell: ParamsCallback,
        data: *mut c_void,
    }
    unsafe extern "C" fn told(params: *const Param, asked: *mut c_void) -> c_int {
        guard(0, || {
            // SAFETY: what is given below; the host: a table with its end.
            let (asked, told) = unsafe { (&*asked.cast::<Asked<'_>>(), Answers::new(params)) };
            let row = told.text(c"tls-group-alg").and_then(|name| KEYS.iter().find(|row| row.name.as_bytes() == name));
            let ours = row.is_some_and(|row| asked.this.selects(abi::OSSL_OP_KEYMGMT, row));
            // SAFETY: the call, with what the host says.
            if ours { unsafe { (asked.tell)(params, asked.data) } } else { 1 }
        })
    }
    guard(0, || {
        // SAFETY: the call: what `OSSL_provider_init` gave out, and a string.
        let (this, name) = unsafe { (&*provider.cast::<Provider>(), CStr::from_ptr(capability)) };
        let theirs = this.default.capabilities().filter(|_| name.to_bytes().eq_ignore_ascii_case(b"TLS-GROUP"));
        let Some(theirs) = theirs else { return 1 };
        let mut asked = Asked { this, tell, data };
        // SAFETY: the host, with its own context, what the call brought, and a function that is called before it returns.
        unsafe { theirs(this.default_ctx(), capability, told, (&raw mut asked).cast()) }
    })
}

const ABOUT: [(&CStr, &CStr); 3] = [(c"name", c"Gantry"), (c"version", VERSION), (c"buildinfo", VERSION)];

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero inside"),
};

struct Table([Param; 5]);

// SAFETY: constant names, and no data.
unsafe impl Sync for Table {}

const fn text(key: &'static CStr) -> Param {
    let data_type = abi::OSSL_PARAM_UTF8_PTR as u32;
    Param { key: key.as_ptr(), data_type, data: ptr::null_mut(), data_size: 0, return_size: 0 }
}

static GETTABLE: Table = Table([
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
    guard(0, || {
        // SAFETY: the call: what `OSSL_provider_init` gave out.
        let provider = unsafe { &*provider.cast::<Provider>() };
        if let Some((file, only)) = provider.settings.measure.as_ref().filter(|(file, _)| !file.exists()) {
            report::write(file, &provider.measured(only.as_deref()));
        }
        for (key, value) in ABOUT {
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
