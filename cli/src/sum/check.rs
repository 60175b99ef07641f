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
use super::names::Id;
use super::object::Special;
use super::open::Opener;
use super::quote::quote;
use super::reading::{self, Reading};
use super::recognise::of_one_length;
use super::record::Object;
use super::{sys, walk, write_name};
use crate::args::sum::Options;

/// A note that accompanies each file through the pipeline, in the order of the lines.
pub(super) enum Note {
    /// A line with a file.
    Expect(Expected, Functions, Place),
    /// A line with a file whose functions no device serves, and the reason.
    Unserved(Expected, String, Place),
    /// A line with a file that is not read as bytes.
    Converted(Expected, Functions, Place),
    /// A line with a symbolic link or folder.
    Special(Vec<u8>, Special, Place),
    /// An improper line; `kind` is the expected format.
    Improper { kind: String, place: Place },
    /// A checksum file could not be opened.
    Unreadable { list: Rc<[u8]>, error: io::Error },
    /// A checksum file was read to its end, or to an error.
    End { list: Rc<[u8]>, complete: bool },
}

pub(super) struct Place {
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
    good: bool,
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
    learned: Option<Id>,
}

impl<'c> Verdicts<'c> {
    pub(super) fn new(
        options: &'c Options,
        strict: bool,
        opener: &'c RefCell<&'c mut Opener>,
        cache: Option<&'c RefCell<Cache>>,
        console: &'c mut Console,
    ) -> Self {
        Self { options, strict, opener, cache, console, tally: Tally::default(), good: true }
    }

    /// True if every file was verified.
    pub(super) fn good(&self) -> bool {
        self.good
    }

    /// Prints a verdict: `word` in JSON, `words` in other lines. `more` adds members to the JSON object.
    fn verdict(
        &mut self,
        (name, place): (&[u8], &Place),
        (word, words): (&str, &str),
        more: impl FnOnce(&mut Object<'_>),
    ) {
        if self.options.status {
            return;
        }
        let line = self.console.line();
        if self.options.json {
            let mut object = Object::begin(line);
            object.name("list", &place.list);
            object.number("line", place.line);
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

    fn judge(&mut self, name: &[u8], note: (&Expected, &Functions, &Place), result: io::Result<HashedFile>) {
        let (expected, functions, place) = note;
        self.tally.proper += 1;
        let found = match result {
            Err(error) if self.options.ignore_missing && error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable((name, place), &error),
            Ok(found) => found,
        };
        if let Some(cache) = self.cache
            && expected.reading == Reading::Bytes
        {
            cache.borrow_mut().insert(name, functions, &found);
        }
        self.tally.cached += u64::from(found.cached);
        let ids = functions.iter().map(|function| function.id);
        let as_expected = found.digests.iter().eq(expected.digests.iter().map(|(_, digest)| digest));
        let by_another = if as_expected { None } else { self.try_others(name, expected) };
        if let Some((id, digest)) = by_another {
            self.tally.learned = Some(id);
            expected.learned.set(Some(id));
            self.matched((name, place), iter::once(id), &HashedFile { digests: vec![digest], ..found });
        } else if as_expected {
            self.matched((name, place), ids, &found);
        } else {
            self.tally.mismatched += 1;
            self.verdict((name, place), ("failed", "FAILED"), |object| {
                object.found(ids, &found);
                object.digests("expected", expected.digests.iter().copied());
            });
        }
    }

    fn judge_special(&mut self, name: &[u8], listed: &Special, place: &Place) {
        self.tally.proper += 1;
        match walk::special(Path::new(OsStr::from_bytes(name))) {
            Err(error) if self.options.ignore_missing && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unreadable((name, place), &error),
            Ok(Some(found)) if found == *listed => self.ok((name, place), |object| object.special(listed)),
            Ok(found) => {
                self.tally.mismatched += 1;
                self.verdict((name, place), ("failed", "FAILED"), |object| {
                    if let Some(found) = found {
                        object.special(&found);
                    }
                });
            }
        }
    }

    fn matched(&mut self, at: (&[u8], &Place), ids: impl Iterator<Item = Id>, found: &HashedFile) {
        self.ok(at, |object| object.found(ids, found));
    }

    fn ok(&mut self, at: (&[u8], &Place), more: impl FnOnce(&mut Object<'_>)) {
        self.tally.matched += 1;
        if !self.options.quiet {
            self.verdict(at, ("ok", "OK"), more);
        }
    }

    /// Tries the other functions with digests of this length, and returns one that gives the listed digest. Returns `None` if a line names
    /// the function: only the length and the list's name may mislead.
    fn try_others(&self, name: &[u8], expected: &Expected) -> Option<(Id, Digest)> {
        let [(id, digest)] = expected.digests[..] else { return None };
        if expected.stated {
            return None;
        }
        let mut opener = self.opener.borrow_mut();
        let served = of_one_length(id).filter_map(|id| Some(opener.functions(&[id]).ok()?[0].clone()));
        let functions: Functions = served.collect();
        let path = Path::new(OsStr::from_bytes(name));
        if functions.is_empty() || !path.is_file() {
            return None;
        }
        let (digests, _) = hash_single(File::open(path).ok()?, &functions, &ProgressBar::hidden()).ok()?;
        let fitting = functions.iter().zip(digests).find(|(_, found)| *found == digest);
        fitting.map(|(function, digest)| (function.id, digest))
    }

    fn unreadable(&mut self, at: (&[u8], &Place), error: &io::Error) {
        self.console.io_error(&quote(at.0), error);
        self.tally.unreadable += 1;
        self.verdict(at, ("unreadable", "FAILED open or read"), |object| object.error(error));
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
            if let Some(id) = tally.learned {
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
        self.good &= tally.matched > 0 && tally.mismatched == 0 && tally.unreadable == 0 && !improper;
    }
}

impl Sink<Note> for Verdicts<'_> {
    fn file(&mut self, name: OsString, note: Note, result: io::Result<HashedFile>) {
        if let Note::Expect(expected, functions, place) = note {
            self.judge(name.as_bytes(), (&expected, &functions, &place), result);
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Expect(..) => {}
            Note::Unserved(expected, reason, place) => {
                self.tally.proper += 1;
                self.unreadable((&expected.name, &place), &io::Error::other(reason));
            }
            Note::Converted(expected, functions, place) => {
                let file = reading::open(&expected.name, expected.reading);
                let hashed = file.and_then(|file| hash_single(file, &functions, &ProgressBar::hidden()));
                let found = hashed.map(|(digests, bytes)| HashedFile { digests, bytes, stamp: None, cached: false });
                self.judge(&expected.name, (&expected, &functions, &place), found);
            }
            Note::Special(name, special, place) => self.judge_special(&name, &special, &place),
            Note::Improper { kind, place } => {
                self.tally.improper += 1;
                if self.options.warn {
                    let rest = format!(": {}: improperly formatted {kind}checksum line", place.line);
                    self.console.error(&[&quote(&place.list), rest.as_bytes()].concat());
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

/// State for feeding the lines of checksum files.
pub(super) struct Feed<'f> {
    pub(super) parser: ListParser,
    pub(super) opener: &'f RefCell<&'f mut Opener>,
    pub(super) cache: Option<&'f RefCell<Cache>>,
}

impl Feed<'_> {
    /// Feeds the lines of all checksum files to the pipeline.
    pub(super) fn all<S: Sink<Note>>(&mut self, lists: &[OsString], pipeline: &mut Pipeline<'_, Note, S>) {
        for operand in lists {
            let from_stdin = operand == "-";
            let list: Rc<[u8]> =
                if from_stdin { b"standard input".as_slice().into() } else { operand.as_bytes().into() };
            let regular = !from_stdin && std::fs::metadata(operand).is_ok_and(|data| data.is_file());
            if !regular {
                // Opening may block on a process that waits for our output.
                pipeline.drain();
            }
            let opened = if from_stdin { sys::stdin() } else { File::open(operand) };
            let file = match opened {
                Ok(file) => file,
                // A closed stdin counts as an error of reading, not of opening.
                Err(_) if from_stdin => {
                    pipeline.note(Note::End { list, complete: false });
                    continue;
                }
                Err(error) => {
                    pipeline.note(Note::Unreadable { list, error });
                    continue;
                }
            };
            self.parser.begin(operand);
            let lines = self.parser.lines(file);
            let complete = lines.and_then(|lines| self.list(lines, &list, from_stdin, regular, pipeline)).is_ok();
            pipeline.note(Note::End { list, complete });
        }
    }

    fn list<S: Sink<Note>>(
        &mut self,
        mut lines: Lines<File>,
        list: &Rc<[u8]>,
        from_stdin: bool,
        regular: bool,
        pipeline: &mut Pipeline<'_, Note, S>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for line in 1.. {
            if !regular && !lines.has_next() {
                // The next read may block on a process that waits for our verdicts.
                pipeline.drain();
            }
            let Some(whole) = lines.next(&mut bytes)? else { break };
            let place = Place { list: Rc::clone(list), line };
            match if whole { self.parser.line(&bytes) } else { ParsedLine::Improper } {
                ParsedLine::Blank => {}
                // `-` in a list from stdin would be the list itself.
                ParsedLine::File(expected) if !(from_stdin && expected.name == b"-") => {
                    self.expect(expected, place, pipeline);
                }
                ParsedLine::Special(name, special) => pipeline.note(Note::Special(name, special, place)),
                ParsedLine::File(_) | ParsedLine::Improper => {
                    pipeline.note(Note::Improper { kind: self.parser.kind(), place });
                }
            }
        }
        Ok(())
    }

    fn expect<S: Sink<Note>>(&mut self, expected: Expected, place: Place, pipeline: &mut Pipeline<'_, Note, S>) {
        let ids: Vec<Id> = expected.digests.iter().map(|(id, _)| *id).collect();
        let functions = self.opener.borrow_mut().functions(&ids);
        match functions {
            Err(why) => pipeline.note(Note::Unserved(expected, why, place)),
            Ok(functions) if expected.reading != Reading::Bytes => {
                pipeline.note(Note::Converted(expected, functions, place));
            }
            Ok(functions) => {
                let name = OsString::from_vec(expected.name.clone());
                let note = Note::Expect(expected, Functions::clone(&functions), place);
                cache::feed(self.cache, name, functions, note, pipeline);
            }
        }
    }
}
