//! Tunnels with keys from `ip xfrm`, between network namespaces, and with packets that the tests build themselves.
//!
//! | file | content |
//! |---|---|
//! | `namespace.rs`, `host.rs` | network namespaces, hosts with data paths, pairs of hosts |
//! | `keys.rs` | suites, SAs and policies as `ip xfrm` takes them |
//! | `traffic.rs`, `wire.rs` | packets between hosts, and frames seen on the wire |
//! | `peer.rs` | the test as the other end |
//! | `suites.rs` | tests: suites, families, sizes |
//! | `faults.rs`, `marks.rs` | tests: faults of the wire; DSCP and ECN |
//! | `ike.rs` | tests: messages of IKE among ESP packets |
//! | `steering.rs`, `updates.rs` | tests: policies with whole selectors; changes under traffic |
//! | `plaintext.rs`, `guards.rs` | tests: nothing leaves in clear; guards beside the routes |
//! | `arrivals.rs` | tests: packets that arrive in clear |
//! | `paths.rs` | tests: paths with a smaller MTU |
//! | `raw.rs` | tests: ESP without UDP |
//! | `transport.rs` | tests: transport mode |
//! | `limits.rs`, `numbers.rs`, `commands.rs` | tests: ends of SAs; numbers; `ip xfrm` |
//! | `scale.rs`, `devices.rs` | tests: many SAs and queues; devices, sockets, memory and privileges |
//! | `viewers.rs` | tests: programs at the sockets |

mod arrivals;
mod commands;
mod devices;
mod faults;
mod guards;
mod host;
mod ike;
mod keys;
mod limits;
mod marks;
mod namespace;
mod numbers;
mod paths;
mod peer;
mod plaintext;
mod raw;
mod scale;
mod steering;
mod suites;
mod traffic;
mod transport;
mod updates;
mod viewers;
mod wire;
