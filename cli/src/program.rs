//! Programs of others that the command runs.

use std::ffi::OsStr;
use std::process::Command;

use gantry_runtime::rights;

use crate::output::Failure;

/// A program, which the variable `PATH` finds. With borrowed rights there is none: it would have them, too, and the caller says which it is.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Result<Command, Failure> {
    if rights::borrowed() {
        let name = name.as_ref().display();
        return Err(Failure::Failed(format!(
            "{name}: gantry has rights that its caller has not, and runs no other program"
        )));
    }
    Ok(Command::new(name))
}
