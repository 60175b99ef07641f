//! Chooses the device of each request: core asks a [`Policy`], which answers with a [`Route`].
//!
//! A policy sees only data: candidates with their capabilities, costs and loads. It sees no session.

mod answer;
mod ask;
mod break_even;
mod candidate;
mod cost;
mod fixed;
mod learned;
mod ledger;
mod measured;
mod measurement;
mod meter;
mod pace;
mod policy;
mod record;
mod savings;
mod table;

pub use answer::Route;
pub use ask::{Ask, Choice};
pub(crate) use ask::{Calibrator, Needs, Question, RequestSizes, Sizes};
pub use break_even::BreakEven;
pub(crate) use candidate::{Candidate, Load};
pub use cost::{Costs, Estimate};
pub use fixed::{Failover, Pin, RoundRobin, SizeThreshold};
pub use learned::{Learned, MAX_OFFLOAD_SLOWDOWN};
pub(crate) use ledger::Ledgers;
pub(crate) use measured::Measured;
pub(crate) use measurement::{Measurement, learn};
pub(crate) use meter::Meter;
pub use policy::Policy;
pub use record::{CostCell, CostRecord, CostStore};
pub use savings::{Savings, SizeSet};
pub use table::{BYTES, REQUESTS};

pub use crate::stats::Reason;
