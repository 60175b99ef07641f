//! ESP (RFC 4303): the packets of IPsec.
//!
//! ```
//! use gantry_protocols::Packet;
//! use gantry_protocols::esp::{self, Association, Mode, Suite};
//!
//! # fn send(gantry: &gantry_core::Gantry, ip: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! // 16 bytes of key, followed by 4 bytes of salt, as IKE derives them.
//! let keys = [7; 20];
//! let outbound = Association::new(0x1234, Suite::AesGcm { icv: 16 }, &keys, &[]).mode(Mode::Tunnel).outbound(gantry)?;
//! let inbound = Association::new(0x1234, Suite::AesGcm { icv: 16 }, &keys, &[]).mode(Mode::Tunnel).inbound(gantry)?;
//!
//! let mut buffer = vec![0; 64 + ip.len() + 64];
//! buffer[64..64 + ip.len()].copy_from_slice(ip);
//! let mut packet = Packet::new(&mut buffer, 64..64 + ip.len());
//! outbound.seal(&mut packet)?;
//! inbound.open(&mut packet)?;
//! assert_eq!(packet.data(), ip);
//! # Ok(()) }
//! ```
//!
//! A burst is a slice of associations and packets, for [`seal`] or [`open`]. Packets with the same algorithm go to the devices
//! together.

mod association;
mod suite;

pub use crate::ip::Mode;
pub use association::{Association, Inbound, Outbound, ParameterError, open, seal};
pub use suite::{Integrity, Suite};

/// Next headers: ESP itself, and "no next header" (IANA).
const ESP: u8 = 50;
const NO_NEXT_HEADER: u8 = 59;
