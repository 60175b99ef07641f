//! The thread for the daemon: answers the daemon's messages, and notifies the daemon of events.
//!
//! | file | content |
//! |---|---|
//! | `connection.rs` | a connection, which stands for a program's netlink socket |
//! | `requests.rs` | the requests and their answers |
//! | `steering.rs` | the routes that policies need |

pub(crate) mod connection;
pub(crate) mod requests;
pub(crate) mod steering;
