//! The thread of the daemon: answers its messages, and notifies it of events.
//!
//! | file | content |
//! |---|---|
//! | `connection.rs` | a connection, which stands for a program's netlink socket |
//! | `requests.rs` | the requests and their answers |
//! | `steering.rs` | the routes that policies need |

pub(crate) mod connection;
pub(crate) mod requests;
pub(crate) mod steering;
