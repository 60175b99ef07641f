//! Between requests and devices: sessions on devices, direct calls, batches, and the memory of queues.

mod batch;
mod collect;
mod direct;
mod dispatcher;
mod framework;
mod group;
#[cfg(all(test, loom))]
pub(crate) mod races;
mod session;
mod slots;
mod streams;

pub(crate) use dispatcher::Dispatcher;
pub(crate) use framework::Devices;
pub use framework::{Gantry, WeakGantry};
pub(crate) use group::Group;
pub(crate) use session::SessionCore;
pub(crate) use slots::{Slots, TakenSlot};
