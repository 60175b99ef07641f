//! The results of an audit: lines, objects, and the summary.

use std::io;

use crate::args::sum::Options;
use crate::sum::console::Console;
use crate::sum::quote::quote;
use crate::sum::record::ObjectWriter;
use crate::sum::{needs_escape, write_name};

/// Result for a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Changed,
    /// The content changed, but neither the size nor the time of modification.
    Damaged,
    Moved,
    Missing,
    New,
}

/// The words for each verdict, in JSON and in the summary, in the order of [`Verdict`].
const VERDICT_WORDS: [(&str, &str); 6] = [
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
    counts: [u64; VERDICT_WORDS.len()],
    /// True if a rule of the bag is broken.
    has_faults: bool,
    /// True if something could not be compared.
    has_errors: bool,
}

impl<'c> Report<'c> {
    pub(super) fn new(options: &'c Options, console: &'c mut Console) -> Self {
        Self { options, console, counts: [0; VERDICT_WORDS.len()], has_faults: false, has_errors: false }
    }

    pub(super) fn print(
        &mut self,
        verdict: Verdict,
        name: &[u8],
        from: Option<&[u8]>,
        more: impl FnOnce(&mut ObjectWriter<'_>),
    ) {
        self.counts[verdict as usize] += 1;
        let word = VERDICT_WORDS[verdict as usize].0;
        if verdict == Verdict::Ok && (self.options.quiet || !self.options.json) {
            return;
        }
        let line = self.console.line();
        if self.options.json {
            let mut object = ObjectWriter::begin(line);
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
        self.print_remark(name, words);
    }

    /// Reports a difference that is not the difference of a file.
    pub(super) fn print_fault(&mut self, words: &str) {
        self.has_faults = true;
        self.console.error(words.as_bytes());
    }

    /// Prints a remark about a file.
    pub(super) fn print_remark(&mut self, name: &[u8], words: &str) {
        self.console.error(&[&quote(name), b": ".as_slice(), words.as_bytes()].concat());
    }

    pub(super) fn print_unreadable(&mut self, path: &[u8], error: &io::Error) {
        self.has_errors = true;
        self.console.io_error(&quote(path), error);
        if self.options.json {
            let mut object = ObjectWriter::begin(self.console.line());
            object.name("path", path);
            object.text("verdict", "unreadable");
            object.error(error);
            object.end();
            self.console.end_line();
        }
    }

    /// Prints the summary, and returns the exit status.
    pub(super) fn finish(self) -> u8 {
        if !self.options.quiet && !self.options.json {
            let verdicts =
                [Verdict::Ok, Verdict::Changed, Verdict::Damaged, Verdict::Moved, Verdict::Missing, Verdict::New];
            // Most lists cannot tell damage from changes, so omit a count of 0.
            let shown =
                verdicts.iter().filter(|verdict| **verdict != Verdict::Damaged || self.counts[**verdict as usize] > 0);
            let counts = shown
                .map(|verdict| format!("{} {}", self.counts[*verdict as usize], VERDICT_WORDS[*verdict as usize].1));
            self.console.text(&counts.collect::<Vec<_>>().join(", "));
        }
        let differs = self.has_faults || self.counts[1..].iter().any(|count| *count > 0);
        if self.has_errors { 2 } else { u8::from(differs) }
    }
}
