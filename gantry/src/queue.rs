//! Requests that are submitted now and completed later.
//!
//! ```
//! use gantry::queue::{QueueOptions, Submission};
//! use gantry::{Digest, Gantry};
//!
//! let gantry = Gantry::from_env()?;
//! let sha256 = gantry.digest(Digest::Sha256)?;
//! let mut queue = gantry.framework().queue(QueueOptions::default())?;
//! for message in ["one", "two", "three"] {
//!     queue.submit(sha256.session(), Submission::digest(message.as_bytes().to_vec())).map_err(|rejected| rejected.why)?;
//! }
//! while queue.in_flight() > 0 {
//!     queue.wait(|completion| assert_eq!(completion.submission.tag().len(), 32));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use gantry_core::{Completion, Priority, Queue, QueueOptions, RejectReason, Rejected, Submission, Ticket};
#[cfg(feature = "futures")]
pub use gantry_core::{RequestFuture, TaskQueue};
pub use gantry_runtime::Readiness;
