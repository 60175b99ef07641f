//! ESP in user space (RFC 4303) under an unmodified IKE daemon.
//!
//! The daemon has its keys installed as ever, by XFRM messages of netlink; a preload library leads them here. Packets come out of a TUN
//! device, are sealed in one batch, whoever their associations are, and leave in UDP (RFC 3948); those that arrive go the other way.
//!
//! | file | content |
//! |---|---|
//! | `server.rs`, `socket.rs` | threads, and the loop that answers daemons; sockets in the folder |
//! | `control/` | the daemon's requests, and what it is told |
//! | `table/` | SAs and policies |
//! | `outward.rs`, `inward.rs` | the threads of the data path |
//! | `shared.rs` | what the threads have in common |
//! | `packet/` | packets of IP: segments, fragments, notices, marks |
//! | `route/`, `guard/` | routes and rules into the tunnel; guards against packets past it |
//! | `watch.rs` | puts routes, rules and guards back after changes by other programs |
//! | `own.rs` | addresses of this host |
//! | `netlink.rs` | sockets and messages of netlink |
//! | `ports.rs` | the port that daemons have, too |
//! | `tun.rs`, `udp.rs`, `sys.rs`, `sys/` | the TUN device, the sockets, and system calls |
//! | `wipe.rs` | keys on stacks |
//! | `status.rs`, `counters.rs` | what the data path says of itself |

mod control;
mod counters;
mod guard;
mod inward;
mod netlink;
mod outward;
mod own;
mod packet;
mod ports;
mod route;
mod server;
mod shared;
mod socket;
mod status;
mod sys;
mod table;
mod tun;
mod udp;
mod watch;
mod wipe;

pub use control::steering::network;
pub use gantry_abi_xfrm::Prefix;
pub use route::clear;
pub use server::{Failed, Options, Server};
