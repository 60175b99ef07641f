//! The devices of a framework: whether they are trusted, their sessions and queue pairs, requests that wait for them, and their costs.

mod admission;
mod backlog;
mod bench;
mod calibrate;
mod candidates;
mod coalescer;
mod device;
mod health;
mod line;
mod pairs;
mod probe;
mod registry;
mod session_cache;

pub(crate) use admission::{UNDER_WAY, Urgency};
pub use backlog::Priority;
pub(crate) use backlog::Sender;
pub(crate) use calibrate::{Calibrations, cost_records, take_in_costs};
pub(crate) use candidates::Candidates;
pub(crate) use coalescer::{Coalescer, Common};
pub use device::{DeviceState, RegisteredDevice};
pub(crate) use line::{Learner, Line};
pub(crate) use probe::Machine;
pub(crate) use registry::Registry;
