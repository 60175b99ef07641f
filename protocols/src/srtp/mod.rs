//! SRTP and SRTCP (RFC 3711): packets of voice and video, and the reports about them.
//!
//! ```
//! use gantry_protocols::Packet;
//! use gantry_protocols::srtp::{Context, Suite};
//!
//! # fn send(gantry: &gantry_core::Gantry, rtp: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! // The master key and the master salt of one direction, as DTLS-SRTP or SDP has them.
//! let (key, salt) = ([7; 16], [9; 12]);
//! let outbound = Context::new(Suite::AeadAes128Gcm, &key, &salt).outbound(gantry)?;
//! let inbound = Context::new(Suite::AeadAes128Gcm, &key, &salt).inbound(gantry)?;
//!
//! let (_, tail) = outbound.room();
//! let mut buffer = vec![0; rtp.len() + tail];
//! buffer[..rtp.len()].copy_from_slice(rtp);
//! let mut packet = Packet::new(&mut buffer, 0..rtp.len());
//! outbound.seal(&mut packet)?;
//! inbound.open(&mut packet)?;
//! assert_eq!(packet.data(), rtp);
//! # Ok(()) }
//! ```
//!
//! A context has one master key, and one stream per synchronization source (SSRC). Each stream has its own rollover counter and
//! replay window. A receiver adds a stream when its first packet proves authentic.
//!
//! A burst is a slice of contexts and packets: RTP for [`seal`] and [`open`], RTCP for [`seal_control`] and [`open_control`].
//!
//! Session keys are derived once (a key derivation rate of 0). If both directions of a connection have the same master key, their
//! contexts must have no SSRC in common (RFC 3711, 9.1).

mod channel;
mod context;
mod inbound;
mod keys;
mod outbound;
mod streams;
mod suite;
#[cfg(test)]
mod vectors;

pub use context::{Context, ParameterError};
pub use inbound::{Inbound, open, open_control};
pub use outbound::{Outbound, seal, seal_control};
pub use suite::Suite;

/// The two protocols of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// SRTP.
    Rtp,
    /// SRTCP.
    Rtcp,
}
