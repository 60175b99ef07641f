//! Check mode: reads checksum files, and prints a verdict for each listed file.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::iter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::rc::Rc;

use indicatif::ProgressBar;

use super::cache::{self, Cache};
use super::console::Console;
use super::digest::Digest;
use super::engine::{HashedFile, Pipeline, Sink, hash_single};
use super::function::Functions;
use super::lines::Lines;
use super::lists::{Expected, ListParser, ParsedLine};
use super::names::HashId;
use super::object::Special;
use super::open::Opener;
use super::quote::quote;
use super::read_mode::{self, ReadMode};
use super::recognise::others_of_same_length;
use super::record::ObjectWriter;
use super::{sys, walk, write_name};
use crate::args::sum::Options;

/// A note that accompanies each file through the pipeline, in the order of the lines.
pub(super) enum Note {
    /// A line with a file.
    Expect(Expected, Functions, LineLocation),
    /// A line with a file whose functions no device serves, and the reason.
    Unserved(Expected, String, LineLocation),
    /// A line with a file that is not read as bytes.
    Converted(Expected, Functions, LineLocation),
    /// A line with a symbolic link or folder.
    Special(Vec<u8>, Special, LineLocation),
    /// An improper line; `kind` is the expected format.
    Improper { kind: String, location: LineLocation },
    /// A checksum file could not be opened.
    Unreadable { list: Rc<[u8]>, error: io::Error },
    /// A checksum file was read to its end, or to an error.
    End { list: Rc<[u8]>, complete: bool },
}

pub(super) struct LineLocation {
    list: Rc<[u8]>,
    line: u64,
}

/// Prints verdicts and counts them.
pub(super) struct Verdicts<'c> {
    options: &'c Options,
    /// True if an improper line is a failure.
    strict: bool,
    opener: &'c RefCell<&'c mut Opener>,
    cache: Option<&'c RefCell<Cache>>,
    console: &'c mut Console,
    tally: Tally,
    all_verified: bool,
}

/// Counts for one checksum file.
#[derive(Default)]
struct Tally {
    proper: u64,
    improper: u64,
    unreadable: u64,
    mismatched: u64,
    matched: u64,
    cached: u64,
    /// The function that was found by trying, if neither the lines nor the list's name state it.
    learned_function: Option<HashId>,
}

impl<'c> Verdicts<'c> {
    pub(super) fn new(
        options: &'c Options,
        strict: bool,
        opener: &'c RefCell<&'c mut Opener>,
        cache: Option<&'c RefCell<Cache>>,
        console: &'c mut Console,
    ) -> Self {
        Self { options, strict, opener, cache, console, tally: Tally::default(), all_verified: true }
    }

    /// True if every file was verified.
    pub(super) fn all_verified(&self) -> bool {
        self.all_verified
    }

    /// Prints a verdict: `word` in JSON, `words` in other lines. `more` adds members to the JSON object.
    fn verdict(
        &mut self,
        (name, location): (&[u8], &LineLocation),
        (word, words): (&str, &str),
        more: impl FnOnce(&mut ObjectWriter<'_>),
    ) {
        if self.options.status {
            return;
        }
        let line = self.console.line();
        if self.options.json {
            let mut object = ObjectWriter::begin(line);
            object.name("list", &location.list);
            object.number("line", location.line);
            object.name("path", name);
            object.text("verdict", word);
            more(&mut object);
            object.end();
        } else {
            // Escape only newlines, unlike in a digest's line.
            let escape = !self.options.zero && name.contains(&b'\n');
            if escape {
                line.push(b'\\');
            }
            write_name(line, name, escape);
            line.extend(b": ");
            line.extend(words.as_bytes());
        }
        self.console.end_line();
    }

    fn judge(&mut self, name: &[u8], note: (&Expected, &Functions, &LineLocation), result: io::Result<HashedFile>) {
        let (expected, functions, location) = note;
        self.tally.proper += 1;
        let found = match result {
            Err(error) if self.options.ignore_missing && error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable((name, location), &error),
            Ok(found) => found,
        };
        if let Some(cache) = self.cache
            && expected.read_mode == ReadMode::Bytes
        {
            cache.borrow_mut().insert(name, functions, &found);
        }
        self.tally.cached += u64::from(found.cached);
        let ids = functions.iter().map(|function| function.id);
        let as_expected = found.digests.iter().eq(expected.digests.iter().map(|(_, digest)| digest));
        let by_another = if as_expected { None } else { self.try_other_functions(name, expected) };
        if let Some((id, digest)) = by_another {
            self.tally.learned_function = Some(id);
            expected.learned_function.set(Some(id));
            self.matched((name, location), iter::once(id), &HashedFile { digests: vec![digest], ..found });
        } else if as_expected {
            self.matched((name, location), ids, &found);
        } else {
            self.tally.mismatched += 1;
            self.verdict((name, location), ("failed", "FAILED"), |object| {
                object.found(ids, &found);
                object.digests("expected", expected.digests.iter().copied());
            });
        }
    }

    fn judge_special(&mut self, name: &[u8], listed: &Special, location: &LineLocation) {
        self.tally.proper += 1;
        match walk::special(Path::new(OsStr::from_bytes(name))) {
            Err(error) if self.options.ignore_missing && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable((name, location), &error),
            Ok(Some(found)) if found == *listed => self.ok((name, location), |object| object.special(listed)),
            Ok(found) => {
                self.tally.mismatched += 1;
                self.verdict((name, location), ("failed", "FAILED"), |object| {
                    if let Some(found) = found {
                        object.special(&found);
                    }
                });
            }
        }
    }

    fn matched(&mut self, at: (&[u8], &LineLocation), ids: impl Iterator<Item = HashId>, found: &HashedFile) {
        self.ok(at, |object| object.found(ids, found));
    }

    fn ok(&mut self, at: (&[u8], &LineLocation), more: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.tally.matched += 1;
        if !self.options.quiet {
            self.verdict(at, ("ok", "OK"), more);
        }
    }

    /// Tries the other functions with digests of this length, and returns one that gives the listed digest. Returns `None` if a line names
    /// the function: only the length and the list's name may mislead.
    fn try_other_functions(&self, name: &[u8], expected: &Expected) -> Option<(HashId, Digest)> {
        let [(id, digest)] = expected.digests[..] else { return None };
        if expected.is_certain {
            return None;
        }
        let mut opener = self.opener.borrow_mut();
        let served = others_of_same_length(id).filter_map(|id| Some(opener.functions(&[id]).ok()?[0].clone()));
        let functions: Functions = served.collect();
        let path = Path::new(OsStr::from_bytes(name));
        if functions.is_empty() || !path.is_file() {
            return None;
        }
        let (digests, _) = hash_single(File::open(path).ok()?, &functions, &ProgressBar::hidden()).ok()?;
        let fitting = functions.iter().zip(digests).find(|(_, found)| *found == digest);
        fitting.map(|(function, digest)| (function.id, digest))
    }

    fn unreadable(&mut self, at: (&[u8], &LineLocation), error: &io::Error) {
        self.console.io_error(&quote(at.0), error);
        self.tally.unreadable += 1;
        self.verdict(at, ("unreadable", "FAILED open or read"), |object| object.error(error));
    }

    fn print_summary(&mut self, list: &[u8], complete: bool) {
        let tally = std::mem::take(&mut self.tally);
        if !complete {
            self.all_verified = false;
            self.console.error(&[&quote(list), b": read error".as_slice()].concat());
            return;
        }
        if tally.proper == 0 {
            self.all_verified = false;
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
            if let Some(id) = tally.learned_function {
                let words = format!(": the digests are of {0}, found by trying; -a {0} saves that", id.name());
                self.console.error(&[&quote(list), words.as_bytes()].concat());
            }
            if tally.cached > 0 {
                let files = if tally.cached == 1 { "file was" } else { "files were" };
                let words = format!(": {} {files} not read; digests are from the cache", tally.cached);
                self.console.error(&[&quote(list), words.as_bytes()].concat());
            }
            if self.options.ignore_missing && tally.matched == 0 {
                self.console.error(&[&quote(list), b": no file was verified".as_slice()].concat());
            }
        }
        let improper = self.strict && tally.improper > 0;
        self.all_verified &= tally.matched > 0 && tally.mismatched == 0 && tally.unreadable == 0 && !improper;
    }
}

impl Sink<Note> for Verdicts<'_> {
    fn on_file(&mut self, name: OsString, note: Note, result: io::Result<HashedFile>) {
        if let Note::Expect(expected, functions, location) = note {
            self.judge(name.as_bytes(), (&expected, &functions, &location), result);
        }
    }

    fn on_note(&mut self, note: Note) {
        match note {
            Note::Expect(..) => {}
            Note::Unserved(expected, reason, location) => {
                self.tally.proper += 1;
                self.unreadable((&expected.name, &location), &io::Error::other(reason));
            }
            Note::Converted(expected, functions, location) => {
                let file = read_mode::open(&expected.name, expected.read_mode);
                let hashed = file.and_then(|file| hash_single(file, &functions, &ProgressBar::hidden()));
                let found = hashed.map(|(digests, bytes)| HashedFile { digests, bytes, stamp: None, cached: false });
                self.judge(&expected.name, (&expected, &functions, &location), found);
            }
            Note::Special(name, special, location) => self.judge_special(&name, &special, &location),
            Note::Improper { kind, location } => {
                self.tally.improper += 1;
                if self.options.warn {
                    let rest = format!(": {}: improperly formatted {kind}checksum line", location.line);
                    self.console.error(&[&quote(&location.list), rest.as_bytes()].concat());
                }
            }
            Note::Unreadable { list, error } => {
                self.all_verified = false;
                self.console.io_error(&quote(&list), &error);
            }
            Note::End { list, complete } => self.print_summary(&list, complete),
        }
    }

    fn on_wait(&mut self) {
        self.console.flush();
    }
}

/// State for feeding the lines of checksum files.
pub(super) struct ListFeeder<'f> {
    pub(super) parser: ListParser,
    pub(super) opener: &'f RefCell<&'f mut Opener>,
    pub(super) cache: Option<&'f RefCell<Cache>>,
}

impl ListFeeder<'_> {
    /// Feeds the lines of all checksum files to the pipeline.
    pub(super) fn feed_all<S: Sink<Note>>(&mut self, lists: &[OsString], pipeline: &mut Pipeline<'_, Note, S>) {
        for operand in lists {
            let from_stdin = operand == "-";
            let list: Rc<[u8]> =
                if from_stdin { b"standard input".as_slice().into() } else { operand.as_bytes().into() };
            let is_regular = !from_stdin && std::fs::metadata(operand).is_ok_and(|data| data.is_file());
            if !is_regular {
                // Opening may block on a process that waits for our output.
                pipeline.drain();
            }
            let opened = if from_stdin { sys::stdin() } else { File::open(operand) };
            let file = match opened {
                Ok(file) => file,
                // A closed stdin counts as an error of reading, not of opening.
                Err(_) if from_stdin => {
                    pipeline.feed_note(Note::End { list, complete: false });
                    continue;
                }
                Err(error) => {
                    pipeline.feed_note(Note::Unreadable { list, error });
                    continue;
                }
            };
            self.parser.begin(operand);
            let lines = self.parser.lines(file);
            let complete =
                lines.and_then(|lines| self.feed_list(lines, &list, from_stdin, is_regular, pipeline)).is_ok();
            pipeline.feed_note(Note::End { list, complete });
        }
    }

    fn feed_list<S: Sink<Note>>(
        &mut self,
        mut lines: Lines<File>,
        list: &Rc<[u8]>,
        from_stdin: bool,
        is_regular: bool,
        pipeline: &mut Pipeline<'_, Note, S>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for line in 1.. {
            if !is_regular && !lines.has_next() {
                // The next read may block on a process that waits for our verdicts.
                pipeline.drain();
            }
            let Some(whole) = lines.next(&mut bytes)? else { break };
            let location = LineLocation { list: Rc::clone(list), line };
            match if whole { self.parser.line(&bytes) } else { ParsedLine::Improper } {
                ParsedLine::Blank => {}
                // `-` in a list from stdin would be the list itself.
                ParsedLine::File(expected) if !(from_stdin && expected.name == b"-") => {
                    self.feed_expected(expected, location, pipeline);
                }
                ParsedLine::Special(name, special) => pipeline.feed_note(Note::Special(name, special, location)),
                ParsedLine::File(_) | ParsedLine::Improper => {
                    pipeline.feed_note(Note::Improper { kind: self.parser.kind(), location });
                }
            }
        }
        Ok(())
    }

    fn feed_expected<S: Sink<Note>>(
        &mut self,
        expected: Expected,
        location: LineLocation,
        pipeline: &mut Pipeline<'_, Note, S>,
    ) {
        let ids: Vec<HashId> = expected.digests.iter().map(|(id, _)| *id).collect();
        let functions = self.opener.borrow_mut().functions(&ids);
        match functions {
            Err(why) => pipeline.feed_note(Note::Unserved(expected, why, location)),
            Ok(functions) if expected.read_mode != ReadMode::Bytes => {
                pipeline.feed_note(Note::Converted(expected, functions, location));
            }
            Ok(functions) => {
                let name = OsString::from_vec(expected.name.clone());
                let note = Note::Expect(expected, Functions::clone(&functions), location);
                cache::feed(self.cache, name, functions, note, pipeline);
            }
        }
    }
}
