//! External programs that the command runs.

use std::ffi::OsStr;
use std::process::Command;

use gantry_runtime::rights;

use crate::io::sys;
use crate::output::Failure;

/// Prepares to run a program from `PATH`, with the signal mask that this process inherited. Refuses if this process has rights that its
/// caller does not have: the caller chooses the program, which would inherit these rights.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Result<Command, Failure> {
    if rights::has_elevated_rights() {
        let name = name.as_ref().display();
        return Err(Failure::Failed(format!(
            "{name}: gantry has rights that its caller does not have, so it runs no other program"
        )));
    }
    let mut command = Command::new(name);
    sys::restore_signal_mask(&mut command);
    Ok(command)
}
