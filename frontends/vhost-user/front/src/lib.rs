//! The front end of a virtio crypto device over vhost-user, and the driver of its guest, in one process: a peer for tests and measurements
//! of back ends. The crate needs only the path of the back end's socket.
//!
//! A [`Guest`] has memory that it shares as QEMU and cloud-hypervisor do, rings that it fills as Linux' driver does, and requests for every
//! service of the virtio specification 1.3. A guest can be hostile, too: [`PreparedRequest`](queue::PreparedRequest)s and
//! [`Ring`](ring::Ring)s take any bytes, and [`Connection`](connection::Connection)s send any message.
//!
//! | file | content |
//! |---|---|
//! | `memory.rs` | regions of memory, each a memfd |
//! | `connection.rs` | the messages of vhost-user |
//! | `ring.rs` | split virtqueues: descriptors, indirect tables, event indices |
//! | `queue.rs` | requests in a ring |
//! | `parameters.rs` | sessions: three layouts of the message, and requests of the control queue |
//! | `request.rs` | requests of data queues |
//! | `guest.rs` | the guest, which combines them |
//! | `load.rs` | a guest that keeps requests in flight |
//! | `bytes.rs` | little-endian fields |
//! | `examples/vhost-bench/` | measures the cost of requests |

#![forbid(unsafe_code)]

mod bytes;
pub mod connection;
pub mod guest;
pub mod load;
pub mod memory;
pub mod parameters;
pub mod queue;
pub mod request;
pub mod ring;

pub use guest::{FrontEnd, Guest, Session, Setup};

/// The reason why a guest gets no answer.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// An address is in no region, or memory could not be mapped.
    #[error("guest memory: {0}")]
    Memory(String),
    /// No memory or no descriptors are left for a request.
    #[error("guest memory or the ring is full")]
    Full,
    /// There was no answer in time, or an answer to another message.
    #[error("the back end does not answer")]
    Unanswered,
    /// A request returned this status instead of the known answer.
    #[error("status {0} instead of the known answer")]
    WrongAnswer(u8),
    /// The device returned an unknown chain.
    #[error("the device returned the unknown chain {0}")]
    UnknownChain(u32),
    /// A session was not opened or closed: VIRTIO_CRYPTO_NOSPC and so on, or a negative number in a message.
    #[error("the back end refuses the session ({0})")]
    SessionRefused(i64),
    /// This kind of front end cannot express the request.
    #[error("the layout cannot express the request")]
    NotExpressible,
    /// The configuration space is malformed.
    #[error(transparent)]
    Config(#[from] gantry_abi_virtio_crypto::Error),
    /// A system call failed, or the connection ended.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The back end reports that the message with this code failed.
    #[error("the back end refuses message {0}")]
    MessageRefused(u32),
}

impl Error {
    fn memory(error: impl std::fmt::Display) -> Self {
        Self::Memory(error.to_string())
    }
}

impl From<vmm_sys_util::errno::Error> for Error {
    fn from(error: vmm_sys_util::errno::Error) -> Self {
        Self::Io(error.into())
    }
}
