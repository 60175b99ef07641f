use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use crate::failure::{Failure, say};
use crate::io::sys;

/// stdout, every write of which is checked.
pub(crate) struct Output {
    stdout: Option<io::Result<File>>,
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_of_the_bar_is_one() {
        assert!(indicatif::ProgressStyle::with_template(super::BAR).is_ok());
    }
}
