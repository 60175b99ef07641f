//! What a program sees: the framework's builder, sessions, streams, queues, requests as futures, and routes beside its own code.

mod beside;
mod builder;
mod completion;
mod queue;
mod queue_options;
mod queue_sessions;
mod session;
mod stream;
#[cfg(feature = "futures")]
mod task_queue;
mod waiting;
#[cfg(feature = "futures")]
mod watch;

pub use beside::Beside;
pub use builder::GantryBuilder;
pub use completion::{Completion, Rejected, Ticket, Why};
pub use queue::Queue;
pub use queue_options::QueueOptions;
pub use session::Session;
pub use stream::{AeadStream, CipherStream, Stream};
#[cfg(feature = "futures")]
pub use task_queue::{Running, TaskQueue};
