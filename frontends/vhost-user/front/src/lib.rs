//! The front end of a virtio crypto device over vhost-user, and the driver of its guest, in one process: a peer for tests and
//! measurements of back ends. It needs the path of a socket, and nothing else of the back end.
//!
//! A [`Guest`] has memory that it shares as QEMU and cloud-hypervisor do, rings that it fills as Linux' driver does, and requests for every
//! service of the virtio specification 1.3. It can also be a guest that means harm: [`Prepared`](queue::Prepared) requests and
//! [`Ring`](ring::Ring)s take any bytes, and [`Connection`](connection::Connection)s any message.
//!
//! | file | content |
//! |---|---|
//! | `memory.rs` | regions of memory, each a memfd |
//! | `connection.rs` | the messages of vhost-user |
//! | `ring.rs` | split virtqueues: descriptors, indirect tables, event indices |
//! | `queue.rs` | requests in a ring |
//! | `parameters.rs` | sessions: three layouts of the message, and requests of the control queue |
//! | `request.rs` | requests of data queues |
//! | `guest.rs` | all of it together |
//! | `load.rs` | a guest that keeps requests in flight |
//! | `bytes.rs` | little-endian fields |
//! | `examples/vhost-bench/` | what a request costs a back end |

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

pub use guest::{Form, Guest, Session, Setup};

/// Why a guest has no answer.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// An address in no region, or memory that could not be mapped.
    #[error("guest memory: {0}")]
    Memory(String),
    /// No memory is left for a request, or no descriptors.
    #[error("guest memory or the ring is full")]
    Full,
    /// No answer in time, or one to something else.
    #[error("the back end does not answer")]
    Unanswered,
    /// A request came back with this status, and not with the answer that is known.
    #[error("status {0}, and not the known answer")]
    Wrong(u8),
    /// A chain that the device does not have.
    #[error("the device returned chain {0}, which it does not have")]
    Foreign(u32),
    /// A session was not opened or closed: VIRTIO_CRYPTO_NOSPC and so on, or a negative number in a message.
    #[error("the back end refuses the session ({0})")]
    Refused(i64),
    /// This kind of front end has no way to ask for that.
    #[error("the layout has no place for that")]
    Layout,
    /// The configuration space is no such structure.
    #[error(transparent)]
    Config(#[from] gantry_abi_virtio_crypto::Error),
    /// A system call failed, or the connection ended.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The back end says that a message failed: the message's code.
    #[error("the back end denies message {0}")]
    Denied(u32),
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
