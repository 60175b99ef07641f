//! Data structures of the virtio crypto device: the requests of guests, and the session messages of vhost-user front ends.
//!
//! Numbers and layouts come from the virtio specification 1.2 and 1.3 (section "Crypto Device") and from `linux/virtio_crypto.h`. For
//! the session messages of vhost-user, they come from QEMU's and DPDK's sources. Integers are little-endian. Lengths are in bytes.
//! The crate does not access guest memory: callers pass a copy.
//!
//! A request has a header, a fixed part and a variable part. [`data::Header`] or [`control::Header`] gives the length of the fixed
//! part, and [`data::Request::readable_ranges`] splits the variable part.
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

/// The negotiated features of the device. They determine the form of fixed parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// No features: every fixed part is padded to [`control::LEGACY_FIXED_LEN`] or [`data::LEGACY_FIXED_LEN`] bytes. Linux and QEMU support
    /// only this form.
    pub const LEGACY: Self = Self(0);

    /// Converts a mask with the bits of [`feature`](constants::feature).
    pub const fn from_bits(mask: u64) -> Self {
        Self(mask)
    }

    /// Returns true if the length of a fixed part depends on the operation.
    pub const fn has_revision_1(self) -> bool {
        self.0 >> constants::feature::REVISION_1 & 1 == 1
    }

    /// Returns true if requests of a service may omit the session. The fixed part of every request then has the stateless layout, which
    /// has room for the parameters of a session. [`data::Header::is_stateless`] returns true if the request uses these parameters. The
    /// stateless features require REVISION_1.
    pub const fn has_stateless_mode(self, service: u32) -> bool {
        self.has_revision_1()
            && service <= constants::service::AKCIPHER
            && self.0 >> (constants::feature::CIPHER_STATELESS_MODE + service) & 1 == 1
    }
}

/// The reason why bytes are not a valid structure.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes end within a structure, or no layout of [`vhost_user`] has their length.
    #[error("a structure is truncated")]
    Short,
    /// The number of the operation is unknown.
    #[error("unknown operation {0:#x}")]
    Operation(u32),
    /// A field has an invalid value. The string is the name of the field in `linux/virtio_crypto.h`. For [`vhost_user`], it is the name in
    /// QEMU's source.
    #[error("{0} has an invalid value")]
    Value(&'static str),
}

impl Error {
    /// Returns the status to send to the guest.
    pub const fn status(self) -> Status {
        match self {
            Self::Operation(_) => Status::NotSupported,
            Self::Short | Self::Value(_) => Status::Error,
        }
    }
}
