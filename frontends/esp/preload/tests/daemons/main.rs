//! Debian's charon, unmodified, over the data path: of Debian 12 and 13, at one end or both, and strongSwan's own ESP at the other.
//! Linux' ESP is in a guest, and `tests/guest` has it.
//!
//! | file | content |
//! |---|---|
//! | `gateway.rs` | a gateway: a network namespace with a data path and a daemon; two of them, and what is between |
//! | `data_path.rs` | the data path, in a child process that is this program again |
//! | `daemon.sh` | the daemon's file system |
//! | `traffic.rs` | packets with numbers, of which none may be lost |
//! | `wire.rs` | what a listener on the wire sees |
//! | `suites.rs` | every suite of ESP, one after the other |
//! | `proposals.rs` | every suite, daemon, peer and family of addresses |
//! | `life.rs` | tunnels that come up by themselves, and new keys under traffic |
//! | `death.rs` | daemons and data paths that are killed |
//! | `libreswan.rs` | another daemon |
//! | `ways.rs` | routes of charon's own, virtual addresses, and a tunnel for everything |
//! | `nat.rs` | clients behind a NAT |

mod data_path;
mod death;
mod gateway;
mod libreswan;
mod life;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../tunnel/namespace.rs"]
mod namespace;
mod nat;
mod proposals;
mod suites;
mod traffic;
mod ways;
mod wire;
