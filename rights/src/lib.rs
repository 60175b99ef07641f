//! What a library may believe in a process that it does not know: the environment, files, and code.
//!
//! Programs that are set-user-ID or have file capabilities run with rights that their caller has not. The caller chooses their environment, and
//! by that the files that variables name. Each library of Gantry asks [`variable`] and not `std::env`.
//!
//! | file | content |
//! |---|---|
//! | `environment.rs` | rights, and variables |
//! | `paths.rs` | who can change a file, and what lies at the end of a path |

#![deny(unsafe_code)]

mod environment;
mod paths;

pub use environment::{borrowed, variable, variables};
pub use paths::{is_ours, loadable};
