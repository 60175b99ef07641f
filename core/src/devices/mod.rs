//! The devices of a framework: trust, sessions, queue pairs, backlogs and costs.

mod active_pair;
mod admission;
mod backlog;
mod calibrate;
mod candidates;
mod coalescer;
mod device;
mod health;
mod pairs;
mod probe;
mod registry;
mod session_cache;
mod test_bench;

pub(crate) use active_pair::{ActivePair, Learner};
pub(crate) use admission::{TEST_RUNNING, TestWait};
pub use backlog::Priority;
pub(crate) use backlog::Sender;
pub(crate) use calibrate::{Calibrations, cost_records, import_record};
pub(crate) use candidates::Candidates;
pub(crate) use coalescer::{Coalescer, CommonState};
pub use device::{DeviceState, RegisteredDevice};
pub(crate) use probe::CalibrationContext;
pub(crate) use registry::Registry;
