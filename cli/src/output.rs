use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use crate::io::sys;

/// stdout, every write of which is checked.
pub(crate) struct Output {
    stdout: Option<io::Result<File>>,
}

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

impl Output {
    pub(crate) fn new() -> Self {
        Self { stdout: None }
    }

    /// Writes `text`, all of it or not at all.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.file()
            .and_then(|file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::at("standard output", &error))
    }

    /// Writes `value` as JSON, with a newline.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        self.write(&json(value)?)
    }

    /// Whether all has arrived, which a network file system knows only now.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.stdout {
            Some(Ok(file)) => sys::close(file).map_err(|error| Failure::at("standard output", &error)),
            _ => Ok(()),
        }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let stdout = self.stdout.get_or_insert_with(sys::stdout);
        stdout.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))
    }
}

impl Failure {
    /// What the system said about `what`.
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

impl From<gantry::Error> for Failure {
    fn from(error: gantry::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<gantry_runtime::Error> for Failure {
    fn from(error: gantry_runtime::Error) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl From<gantry::UnknownAlgorithm> for Failure {
    fn from(error: gantry::UnknownAlgorithm) -> Self {
        Failure::Usage(error.to_string())
    }
}

/// `value` as JSON, with a newline.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| Failure::Failed(error.to_string()))?;
    text.push('\n');
    Ok(text)
}

/// What cannot be written should be known before something is measured for minutes.
pub(crate) fn must_be_writable(file: &Path) -> Result<(), Failure> {
    let opened = File::options().write(true).create(true).truncate(false).open(file);
    opened.map(drop).map_err(|error| Failure::at(file.display(), &error))
}

const BAR: &str = "[{bar:30}] {pos}/{len} {wide_msg}";

/// A bar of `steps` steps on stderr, if that is a terminal.
pub(crate) fn progress_bar(steps: u64) -> ProgressBar {
    // The template is a constant that a test looks at.
    let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style.progress_chars("=> "))
}

/// A message on stderr. That nobody can be told when stderr is closed is no reason to fail differently.
pub(crate) fn say(message: &str) {
    let _ = writeln!(io::stderr(), "gantry: {message}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_of_the_bar_is_one() {
        assert!(indicatif::ProgressStyle::with_template(super::BAR).is_ok());
    }
}
