//! Packet protocols over the sessions of [`gantry_core`]: ESP, IPComp, SRTP and TLS records.
//!
//! An association has keys and the state of each direction: the next packet number, and the numbers already received. Its packets
//! are changed in place, in a buffer with room before and after them. A burst of packets of many associations is one batch, which
//! fills the devices' lanes.
//!
//! [`esp`] is RFC 4303 (IPsec), and [`ipcomp`] is RFC 3173, which compresses packets before ESP. [`srtp`] is RFC 3711 (voice and
//! video). [`tls`] is for records of TLS 1.2 and 1.3.
//!
//! | file | content |
//! |---|---|
//! | `packet.rs` | a packet in its buffer |
//! | `burst.rs` | the three steps of a burst: frame, crypt, finish |
//! | `crypt.rs` | the second step: the devices' work |
//! | `whole_packet.rs` | devices that process a whole packet |
//! | `window.rs` | the anti-replay window (RFC 6479) |
//! | `ip.rs` | IP headers around a protocol, and inside it |
//! | `esp/` | suites and associations |
//! | `ipcomp/` | associations without keys, and the choice of packets to try |
//! | `srtp/` | suites, contexts with their streams, and key derivation |
//! | `tls/` | suites, the keys between two key changes, and the search for a MAC under the encryption |

#![forbid(unsafe_code)]

// The shared test module names the crate.
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
