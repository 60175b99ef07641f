//! IPComp (RFC 3173): IP packets whose payload is compressed with DEFLATE (RFC 2394).
//!
//! ```
//! use gantry_core::{Algorithm, SessionParams};
//! use gantry_protocols::Packet;
//! use gantry_protocols::ipcomp::{self, Association, Mode};
//!
//! # fn send(gantry: &gantry_core::Gantry, ip: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! // One session for all associations, because compression has no keys.
//! let session = gantry.session(SessionParams::new(Algorithm::Deflate, &[]).with_level(6))?;
//! let association = Association::new(0x1234, &session).mode(Mode::Tunnel);
//! let (outbound, inbound) = (association.clone().outbound()?, association.inbound()?);
//!
//! let mut buffer = ip.to_vec();
//! let mut packet = Packet::new(&mut buffer, 0..ip.len());
//! outbound.compress(&mut packet)?;
//! // Packets that would not shrink stay unchanged. The outer header's protocol field tells the receiver.
//! if packet.next_header == ipcomp::PROTOCOL {
//!     inbound.decompress(&mut packet)?;
//! }
//! assert_eq!(packet.data(), ip);
//! # Ok(()) }
//! ```
//!
//! A burst is a slice of associations and packets, for [`compress`] or [`decompress`]; it is one batch.
//!
//! IPComp goes inside ESP, because encrypted data cannot be compressed: compress a packet before sealing it, and decompress it
//! after opening it.

mod association;
mod batch;

pub use crate::ip::Mode;
pub use association::{Association, Inbound, Outbound, ParameterError, compress, decompress};

/// The number of IPComp as a protocol of IPv4, and as a next header of IPv6 and ESP (IANA).
pub const PROTOCOL: u8 = 108;

/// Bytes of the next header, the flags and the CPI.
const HEADER_LEN: usize = 4;
