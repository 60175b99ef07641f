//! Tickets, completions and rejected submissions.

use crate::algorithm::{Misuse, Outcome, Result};
use crate::request::Submission;
use crate::route::Route;

/// Identifies a request of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) sequence: u64,
}

/// A submission that the queue did not take, with its buffers.
#[derive(Debug)]
pub struct Rejected {
    /// The submission, unchanged.
    pub submission: Submission,
    /// The reason.
    pub why: RejectReason,
}

/// The reason for rejecting a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// The queue is full. Complete a request first.
    #[error("the queue is full")]
    Full,
    /// The caller made a mistake.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// A finished request. Every accepted submission gets exactly one completion, unless the submission was cancelled.
#[derive(Debug)]
pub struct Completion {
    /// The ticket from `submit`.
    pub ticket: Ticket,
    /// The number that the caller gave the submission.
    pub user: u64,
    /// The outcome. An error means that no device could run the request.
    pub result: Result<Outcome>,
    /// The device that ran the request or last failed to run it, and the reason for choosing it. `None` if no device got the request.
    pub route: Option<Route>,
    /// The buffers, with the result in them.
    pub submission: Submission,
}
