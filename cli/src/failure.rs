use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command did not do what it should.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something that cannot be: exit code 2.
    Usage(String),
    /// Something went wrong: exit code 1.
    Failed(String),
    /// The same, and everything about it has been said.
    Said,
    /// A command that was to be run ended with this exit code, or there is one for what kept it from running.
    Status(u8),
}

impl Failure {
    /// The words of a system error, behind `what`.
    pub(crate) fn at(what: impl fmt::Display, error: &io::Error) -> Self {
        let text = error.to_string();
        // Users know what happened by its words.
        let words = text.split(" (os error").next().unwrap_or_default();
        Failure::Failed(format!("{what}: {words}"))
    }

    pub(crate) fn report(&self) -> ExitCode {
        if matches!(self, Failure::Usage(_) | Failure::Failed(_)) {
            say(&self.to_string());
        }
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) | Failure::Said => 1,
            Failure::Status(code) => *code,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Failed(message) => f.write_str(message),
            Failure::Said | Failure::Status(_) => Ok(()),
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

/// A message on stderr. A closed stderr changes nothing about the exit status.
pub(crate) fn say(message: &str) {
    let _ = writeln!(io::stderr(), "gantry: {message}");
}
