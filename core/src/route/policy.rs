//! What a policy is.

use std::fmt;

use super::answer::{BatchSize, Route};
use super::ask::Ask;

/// What a route optimises.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The name in the configuration, in tables and JSON.
    fn name(&self) -> &'static str;

    /// Where the first of the requests in hand run. Called again for those that the answer leaves over, and for a
    /// request whose device failed. `None` when none of the choices will do.
    fn route(&self, ask: &Ask<'_>) -> Option<Route>;

    /// The batch that is worth waiting for, for a request like the one in hand, where at most `most` can come together.
    fn batch_size(&self, ask: &Ask<'_>, most: usize) -> BatchSize {
        let _ = (ask, most);
        BatchSize::ONE
    }

    /// Whether a synchronous call may let other threads run until a batch has come together. A policy that cares for the
    /// time of each request does not want that.
    fn coalesces(&self) -> bool {
        false
    }
}
