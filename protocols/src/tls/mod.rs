//! Records of TLS 1.3 (RFC 8446, 5) and TLS 1.2 (RFC 5246, 6.2.3). Handshakes, and the keys that come of them, are the caller's.
//!
//! ```
//! use gantry_protocols::Packet;
//! use gantry_protocols::tls::{self, Aead, Epoch, Suite};
//!
//! # fn send(gantry: &gantry_core::Gantry, content: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! // A traffic key and IV of the key schedule (RFC 8446, 7.3).
//! let (key, iv) = ([7; 16], [9; 12]);
//! let out = Epoch::new(Suite::Tls13(Aead::AesGcm), &key, &iv).outbound(gantry)?;
//! let back = Epoch::new(Suite::Tls13(Aead::AesGcm), &key, &iv).inbound(gantry)?;
//!
//! let (head, tail) = out.room();
//! let mut buffer = vec![0; head + content.len() + tail];
//! buffer[head..head + content.len()].copy_from_slice(content);
//! let mut packet = Packet::new(&mut buffer, head..head + content.len());
//! out.seal(&mut packet)?;
//!
//! // The other end finds the record in its stream of bytes, and opens it.
//! let header = tls::Header::read(packet.data())?.expect("five bytes");
//! assert_eq!(header.length, packet.data().len());
//! back.open(&mut packet)?;
//! assert_eq!((packet.data(), packet.content_type), (content, tls::content_type::APPLICATION_DATA));
//! # Ok(()) }
//! ```
//!
//! A burst is a slice of connections and records, for [`seal`] or [`open`]. Records of one connection have their numbers in the order
//! of the slice, and go onto the wire in that order.
//!
//! **What fails ends the connection**, as a fatal alert does: a record that is forged or malformed, or one that no device sealed or
//! opened. Every record behind it is refused as [`Broken`](crate::Refused::Broken), in the same burst and in later ones.
//!
//! | file | content |
//! |---|---|
//! | `suite.rs` | algorithms, how records look under them, and how many there may be |
//! | `epoch.rs` | keys from one change to the next, of one direction |
//! | `protection.rs` | nonces and authenticated bytes, of both directions |
//! | `record.rs` | headers, limits and types of records |
//! | `outbound.rs`, `inbound.rs` | the two ends |
//! | `search.rs`, `within.rs` | a MAC under the encryption: what its search may not tell, and the search in batches |

mod epoch;
mod inbound;
mod outbound;
mod protection;
mod record;
mod search;
mod suite;
mod within;

pub use epoch::{Epoch, Unfit};
pub use inbound::{Inbound, open};
pub use outbound::{Outbound, seal};
pub use record::{Header, content_type};
pub use search::{MacSearch, without_padding};
pub use suite::{Aead, Hmac, Order, Suite};
