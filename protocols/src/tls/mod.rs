//! Records of TLS 1.3 (RFC 8446, 5) and TLS 1.2 (RFC 5246, 6.2.3). The caller does the handshake and derives the keys.
//!
//! ```
//! use gantry_protocols::Packet;
//! use gantry_protocols::tls::{self, Aead, Epoch, Suite};
//!
//! # fn send(gantry: &gantry_core::Gantry, content: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! // A traffic key and IV of the key schedule (RFC 8446, 7.3).
//! let (key, iv) = ([7; 16], [9; 12]);
//! let outbound = Epoch::new(Suite::Tls13(Aead::AesGcm), &key, &iv).outbound(gantry)?;
//! let inbound = Epoch::new(Suite::Tls13(Aead::AesGcm), &key, &iv).inbound(gantry)?;
//!
//! let (head, tail) = outbound.room();
//! let mut buffer = vec![0; head + content.len() + tail];
//! buffer[head..head + content.len()].copy_from_slice(content);
//! let mut packet = Packet::new(&mut buffer, head..head + content.len());
//! outbound.seal(&mut packet)?;
//!
//! // The other end finds the record in its stream of bytes, and opens it.
//! let header = tls::Header::read(packet.data())?.expect("five bytes");
//! assert_eq!(header.length, packet.data().len());
//! inbound.open(&mut packet)?;
//! assert_eq!((packet.data(), packet.content_type), (content, tls::content_type::APPLICATION_DATA));
//! # Ok(()) }
//! ```
//!
//! A burst is a slice of connections and records, for [`seal`] or [`open`]. The order of the slice gives the records of one connection
//! their numbers; send them in that order.
//!
//! **A failure ends the connection**, as a fatal alert does: a forged or malformed record, or one that no device sealed or opened.
//! Every later record is refused as [`Broken`](crate::PacketError::Broken), in the same burst and in later ones.
//!
//! | file | content |
//! |---|---|
//! | `suite.rs` | algorithms, the layout of their records, and limits on their number |
//! | `epoch.rs` | the keys of one direction between two key changes |
//! | `epoch/protection.rs` | nonces and authenticated bytes, of both directions |
//! | `record.rs` | headers, limits and types of records |
//! | `epoch/outbound.rs`, `epoch/inbound.rs` | the two ends |
//! | `search.rs`, `mac_then_encrypt.rs` | a MAC under the encryption: the constant-time search, and the batch that computes its MACs |

mod epoch;
mod mac_then_encrypt;
mod record;
mod search;
mod suite;

pub use epoch::{Epoch, Inbound, Outbound, ParameterError, open, seal};
pub use record::{Header, content_type};
pub use search::{MacSearch, unpadded_len};
pub use suite::{Aead, Hmac, MacOrder, Suite};
