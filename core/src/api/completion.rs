//! What a queue gives back.

use crate::algorithm::{Misuse, Outcome, Result};
use crate::request::Submission;
use crate::route::Route;

/// Names a request of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) sequence: u64,
}

/// A submission that was not taken, with its buffers.
#[derive(Debug)]
pub struct Rejected {
    /// As it was given.
    pub submission: Submission,
    /// Why.
    pub why: Why,
}

/// Why a submission was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The queue holds as much as it may. Complete something first.
    #[error("the queue is full")]
    Full,
    /// The call was wrong.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// A finished request. There is exactly one for every submission that was taken, unless it was cancelled.
#[derive(Debug)]
pub struct Completion {
    /// What `submit` answered with.
    pub ticket: Ticket,
    /// The caller's number.
    pub user: u64,
    /// How it ended. An error means that no device was left that could do it.
    pub result: Result<Outcome>,
    /// Where it ran, and why there.
    pub route: Option<Route>,
    /// The buffers, with the result in them.
    pub submission: Submission,
}
