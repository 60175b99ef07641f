//! The entry point of the module, and the functions of the provider itself.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::{Once, OnceLock};

use gantry_runtime::rights::variable;

use super::tables::{self, dispatch};
use super::{group_keys, kem, provider_info};
use crate::abi::fns::*;
use crate::abi::{self, AlgorithmRow, CoreHandle, Dispatch};
use crate::config::Settings;
use crate::counters;
use crate::libcrypto::catch_panic;
use crate::libcrypto::core::{Core, DispatchTable};
use crate::provider::Provider;
use crate::startup::Startup;

/// Returns the properties by which queries select our algorithms. By default, Gantry's configuration adds
/// `?provider=gantry,?gantry.serves=yes` to each query. A program with keys in hardware queries another provider, for example
/// `?provider=tpm2`, which replaces only the first of these clauses. So key types and their operations lack `gantry.serves`: the program
/// then finds all of them in the other provider.
fn properties_of(operation: c_int) -> &'static CStr {
    match operation {
        abi::OSSL_OP_KEYMGMT | abi::OSSL_OP_KEYEXCH | abi::OSSL_OP_SIGNATURE | abi::OSSL_OP_KEM => c"provider=gantry",
        // Properties outside OpenSSL's own names need a dot.
        _ => c"provider=gantry,gantry.serves=yes",
    }
}

/// Returns the rows of an operation, with our tables; null if there are none.
fn rows_of(provider: &Provider, operation: c_int) -> *const AlgorithmRow {
    let wrapped = wrapped_rows(provider, operation);
    let (index, tables) = match operation {
        abi::OSSL_OP_KEYMGMT if provider.serves_own_groups() => (0, group_keys::tables()),
        abi::OSSL_OP_KEM if provider.serves_own_groups() => (1, kem::tables()),
        _ => return wrapped.map_or(ptr::null(), <[_]>::as_ptr),
    };
    let rows = provider.group_rows[index].get_or_init(|| {
        let wrapped = wrapped.unwrap_or_default().iter().copied().filter(|row| !row.names.is_null());
        wrapped.chain(group_keys::rows(tables)).chain([AlgorithmRow::END]).collect()
    });
    rows.as_ptr()
}

/// Returns the rows of the default provider's algorithms that we serve, with the terminator.
fn wrapped_rows(provider: &Provider, operation: c_int) -> Option<&[AlgorithmRow]> {
    let served = provider.served_algorithms(operation)?;
    let rows = served.rows.get_or_init(|| {
        let properties = properties_of(operation).as_ptr();
        let each = served.wrapped.iter().enumerate().filter_map(|(row, wrapped)| Some((row, wrapped.as_ref()?)));
        let rows = each.map(|(row, wrapped)| {
            let dispatch = wrapped.dispatch.get_or_init(|| tables::dispatch_table(wrapped, row));
            AlgorithmRow { properties, implementation: dispatch.as_ptr(), ..wrapped.default_row }
        });
        rows.chain([AlgorithmRow::END]).collect()
    });
    Some(rows)
}

unsafe extern "C" fn query_operation(
    provider: *mut c_void,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const AlgorithmRow {
    catch_panic(ptr::null(), || {
        // SAFETY: the call: the context from `OSSL_provider_init`.
        let this = unsafe { &*provider.cast::<Provider>() };
        // A program may still load the default provider later, so the core must not cache the empty answer.
        let lacks_default_provider = this.default_provider.query_operation().is_none();
        if !no_cache.is_null() {
            // SAFETY: the call.
            unsafe { *no_cache = c_int::from(lacks_default_provider) };
        }
        if lacks_default_provider { ptr::null() } else { rows_of(this, operation) }
    })
}

unsafe extern "C" fn teardown(provider: *mut c_void) {
    catch_panic((), || {
        let provider = provider.cast::<Provider>();
        // SAFETY: ours: the provider is freed only here, after the last callback that uses it.
        unsafe {
            (*provider).default_provider.unwatch_providers();
            drop(Box::from_raw(provider));
        }
    });
}

/// The entry point, called once for each library context that loads the module.
///
/// # Safety
///
/// The core calls it as specified in provider-base(7).
#[unsafe(no_mangle)]
#[allow(unreachable_pub, reason = "the module's only symbol")]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const CoreHandle,
    upcalls: *const Dispatch,
    table: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    static TABLE: OnceLock<[Dispatch; 6]> = OnceLock::new();
    // Silences the panics that we catch. This module has its own copy of std, so the program's panic hook does not change.
    static SET_PANIC_HOOK: Once = Once::new();
    catch_panic(0, || {
        SET_PANIC_HOOK.call_once(|| std::panic::set_hook(Box::new(|_| {})));
        // SAFETY: the call: a terminated table that stays valid.
        let Some(core) = Core::new(handle, unsafe { DispatchTable::new(upcalls) }) else { return 0 };
        let functions = TABLE.get_or_init(|| {
            let [a, b, c, d, e] = dispatch! {
                OSSL_FUNC_PROVIDER_TEARDOWN => teardown, Teardown;
                OSSL_FUNC_PROVIDER_GETTABLE_PARAMS => provider_info::gettable, Gettable;
                OSSL_FUNC_PROVIDER_GET_PARAMS => provider_info::get, GetParams;
                OSSL_FUNC_PROVIDER_QUERY_OPERATION => query_operation, QueryOperation;
                OSSL_FUNC_PROVIDER_GET_CAPABILITIES => provider_info::capabilities, GetCapabilities;
            };
            let end = Dispatch { id: 0, function: None };
            [a, b, c, d, e, end]
        });
        let is_disabled = variable("GANTRY_DISABLE").is_some_and(|value| value == "1");
        let settings =
            if is_disabled { Ok(Settings::serving_nothing()) } else { Settings::read(|key| core.config_value(key)) };
        let settings = match settings {
            Ok(settings) => settings,
            Err(sentence) => {
                core.raise(abi::ERR_R_CONF_LIB, &format!("gantry: {sentence}"));
                gantry_runtime::stats::report_problem(&sentence);
                return 0;
            }
        };
        let tallies = if is_disabled { None } else { counters::tallies(settings.runtime.stats()) };
        let startup = if is_disabled { Startup::default() } else { Startup::new(&settings) };
        let provider = Box::into_raw(Box::new(Provider::new(core, settings, startup, tallies)));
        // SAFETY: ours: it is not moved before `teardown`, which first stops the callbacks.
        if !unsafe { (*provider).default_provider.watch_providers() } {
            // SAFETY: ours: not shared yet.
            unsafe { teardown(provider.cast()) };
            return 0;
        }
        // SAFETY: the call.
        unsafe {
            *table = functions.as_ptr();
            *context = provider.cast();
        }
        1
    })
}
