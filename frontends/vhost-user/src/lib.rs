//! The virtio crypto device over vhost-user: virtual machines share every device of Gantry.
//!
//! A front end, such as QEMU or cloud-hypervisor, connects to the socket of its guest. `connection.rs` reads its messages, `backend.rs`
//! applies the messages about memory and rings, and `session.rs` has the guest's sessions. The path of a request: the guest kicks a
//! ring. The leading thread (`worker.rs`) takes chains of all kicked rings (`guest.rs`) into a burst (`guest/burst.rs`), each as a task
//! (`task.rs`). It runs the tasks side by side, and returns the chains.
//!
//! **Isolation.** Sessions, limits and memory belong to a guest. Everything is copied out of a guest's memory once, and only the copy
//! is used: no reference points into that memory. An invalid request gets an error status, and an invalid ring ends only its own
//! device.
//!
//! **Batching.** Requests of all guests share a burst, and requests of one algorithm share a batch.
//!
//! | file | content |
//! |---|---|
//! | `server.rs` | the server: its threads and sockets |
//! | `socket.rs` | the file of a socket, its mode and owner |
//! | `connection.rs` | the connection of a front end, and the messages about sessions |
//! | `backend.rs` | the other messages: features, memory, rings, configuration |
//! | `worker.rs` | the threads, and the order of rings |
//! | `guest/burst.rs` | requests of many rings at once |
//! | `guest.rs` | a connected guest |
//! | `partition.rs` | the limits of a guest |
//! | `counters.rs` | the usage of a guest |
//! | `ring.rs` | a queue, and how both sides wake each other |
//! | `memory.rs` | the guest's memory |
//! | `fault.rs` | memory that is lost while it is mapped |
//! | `chain.rs` | descriptors, read once; copies from and to their buffers |
//! | `task.rs` | a request of a data queue |
//! | `control.rs` | a request of the control queue |
//! | `session.rs` | sessions of a guest |
//! | `algorithms.rs` | numbers of virtio, and the configuration |
//! | `keys.rs` | RSA keys in DER |
//! | `arbitrary.rs` | rings with arbitrary bytes, for tests |

#![deny(unsafe_code)]

mod algorithms;
mod arbitrary;
mod backend;
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

pub use arbitrary::answer_arbitrary_ring;
pub use counters::{CounterSnapshot, Counters};
pub use partition::Limits;
pub use server::Server;
pub use socket::Socket;
