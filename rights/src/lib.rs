//! Decides whether a library may trust the environment, files and code of an unknown process.
//!
//! Programs that are set-user-ID or have file capabilities have more rights than their caller. The caller controls their environment, and
//! through it the files that variables name. Each library of Gantry therefore calls [`variable`] instead of `std::env`.
//!
//! | file | content |
//! |---|---|
//! | `environment.rs` | rights, and variables |
//! | `paths.rs` | the users who can change a file, and safe resolution of paths |

#![deny(unsafe_code)]

mod environment;
mod paths;

pub use environment::{has_elevated_rights, variable, variables};
pub use paths::{check_trusted, resolve_trusted};
