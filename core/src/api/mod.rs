//! The public API: the framework's builder, sessions, streams, queues, requests as futures, and routing for callers that are devices.

mod builder;
mod caller_device;
mod completion;
#[cfg(feature = "futures")]
mod late_timer;
mod pending_group;
mod queue;
mod queue_options;
mod queue_sessions;
mod session;
mod stream;
#[cfg(feature = "futures")]
mod task_queue;

pub use builder::GantryBuilder;
pub use caller_device::CallerDevice;
pub use completion::{Completion, RejectReason, Rejected, Ticket};
pub use queue::Queue;
pub use queue_options::QueueOptions;
pub use session::Session;
pub use stream::{AeadStream, CipherStream, Stream};
#[cfg(feature = "futures")]
pub use task_queue::{RequestFuture, TaskQueue};
