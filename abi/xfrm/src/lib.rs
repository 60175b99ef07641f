//! XFRM messages of netlink as data: requests of IKE daemons and `ip xfrm`, and the answers of Linux.
//!
//! Numbers and layouts are those of `linux/xfrm.h` and `linux/netlink.h` (Linux 6.16). A [`Message`] is read from a
//! [`Frame`] of a datagram and written into a [`Datagram`]. Both directions share the type, because a request and its
//! notification carry the same structures. Integers are in native byte order, except ports and SPIs, which are big-endian.
//!
//! Structures of `linux/xfrm.h` end in padding that depends on the alignment of `u64`: 4 on 32-bit x86, and 8 everywhere
//! else. This crate uses the alignment of its own target, so both ends of a connection must have the same
//! alignment. A 64-bit server cannot read messages of a 32-bit x86 program.
//!
//! Keys and datagrams are zeroized on drop, and `Debug` shows their lengths only.
//!
//! | file | content |
//! |---|---|
//! | `constants.rs` | numbers of messages, attributes, groups and flags |
//! | `bytes.rs` | reading and writing integers and addresses |
//! | `family.rs` | address families |
//! | `netlink.rs` | frames of a datagram, attributes, acknowledgements |
//! | `parts.rs` | the parts that SAs and policies share: selectors, limits, counters, marks |
//! | `sa.rs` | security associations |
//! | `sa/attributes.rs` | attributes of security associations |
//! | `policy.rs` | policies and templates |
//! | `events.rs` | notifications of a kernel (ACQUIRE, EXPIRE, MAPPING), and counters |
//! | `message.rs` | all messages |
//! | `algorithms.rs` | names of algorithms |
//! | `preload.rs` | messages between the preload library and the server |

#![forbid(unsafe_code)]

mod algorithms;
mod bytes;
pub mod constants;
mod events;
mod family;
mod message;
mod netlink;
mod parts;
mod policy;
pub mod preload;
mod sa;

pub use algorithms::{
    AEADS, AUTHENTICATIONS, Aead, AeadRow, Authentication, AuthenticationRow, CIPHERS, Cipher, CipherRow,
};
pub use events::{
    Acquire, AddressFilter, AsyncEvent, Expire, Mapping, PolicyExpire, SadInfo, SpdInfo, Verdict, Verdicts,
};
pub use family::Family;
pub use message::Message;
pub use netlink::{Datagram, Frame, Frames, Header, frames};
pub use parts::{Counters, Limits, Mark, Port, Prefix, Selector};
pub use policy::{Action, Direction, Policy, PolicyRef, Template};
pub use sa::{
    AllocSpi, Encapsulation, Key, KeyVisibility, Mode, NamedAead, NamedAlgorithm, NamedAuthentication, Offload, Replay,
    ReplayEsn, Sa, SaId, SaRef, Stats,
};

/// The reason why a message is refused.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The message or an attribute is shorter than its structure.
    #[error("a message or an attribute is too short")]
    Short,
    /// An attribute's length does not fit into the message, or its content contradicts its length.
    #[error("attribute {0} has a wrong length")]
    Attribute(u16),
    /// An address family that is neither IPv4 nor IPv6.
    #[error("address family {0} is neither IPv4 nor IPv6")]
    Family(u16),
    /// A field has an invalid value. The string is the name of the field in `linux/xfrm.h`; `prefixlen` stands for `prefixlen_d` and
    /// `prefixlen_s`.
    #[error("{0} has an invalid value")]
    Value(&'static str),
    /// A message of XFRM that this crate does not parse, such as MIGRATE.
    #[error("message {0:#x} is not supported")]
    Unsupported(u16),
    /// The number is not that of a message of XFRM.
    #[error("unknown message {0:#x}")]
    Unknown(u16),
}

impl Error {
    /// Returns the positive error number for an acknowledgement (`asm-generic/errno.h`). It is ENOPROTOOPT for a known but unsupported
    /// message, as in Linux without CONFIG_XFRM_MIGRATE, and otherwise EINVAL.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Unsupported(_) => 92,
            _ => 22,
        }
    }
}
