//! The virtio crypto device over vhost-user: virtual machines share every device of Gantry.
//!
//! A front end, such as QEMU or cloud-hypervisor, connects to the socket of its guest. `connection.rs` reads its messages,
//! `backend.rs` sets up memory and rings by them, and `session.rs` has the guest's sessions. A request, followed through the files: the
//! guest kicks a ring; the thread that leads (`worker.rs`) takes chains of all rings that were kicked (`guest.rs`) into a `burst.rs`,
//! each as a `task.rs`, computes them side by side, and gives them back.
//!
//! **Isolation.** Sessions, limits and memory belong to a guest. Everything is copied out of a guest's memory once, and believed as it
//! was copied: no reference leads into that memory. A request that is wrong gets a status, and a ring that is wrong ends its own
//! device. **Gathering.** Requests of all guests meet in one burst, and those of one algorithm in one batch.
//!
//! | file | content |
//! |---|---|
//! | `server.rs` | the server: its threads and sockets |
//! | `socket.rs` | the file of a socket, its mode and owner |
//! | `connection.rs` | messages of a front end; those about sessions |
//! | `backend.rs` | the other messages: features, memory, rings, configuration |
//! | `worker.rs` | the threads, and which ring is next |
//! | `burst.rs` | requests of many rings at once |
//! | `guest.rs` | a guest that is connected |
//! | `partition.rs` | what a guest may use |
//! | `counters.rs` | what it has used |
//! | `ring.rs` | a queue, and how both sides wake each other |
//! | `memory.rs` | the guest's memory |
//! | `fault.rs` | memory that is lost while it is mapped |
//! | `chain.rs` | descriptors, read once; copies from and to where they lead |
//! | `task.rs` | a request of a data queue |
//! | `control.rs` | a request of the control queue |
//! | `session.rs` | sessions of a guest |
//! | `algorithms.rs` | numbers of virtio, and the configuration |
//! | `keys.rs` | RSA keys in DER |
//! | `any.rs` | rings whose bytes may be anything, for tests |

#![deny(unsafe_code)]

mod algorithms;
mod any;
mod backend;
mod burst;
mod chain;
mod connection;
mod control;
mod counters;
#[allow(unsafe_code)]
mod fault;
mod guest;
mod keys;
mod memory;
mod partition;
mod ring;
mod server;
mod session;
mod socket;
mod task;
mod worker;

pub use any::answer_any;
pub use counters::{Counters, Sums};
pub use partition::Limits;
pub use server::Server;
pub use socket::Socket;
