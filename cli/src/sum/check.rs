//! Check mode: checksum files in, a verdict for each file they list.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::rc::Rc;

use super::checkfile::{Format, Line, parse_line};
use super::console::Console;
use super::digest::Digest;
use super::engine::{Pipeline, Sink};
use super::options::Options;
use super::quote::quote;
use super::{sys, write_name};

/// Longest line that is looked at: no name that a system can open comes near. What is longer counts as improper, so
/// that a file without line ends does not fill the memory.
pub(super) const LONGEST_LINE: u64 = 1 << 20;

/// What the pipeline carries beside each file, in the order of the lines.
pub(super) enum Note {
    /// A line with a file: what it should be.
    Expect(Digest),
    /// A line that is none.
    Improper { list: Rc<[u8]>, line: u64 },
    /// A checksum file could not be opened.
    Unreadable { list: Rc<[u8]>, error: io::Error },
    /// A checksum file was read to its end, or to an error.
    End { list: Rc<[u8]>, complete: bool },
}

/// Prints verdicts and counts them.
pub(super) struct Verdicts<'c> {
    options: &'c Options,
    tag: &'c str,
    console: &'c mut Console,
    tally: Tally,
    good: bool,
}

/// The lines of one checksum file.
#[derive(Default)]
struct Tally {
    proper: u64,
    improper: u64,
    unreadable: u64,
    mismatched: u64,
    matched: u64,
}

impl<'c> Verdicts<'c> {
    pub(super) fn new(options: &'c Options, tag: &'c str, console: &'c mut Console) -> Self {
        Self { options, tag, console, tally: Tally::default(), good: true }
    }

    /// Whether everything was as it should be.
    pub(super) fn good(&self) -> bool {
        self.good
    }

    fn verdict(&mut self, name: &OsString, words: &str) {
        if !self.options.status {
            let line = self.console.line();
            // Unlike in a digest's line, only a newline asks for escapes.
            let escape = name.as_bytes().contains(&b'\n');
            if escape {
                line.push(b'\\');
            }
            write_name(line, name.as_bytes(), escape);
            line.extend(b": ");
            line.extend(words.as_bytes());
            self.console.end_line();
        }
    }

    fn judge(&mut self, name: &OsString, expected: &Digest, result: io::Result<Digest>) {
        self.tally.proper += 1;
        match result {
            Err(error) if self.options.ignore_missing && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.console.io_error(&quote(name.as_bytes()), &error);
                self.tally.unreadable += 1;
                self.verdict(name, "FAILED open or read");
            }
            Ok(digest) if digest == *expected => {
                self.tally.matched += 1;
                if !self.options.quiet {
                    self.verdict(name, "OK");
                }
            }
            Ok(_) => {
                self.tally.mismatched += 1;
                self.verdict(name, "FAILED");
            }
        }
    }

    fn sum_up(&mut self, list: &[u8], complete: bool) {
        let tally = std::mem::take(&mut self.tally);
        if !complete {
            self.good = false;
            self.console.error(&[&quote(list), b": read error".as_slice()].concat());
            return;
        }
        if tally.proper == 0 {
            self.good = false;
            self.console.error(&[&quote(list), b": no properly formatted checksum lines found".as_slice()].concat());
            return;
        }
        if !self.options.status {
            for (count, one, several) in [
                (tally.improper, "line is improperly formatted", "lines are improperly formatted"),
                (tally.unreadable, "listed file could not be read", "listed files could not be read"),
                (tally.mismatched, "computed checksum did NOT match", "computed checksums did NOT match"),
            ] {
                if count > 0 {
                    let words = if count == 1 { one } else { several };
                    self.console.error(format!("WARNING: {count} {words}").as_bytes());
                }
            }
            if self.options.ignore_missing && tally.matched == 0 {
                self.console.error(&[&quote(list), b": no file was verified".as_slice()].concat());
            }
        }
        let strict = self.options.strict && tally.improper > 0;
        self.good &= tally.matched > 0 && tally.mismatched == 0 && tally.unreadable == 0 && !strict;
    }
}

impl Sink<Note> for Verdicts<'_> {
    fn file(&mut self, name: OsString, note: Note, result: io::Result<Digest>) {
        if let Note::Expect(expected) = note {
            self.judge(&name, &expected, result);
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Expect(_) => {}
            Note::Improper { list, line } => {
                self.tally.improper += 1;
                if self.options.warn {
                    let rest = format!(": {line}: improperly formatted {} checksum line", self.tag);
                    self.console.error(&[&quote(&list), rest.as_bytes()].concat());
                }
            }
            Note::Unreadable { list, error } => {
                self.good = false;
                self.console.io_error(&quote(&list), &error);
            }
            Note::End { list, complete } => self.sum_up(&list, complete),
        }
    }

    fn waiting(&mut self) {
        self.console.flush();
    }
}

/// Feeds the lines of all checksum files to the pipeline.
pub(super) fn feed<S: Sink<Note>>(lists: &[OsString], mut format: Format, pipeline: &mut Pipeline<'_, Note, S>) {
    for operand in lists {
        let from_stdin = operand == "-";
        let list: Rc<[u8]> = if from_stdin { b"standard input".as_slice().into() } else { operand.as_bytes().into() };
        let regular = !from_stdin && std::fs::metadata(operand).is_ok_and(|data| data.is_file());
        if !regular {
            // Opening it may wait for somebody who waits for what was printed so far.
            pipeline.drain();
        }
        let opened = if from_stdin { sys::stdin() } else { File::open(operand) };
        let reader = match opened {
            Ok(file) => BufReader::with_capacity(64 << 10, file),
            // With a closed stdin it is the reading that fails.
            Err(_) if from_stdin => {
                pipeline.note(Note::End { list, complete: false });
                continue;
            }
            Err(error) => {
                pipeline.note(Note::Unreadable { list, error });
                continue;
            }
        };
        let complete = feed_list(reader, &list, from_stdin, regular, &mut format, pipeline).is_ok();
        pipeline.note(Note::End { list, complete });
    }
}

fn feed_list<S: Sink<Note>>(
    mut reader: BufReader<File>,
    list: &Rc<[u8]>,
    from_stdin: bool,
    regular: bool,
    format: &mut Format,
    pipeline: &mut Pipeline<'_, Note, S>,
) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        if !regular && !reader.buffer().contains(&b'\n') {
            // The next read may wait for a writer who waits for our verdicts.
            pipeline.drain();
        }
        line.clear();
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
            reader.skip_until(b'\n')?;
            pipeline.note(Note::Improper { list: Rc::clone(list), line: number });
            continue;
        }
        match parse_line(&line, format) {
            Line::Blank => {}
            // stdin is this very list.
            Line::Entry { name, .. } if from_stdin && *name == *b"-" => {
                pipeline.note(Note::Improper { list: Rc::clone(list), line: number });
            }
            Line::Entry { name, digest } => {
                let expected = Digest::from_hex(digest);
                pipeline.file(OsString::from_vec(name.into_owned()), Note::Expect(expected));
            }
            Line::Improper => pipeline.note(Note::Improper { list: Rc::clone(list), line: number }),
        }
    }
    Ok(())
}
