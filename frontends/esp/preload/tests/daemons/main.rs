//! The unmodified charon of Debian 12 and 13 over the data path, at one end or both. Some tests have strongSwan's own ESP at the other end.
//! `tests/guest.rs` has the tests with Linux' ESP and those of `l2tp.rs`.
//!
//! | file | content |
//! |---|---|
//! | `gateway.rs` | a gateway: a network namespace with a data path and a daemon; pairs of gateways |
//! | `data_path.rs` | the data path, in a child process that runs this test program again |
//! | `daemon.sh` | the daemon's file system |
//! | `traffic.rs` | numbered packets, none of which may be lost |
//! | `wire.rs` | packets in clear that a listener on the wire sees |
//! | `suites.rs` | every suite of ESP, one after the other |
//! | `proposals.rs` | every suite, daemon, peer and family of addresses |
//! | `rekeying.rs` | tunnels that come up on demand, and rekeying under traffic |
//! | `killed.rs` | killed daemons and data paths |
//! | `libreswan.rs` | another daemon |
//! | `refused.rs` | options that the data path refuses |
//! | `routes.rs` | routes of charon's own, virtual addresses, and a tunnel for everything |
//! | `nat.rs` | clients behind a NAT |
//! | `transport.rs` | transport mode |
//! | `padding.rs` | padding that hides the lengths of packets |

mod data_path;
mod gateway;
mod killed;
mod libreswan;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../tunnel/namespace.rs"]
mod namespace;
mod nat;
mod padding;
mod proposals;
mod refused;
mod rekeying;
mod routes;
mod suites;
mod traffic;
mod transport;
mod wire;
