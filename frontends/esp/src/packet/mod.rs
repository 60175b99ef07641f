//! IP packets of the stack and the tunnel. Nothing here depends on keys or sockets.
//!
//! | file | content |
//! |---|---|
//! | `ip.rs` | headers, and the flow that selectors are compared with |
//! | `offload.rs` | the header that a TUN device puts before a packet |
//! | `segment.rs`, `coalesce.rs` | one packet into many segments, and back |
//! | `fragment.rs` | fragments of IPv4 |
//! | `transport.rs`, `reassembly.rs` | packets of transport mode, which are whole |
//! | `fragment_ports.rs` | the ports of fragments |
//! | `ecn.rs` | traffic classes across the tunnel |
//! | `icmp.rs` | notices to senders |
//! | `checksum.rs` | the Internet checksum |

mod checksum;
pub(crate) mod coalesce;
pub(crate) mod ecn;
pub(crate) mod fragment;
pub(crate) mod fragment_ports;
pub(crate) mod icmp;
pub(crate) mod ip;
pub(crate) mod offload;
pub(crate) mod reassembly;
pub(crate) mod segment;
pub(crate) mod transport;
