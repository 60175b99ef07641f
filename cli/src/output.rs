//! Standard output with checked writes, JSON, and progress bars.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use crate::failure::{Failure, print_message};
use crate::io::sys;

/// stdout with checked writes.
pub(crate) struct Output {
    stdout: Option<io::Result<File>>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { stdout: None }
    }

    /// Writes all of `text`.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.file()
            .and_then(|file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::at("standard output", &error))
    }

    /// Writes `value` as JSON, with a newline.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        self.write(&json(value)?)
    }

    /// Closes stdout, and reports errors that a network file system detects only now.
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

/// Formats `value` as JSON, with a newline.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| Failure::Failed(error.to_string()))?;
    text.push('\n');
    Ok(text)
}

/// Checks early that `file` is writable, before minutes of measurements.
pub(crate) fn check_writable(file: &Path) -> Result<(), Failure> {
    let opened = File::options().write(true).create(true).truncate(false).open(file);
    opened.map(drop).map_err(|error| Failure::at(file.display(), &error))
}

const BAR_TEMPLATE: &str = "[{bar:30}] {pos}/{len} {wide_msg}";

/// Returns a progress bar on stderr, which is hidden if stderr is not a terminal.
pub(crate) fn progress_bar(steps: u64) -> ProgressBar {
    // A test checks the constant template.
    let style = ProgressStyle::with_template(BAR_TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_of_the_bar_is_valid() {
        assert!(indicatif::ProgressStyle::with_template(super::BAR_TEMPLATE).is_ok());
    }
}
