//! What a policy is.

use std::fmt;

use super::answer::Route;
use super::ask::Ask;

/// What a route optimises.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The name in the configuration, in tables and JSON.
    fn name(&self) -> &'static str;

    /// Where the first of the requests in hand run. Called again for those that the answer leaves over, and for a
    /// request whose device failed. `None` when none of the choices will do.
    fn route(&self, ask: &Ask<'_>) -> Option<Route>;

    /// How many requests like the one in hand a queue waits for, for at most its coalescing time. 1 where batches do not pay.
    fn batch_size(&self, ask: &Ask<'_>) -> usize {
        let _ = ask;
        1
    }
}
