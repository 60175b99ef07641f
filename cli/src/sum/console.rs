//! stdout and stderr of a tool: whole lines, in the order of a sequential tool.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use indicatif::ProgressBar;

use crate::io::sys;

/// Most bytes that a pipe takes atomically (PIPE_BUF on Linux), so that lines of several processes do not mix.
const PIPE_BUFFER_SIZE: usize = 4096;
/// Bytes that are buffered for a regular file.
const FILE_BUFFER_SIZE: usize = 64 << 10;

/// Output of a tool, and its name for messages.
///
/// Lines are buffered. They are written before anything goes to stderr, and before the tool waits for anything.
pub(super) struct Console {
    name: OsString,
    stdout: io::Result<File>,
    buffer_size: usize,
    /// Buffered lines. The first `complete_bytes` bytes are complete lines.
    lines: Vec<u8>,
    complete_bytes: usize,
    /// True if lines end with newlines, false if they end with NUL.
    ends_lines_with_newline: bool,
    /// The first write error.
    write_error: Option<io::Error>,
    /// A progress bar, which may be on the same terminal.
    bar: ProgressBar,
}

impl Console {
    pub(super) fn new(name: &OsStr) -> Self {
        let stdout = sys::stdout();
        let regular = stdout.as_ref().is_ok_and(|file| file.metadata().is_ok_and(|data| data.is_file()));
        Self {
            name: name.to_owned(),
            stdout,
            buffer_size: if regular { FILE_BUFFER_SIZE } else { PIPE_BUFFER_SIZE },
            lines: Vec::new(),
            complete_bytes: 0,
            ends_lines_with_newline: true,
            write_error: None,
            bar: ProgressBar::hidden(),
        }
    }

    /// Writes all further output above the bar.
    pub(super) fn write_above(&mut self, bar: ProgressBar) {
        self.bar = bar;
    }

    /// Ends all further lines with NUL.
    pub(super) fn end_lines_with_nul(&mut self) {
        self.ends_lines_with_newline = false;
    }

    /// Returns the buffer for one line; [`Console::end_line`] completes it.
    pub(super) fn line(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    /// Ends the line.
    pub(super) fn end_line(&mut self) {
        self.lines.push(if self.ends_lines_with_newline { b'\n' } else { 0 });
        if self.lines.len() > self.buffer_size && self.complete_bytes > 0 {
            self.write_out();
        }
        self.complete_bytes = self.lines.len();
    }

    /// Writes the buffered lines.
    pub(super) fn flush(&mut self) {
        if self.complete_bytes > 0 {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        if self.write_error.is_none() {
            let written = match &mut self.stdout {
                Ok(file) => self.bar.suspend(|| file.write_all(&self.lines[..self.complete_bytes])),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            self.write_error = written.err();
        }
        self.lines.drain(..self.complete_bytes);
        self.complete_bytes = 0;
    }

    /// Prints text of several lines.
    pub(super) fn text(&mut self, text: &str) {
        for line in text.lines() {
            self.lines.extend(line.as_bytes());
            self.end_line();
        }
    }

    /// Prints `PROGRAM: MESSAGE` on stderr.
    pub(super) fn error(&mut self, message: &[u8]) {
        self.flush();
        let line = [self.name.as_bytes(), b": ", message, b"\n"].concat();
        // Errors of stderr cannot be reported.
        let _ = self.bar.suspend(|| io::stderr().write_all(&line));
    }

    /// Prints `PROGRAM: SUBJECT: reason` on stderr.
    pub(super) fn io_error(&mut self, subject: &[u8], error: &io::Error) {
        self.error(&[subject, b": ", reason(error).as_bytes()].concat());
    }

    /// Prints a mistake on the command line, and a pointer to `--help`.
    pub(super) fn usage_error(&mut self, message: &[u8]) {
        self.error(message);
        let hint = [b"Try '", self.name.as_bytes(), b" --help' for more information.\n"].concat();
        let _ = io::stderr().write_all(&hint);
    }

    /// Writes the rest and closes stdout. Returns false, after a message, if a result could not be written.
    ///
    /// As in coreutils, the message has the reason only if closing failed or lines end with NUL. In coreutils the C library writes each
    /// line that ends with a newline at once, and does not keep the reason of a failure.
    #[must_use]
    pub(super) fn finish(mut self) -> bool {
        self.flush();
        let closed = match std::mem::replace(&mut self.stdout, Err(io::ErrorKind::Other.into())) {
            Ok(file) => sys::close(file),
            Err(error) if self.write_error.is_some() => Err(error),
            Err(_) => Ok(()),
        };
        match (closed, self.write_error.take()) {
            (Ok(()), None) => return true,
            (Ok(()), Some(_)) if self.ends_lines_with_newline => self.error(b"write error"),
            (Ok(()), Some(error)) | (Err(error), _) => self.io_error(b"write error", &error),
        }
        false
    }
}

/// Returns the system's words for an error, without the number that Rust appends.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
