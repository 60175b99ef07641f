//! ESP in user space (RFC 4303) under an unmodified IKE daemon.
//!
//! An IKE daemon installs its keys as usual, by XFRM messages over netlink; a preload library redirects these messages here. Outgoing
//! packets are read from a TUN device, sealed in one batch across associations, and sent in UDP (RFC 3948) or without it. Incoming packets
//! take the reverse path.
//!
//! | file | content |
//! |---|---|
//! | `options.rs` | the configuration of a data path |
//! | `server.rs`, `socket.rs` | threads, and the loop that answers daemons; Unix sockets |
//! | `control/` | the daemon's requests, and notifications to it |
//! | `table/` | SAs and policies |
//! | `outbound/`, `inbound.rs` | the threads of the data path |
//! | `acquire_limiter.rs` | limits the requests for SAs to the daemon |
//! | `shared.rs` | state shared by the threads |
//! | `packet/` | IP packets: segments, fragments, ICMP notices, ECN |
//! | `route/`, `guard/` | routes and rules into the tunnel; guards against packets that bypass it |
//! | `watch.rs` | restores routes, rules and guards after changes by other programs |
//! | `local_addresses.rs` | addresses of this host |
//! | `netlink.rs` | sockets and messages of netlink |
//! | `shared_port.rs` | the UDP port shared with the daemons |
//! | `bpf.rs` | instructions of classic BPF |
//! | `tun.rs`, `udp.rs`, `sys.rs`, `sys/` | the TUN device, the sockets, and system calls |
//! | `wipe.rs` | wipes keys from stacks |
//! | `status.rs`, `counters.rs` | reports about the data path |

mod acquire_limiter;
mod bpf;
mod control;
mod counters;
mod guard;
mod inbound;
mod local_addresses;
mod netlink;
mod options;
mod outbound;
mod packet;
mod route;
mod server;
mod shared;
mod shared_port;
mod socket;
mod status;
mod sys;
mod table;
mod tun;
mod udp;
mod watch;
mod wipe;

/// Counts allocated bytes, by which tests measure the work of adding, changing and removing SAs and policies.
#[cfg(test)]
#[global_allocator]
static MEMORY: gantry_lab::memory::CountingAllocator = gantry_lab::memory::CountingAllocator;

pub use control::steering::parse_network;
pub use gantry_abi_xfrm::Prefix;
pub use options::Options;
pub use route::clear_leftovers;
pub use server::{Server, ServerError};
