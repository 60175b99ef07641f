//! The results of an audit: lines, objects, and the summary.

use std::io;

use crate::args::sum::Options;
use crate::sum::console::Console;
use crate::sum::quote::quote;
use crate::sum::record::Object;
use crate::sum::{needs_escape, write_name};

/// Result for a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ok,
    Changed,
    /// The content changed, but neither the size nor the time of modification.
    Damaged,
    Moved,
    Missing,
    New,
}

/// The words for each kind, in JSON and in the summary, in the order of [`Kind`].
const KINDS: [(&str, &str); 6] = [
    ("ok", "as listed"),
    ("changed", "changed"),
    ("damaged", "damaged"),
    ("moved", "moved"),
    ("missing", "missing"),
    ("new", "new"),
];

pub(super) struct Report<'c> {
    options: &'c Options,
    pub(super) console: &'c mut Console,
    counts: [u64; KINDS.len()],
    /// True if a rule of the bag is broken.
    differs: bool,
    /// True if something could not be compared.
    has_errors: bool,
}

impl<'c> Report<'c> {
    pub(super) fn new(options: &'c Options, console: &'c mut Console) -> Self {
        Self { options, console, counts: [0; KINDS.len()], differs: false, has_errors: false }
    }

    pub(super) fn print(&mut self, kind: Kind, name: &[u8], from: Option<&[u8]>, more: impl FnOnce(&mut Object<'_>)) {
        self.counts[kind as usize] += 1;
        let word = KINDS[kind as usize].0;
        if kind == Kind::Ok && (self.options.quiet || !self.options.json) {
            return;
        }
        let line = self.console.line();
        if self.options.json {
            let mut object = Object::begin(line);
            object.name("path", name);
            object.text("verdict", word);
            if let Some(from) = from {
                object.name("from", from);
            }
            more(&mut object);
            object.end();
        } else {
            let escape = needs_escape(name) || from.is_some_and(needs_escape);
            if escape {
                line.push(b'\\');
            }
            line.extend(word.as_bytes());
            line.extend(b": ");
            if let Some(from) = from {
                write_name(line, from, escape);
                line.extend(b" -> ");
            }
            write_name(line, name, escape);
        }
        self.console.end_line();
    }

    /// Reports something that could not be compared.
    pub(super) fn print_error(&mut self, name: &[u8], words: &str) {
        self.has_errors = true;
        self.remark(name, words);
    }

    /// Reports a difference that is not the difference of a file.
    pub(super) fn print_fault(&mut self, words: &str) {
        self.differs = true;
        self.console.error(words.as_bytes());
    }

    /// Prints a remark about a file.
    pub(super) fn remark(&mut self, name: &[u8], words: &str) {
        self.console.error(&[&quote(name), b": ".as_slice(), words.as_bytes()].concat());
    }

    pub(super) fn unreadable(&mut self, path: &[u8], error: &io::Error) {
        self.has_errors = true;
        self.console.io_error(&quote(path), error);
        if self.options.json {
            let mut object = Object::begin(self.console.line());
            object.name("path", path);
            object.text("verdict", "unreadable");
            object.error(error);
            object.end();
            self.console.end_line();
        }
    }

    /// Prints the summary, and returns the exit status.
    pub(super) fn end(self) -> u8 {
        if !self.options.quiet && !self.options.json {
            let kinds = [Kind::Ok, Kind::Changed, Kind::Damaged, Kind::Moved, Kind::Missing, Kind::New];
            // Most lists cannot tell damage from changes, so omit a count of 0.
            let shown = kinds.iter().filter(|kind| **kind != Kind::Damaged || self.counts[**kind as usize] > 0);
            let counts = shown.map(|kind| format!("{} {}", self.counts[*kind as usize], KINDS[*kind as usize].1));
            self.console.text(&counts.collect::<Vec<_>>().join(", "));
        }
        let differs = self.differs || self.counts[1..].iter().any(|count| *count > 0);
        if self.has_errors { 2 } else { u8::from(differs) }
    }
}
