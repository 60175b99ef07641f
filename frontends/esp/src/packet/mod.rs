//! Packets of IP as the stack and the tunnel have them. Nothing here knows of keys or sockets.
//!
//! | file | content |
//! |---|---|
//! | `ip.rs` | headers, and the flow that selectors are compared with |
//! | `offload.rs` | what a TUN device says before a packet |
//! | `segment.rs`, `coalesce.rs` | one packet into many segments, and back |
//! | `fragment.rs` | fragments of IPv4 |
//! | `ecn.rs` | traffic classes across the tunnel |
//! | `icmp.rs` | notices to senders |
//! | `checksum.rs` | the checksum of all of them |

mod checksum;
pub(crate) mod coalesce;
pub(crate) mod ecn;
pub(crate) mod fragment;
pub(crate) mod icmp;
pub(crate) mod ip;
pub(crate) mod offload;
pub(crate) mod segment;
