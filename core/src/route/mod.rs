//! Where requests run. A [`Policy`] is asked; it answers with a [`Route`].
//!
//! Everything here is data: candidates with what they offer, what they cost and how much is in them. No policy sees a session.

mod answer;
mod ask;
mod break_even;
mod candidate;
mod cost;
mod fixed;
mod learned;
mod ledger;
mod lesson;
mod policy;
mod record;

pub use answer::{BatchSize, Route};
pub use ask::{Ask, Choice};
pub(crate) use ask::{Calibrator, Needs, Question, RequestSizes, Sizes};
pub use break_even::BreakEven;
pub(crate) use candidate::{Candidate, Load};
pub(crate) use cost::Grid;
pub use cost::{BYTES, Costs, Estimate, REQUESTS};
pub use fixed::{Failover, Pin, RoundRobin, SizeThreshold};
pub use learned::{Learned, PATIENCE};
pub(crate) use ledger::Ledgers;
pub(crate) use lesson::{Measurement, learn};
pub use policy::Policy;
pub use record::{CostRecord, CostStore};

pub use crate::stats::Reason;
