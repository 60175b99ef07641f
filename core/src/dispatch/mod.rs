//! From a caller's requests to devices and back: sessions on devices, groups of requests, queue pairs, backlogs, and the
//! coalescer of several threads.

mod admission;
mod backlog;
mod batch;
mod calibrate;
mod coalescer;
mod common;
mod device;
mod direct;
mod dispatcher;
mod experiment;
mod framework;
mod group;
mod health;
mod inbox;
mod limits;
mod line;
mod list;
mod loan;
mod meet;
mod pair;
mod pool;
#[cfg(all(test, loom))]
pub(crate) mod races;
mod repair;
mod request;
mod session;
mod session_cache;
mod shared;
mod slots;
mod stack;
mod streams;
mod submission;

pub use backlog::Priority;
pub(crate) use backlog::Sender;
pub(crate) use calibrate::Calibrations;
pub(crate) use coalescer::{Coalescer, LONGEST, Waits};
pub(crate) use common::Common;
pub use device::{DeviceState, RegisteredDevice};
pub(crate) use dispatcher::{Dispatcher, run_on_ring};
pub(crate) use framework::Devices;
pub use framework::{Gantry, WeakGantry};
pub(crate) use group::Group;
pub(crate) use inbox::Inbox;
pub(crate) use list::{Handle, List};
pub use meet::Presence;
pub(crate) use meet::SMALLEST;
pub(crate) use request::Bound;
pub use request::Request;
pub(crate) use session::SessionCore;
pub(crate) use slots::{Held, Slots};
pub use submission::Submission;
