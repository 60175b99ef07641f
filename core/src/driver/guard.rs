//! Calls into drivers: one that panics is a fault of its device, and of nobody else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::algorithm::Fault;

/// What `call` answers; a panic is [`Fault::Panicked`].
#[inline]
pub(crate) fn guarded<T, E: From<Fault>>(call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // Not one `Result`, of which every byte would be copied, written or not.
    let mut error = None;
    match survived(|| call().map_err(|said| error = Some(said)).ok()) {
        Ok(answer) => answer.ok_or_else(|| error.expect("there is an answer or an error")),
        Err(fault) => Err(fault.into()),
    }
}

/// The same for a call that cannot fail.
///
/// What it left half-done is the driver's, and core trusts none of it: the device is quarantined, and what it was to change in
/// place is not used again ([`Fault::spoils`]).
#[inline]
pub(crate) fn survived<T>(call: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Fault::Panicked)
}
