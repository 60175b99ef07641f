//! Packet protocols over the sessions of [`gantry_core`]: ESP, IPComp, SRTP and TLS records.
//!
//! An association is one direction of a connection, with its keys; SRTP calls it a context. Its sending end has the next packet number,
//! and its receiving end has the numbers already received. Packets are changed in place, in a buffer with room before and after them. A
//! burst of packets of many associations fills the devices' lanes.
//!
//! [`esp`] is RFC 4303 (IPsec), and [`ipcomp`] is RFC 3173, which compresses packets before ESP. [`srtp`] is RFC 3711 (voice and
//! video). [`tls`] is for records of TLS 1.2 and 1.3.
//!
//! | file | content |
//! |---|---|
//! | `packet.rs` | a packet in its buffer |
//! | `burst.rs` | the three steps of a burst, except in IPComp: frame, crypt, finish |
//! | `crypt.rs` | the second step: the devices' work |
//! | `whole_packet.rs` | devices that process a whole packet |
//! | `window.rs` | the anti-replay window (RFC 6479) |
//! | `ip.rs` | IP headers around a protocol, and inside it |
//! | `esp/` | suites and associations |
//! | `ipcomp/` | associations without keys, and the choice of packets to try to compress |
//! | `srtp/` | suites, contexts with their streams, and key derivation |
//! | `tls/` | suites, the keys between two key changes, and the constant-time search for a MAC that was encrypted with the content |

#![forbid(unsafe_code)]

// The test module that unit tests and integration tests share (`tests/common`) refers to this crate by name.
#[cfg(test)]
extern crate self as gantry_protocols;

mod burst;
mod crypt;
pub mod esp;
mod ip;
pub mod ipcomp;
mod packet;
pub mod srtp;
pub mod tls;
mod whole_packet;
mod window;

pub use packet::{Packet, PacketError};

/// The guide, whose Rust code runs as doctests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../docs/src/guide-protocols.md")]
    struct Guide;
}
