//! Guards calls into drivers: a panic becomes a fault of the device.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::algorithm::Fault;

/// Calls `call` and turns a panic into [`Fault::Panicked`].
#[inline]
pub(crate) fn call_guarded<T, E: From<Fault>>(call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // Keeps the error apart: a nested `Result` would be copied with every byte of its largest variant.
    let mut error = None;
    match catch_panic(|| call().map_err(|reported| error = Some(reported)).ok()) {
        Ok(answer) => answer.ok_or_else(|| error.expect("there is an answer or an error")),
        Err(fault) => Err(fault.into()),
    }
}

/// Calls a function that cannot fail, and turns a panic into [`Fault::Panicked`].
///
/// After a panic core trusts no state of the driver: it quarantines the device, and does not use data again that the driver
/// was changing in place ([`Fault::corrupts_data`]).
#[inline]
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Fault::Panicked)
}
