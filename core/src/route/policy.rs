//! The interface of a policy.

use std::fmt;

use super::answer::Route;
use super::ask::Ask;

/// The choice of a device for requests.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Returns the name in the configuration, in tables and JSON.
    fn name(&self) -> &'static str;

    /// Chooses the device for the first of the requests. Called again for the remaining requests, and for a request whose device failed.
    /// Returns `None` if no device is suitable.
    fn route(&self, ask: &Ask<'_>) -> Option<Route>;

    /// Returns the number of requests like those in `ask` that a queue collects into a batch, within its coalescing time.
    /// Returns 1 if batches do not pay.
    fn batch_size(&self, ask: &Ask<'_>) -> usize {
        let _ = ask;
        1
    }
}
