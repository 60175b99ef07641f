//! The virtio crypto device as data: what guests put into its queues, and what front ends of vhost-user say about sessions.
//!
//! Numbers and layouts are those of the virtio specification 1.2 and 1.3 (section "Crypto Device"), of `linux/virtio_crypto.h`,
//! and of QEMU's and DPDK's sources for the session messages of vhost-user. Integers are little-endian. Lengths are in bytes.
//! Nothing here reads memory of a guest: callers copy bytes out of it first, and give the copy.
//!
//! A request has a header, a fixed part, whose length [`data::Header`] or [`control::Header`] tells, and a variable part, whose
//! places [`data::Request::readable`] tells.
//!
//! | file | content |
//! |---|---|
//! | `constants.rs` | numbers: services, operations, algorithms, statuses, features |
//! | `bytes.rs` | reading and writing integers |
//! | `session.rs` | the parameters of a session |
//! | `control.rs` | requests of the control queue |
//! | `data.rs` | requests of data queues |
//! | `config.rs` | the configuration space |
//! | `vhost_user.rs` | the two session messages of vhost-user, in three layouts |

#![forbid(unsafe_code)]

mod bytes;
mod config;
pub mod constants;
pub mod control;
pub mod data;
pub mod session;
pub mod vhost_user;

pub use config::Config;
pub use constants::Status;

/// The features of the device that both sides have. They decide about the form of fixed parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// None: every fixed part is padded to one length. Linux and QEMU know this form only.
    pub const LEGACY: Self = Self(0);

    /// Those of a mask with the bits of [`feature`](constants::feature).
    pub const fn of(mask: u64) -> Self {
        Self(mask)
    }

    /// Fixed parts have their own lengths.
    pub const fn revision_1(self) -> bool {
        self.0 >> constants::feature::REVISION_1 & 1 == 1
    }

    /// Requests of a service have the form that can do without a session, even those that name one. All such features require
    /// REVISION_1.
    pub const fn stateless(self, service: u32) -> bool {
        self.revision_1()
            && service <= constants::service::AKCIPHER
            && self.0 >> (constants::feature::CIPHER_STATELESS_MODE + service) & 1 == 1
    }
}

/// Why bytes are no request.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes end within a structure.
    #[error("a structure is cut off")]
    Short,
    /// A number that no operation has.
    #[error("there is no operation {0:#x}")]
    Operation(u32),
    /// A field has a value that it cannot have; the name is that of the field in `linux/virtio_crypto.h`.
    #[error("{0} has a value that does not exist")]
    Value(&'static str),
}

impl Error {
    /// What a guest is told.
    pub const fn status(self) -> Status {
        match self {
            Self::Operation(_) => Status::NotSupported,
            Self::Short | Self::Value(_) => Status::Error,
        }
    }
}
