//! Protocols whose packets go to the devices of [`gantry_core`]: a packet goes in, a packet comes out.
//!
//! An association has keys and, for each direction, the state that its protocol asks for: the number of the next packet, and the
//! numbers of those that have come. Its packets are changed in place, in a buffer with room before and behind them. A burst of
//! packets of many associations is one batch for the devices, which fills their lanes.
//!
//! [`esp`] is RFC 4303, the packets of IPsec, and [`ipcomp`] RFC 3173, which compresses them before. [`srtp`] is RFC 3711, those of
//! voice and video. [`tls`] is the records of TLS 1.2 and 1.3.
//!
//! | file | content |
//! |---|---|
//! | `packet.rs` | a packet in its buffer |
//! | `burst.rs` | the three steps of a burst: frame, crypt, finish |
//! | `crypt.rs` | the second of them: what devices do |
//! | `whole.rs` | devices that do a whole packet |
//! | `window.rs` | which numbers have come (RFC 6479) |
//! | `ip.rs` | headers of IP around a protocol, and within it |
//! | `esp/` | suites and associations |
//! | `ipcomp/` | associations without keys, and which packets are worth a trial |
//! | `srtp/` | suites, contexts with their streams, and the keys that they derive |
//! | `tls/` | suites, keys from one change to the next, and the search for a MAC under the encryption |

#![forbid(unsafe_code)]

// What tests have in common names the crate.
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
mod whole;
mod window;

pub use packet::{Packet, Refused};

/// The page of the book whose Rust is compiled and run by `cargo test`.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../docs/src/guide-protocols.md")]
    struct Guide;
}
