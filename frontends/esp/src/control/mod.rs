//! The thread of the daemon: answers its messages, and tells it what happens.
//!
//! | file | content |
//! |---|---|
//! | `connection.rs` | what a program takes for a socket of netlink |
//! | `requests.rs` | what each request does, and its answer |
//! | `steering.rs` | what routes policies need |

pub(crate) mod connection;
pub(crate) mod requests;
pub(crate) mod steering;
