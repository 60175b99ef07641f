//! The failure of a command, its message and its exit code.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A mistake on the command line: exit code 2.
    Usage(String),
    /// A failure: exit code 1.
    Failed(String),
    /// A failure that has already been reported: exit code 1.
    Reported,
    /// Exit code of a command that was run. If it could not be run, 127 (not found) or 126, as in shells.
    Status(u8),
}

impl Failure {
    /// Makes a failure from a system error. `what` names the object that the error concerns.
    pub(crate) fn at(what: impl fmt::Display, error: &io::Error) -> Self {
        let text = error.to_string();
        // Omit the error number, which means nothing to users.
        let words = text.split(" (os error").next().unwrap_or_default();
        Failure::Failed(format!("{what}: {words}"))
    }

    pub(crate) fn report(&self) -> ExitCode {
        if matches!(self, Failure::Usage(_) | Failure::Failed(_)) {
            print_message(&self.to_string());
        }
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) | Failure::Reported => 1,
            Failure::Status(code) => *code,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Failed(message) => f.write_str(message),
            Failure::Reported | Failure::Status(_) => Ok(()),
        }
    }
}

impl From<String> for Failure {
    fn from(words: String) -> Self {
        Failure::Failed(words)
    }
}

impl From<gantry_core::Error> for Failure {
    fn from(error: gantry_core::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<gantry_runtime::Error> for Failure {
    fn from(error: gantry_runtime::Error) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl From<gantry_core::UnknownAlgorithm> for Failure {
    fn from(error: gantry_core::UnknownAlgorithm) -> Self {
        Failure::Usage(error.to_string())
    }
}

/// Prints a message on stderr. A closed stderr does not affect the exit status.
pub(crate) fn print_message(message: &str) {
    let _ = writeln!(io::stderr(), "gantry: {message}");
}
