//! Check mode: checksum files in, a verdict for each file they list.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::rc::Rc;

use super::cache::{self, Cache};
use super::console::Console;
use super::engine::{Found, Pipeline, Sink};
use super::function::Functions;
use super::lists::{Expected, Listed, Reading, read_line};
use super::names::Id;
use super::open::Opener;
use super::options::Options;
use super::quote::quote;
use super::recognise::of_one_length;
use super::record::Object;
use super::{sys, write_name};

/// What the pipeline carries beside each file, in the order of the lines.
pub(super) enum Note {
    /// A line with a file.
    Expect(Expected, Functions, Place),
    /// A line with a file whose functions nobody serves, and why.
    Unserved(Expected, String, Place),
    /// A line that is none of `kind`.
    Improper { kind: String, place: Place },
    /// A checksum file could not be opened.
    Unreadable { list: Rc<[u8]>, error: io::Error },
    /// A checksum file was read to its end, or to an error.
    End { list: Rc<[u8]>, complete: bool },
}

/// A line of a checksum file.
pub(super) struct Place {
    list: Rc<[u8]>,
    line: u64,
}

/// Prints verdicts and counts them.
pub(super) struct Verdicts<'c> {
    options: &'c Options,
    cache: Option<&'c RefCell<Cache>>,
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
    cached: u64,
    /// The function of a digest that did not match, and may be of another one.
    assumed: Option<Id>,
}

impl<'c> Verdicts<'c> {
    pub(super) fn new(options: &'c Options, cache: Option<&'c RefCell<Cache>>, console: &'c mut Console) -> Self {
        Self { options, cache, console, tally: Tally::default(), good: true }
    }

    /// Whether everything was as it should be.
    pub(super) fn good(&self) -> bool {
        self.good
    }

    /// `word` is the verdict in JSON, `words` in other lines. `more` adds what there is to say beside it.
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
            // Unlike in a digest's line, only a newline asks for escapes.
            let escape = name.contains(&b'\n');
            if escape {
                line.push(b'\\');
            }
            write_name(line, name, escape);
            line.extend(b": ");
            line.extend(words.as_bytes());
        }
        self.console.end_line();
    }

    fn judge(&mut self, name: &[u8], note: (&Expected, &Functions, &Place), result: io::Result<Found>) {
        let (expected, functions, place) = note;
        self.tally.proper += 1;
        let found = match result {
            Err(error) if self.options.ignore_missing && error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable((name, place), &error),
            Ok(found) => found,
        };
        if let Some(cache) = self.cache {
            cache.borrow_mut().insert(name, functions, &found);
        }
        self.tally.cached += u64::from(found.cached);
        let ids = functions.iter().map(|function| function.id);
        if found.digests.iter().eq(expected.digests.iter().map(|(_, digest)| digest)) {
            self.tally.matched += 1;
            if !self.options.quiet {
                self.verdict((name, place), ("ok", "OK"), |object| object.found(ids, &found));
            }
        } else {
            self.tally.mismatched += 1;
            self.tally.assumed =
                self.tally.assumed.or(expected.digests.first().map(|(id, _)| *id).filter(|_| expected.assumed));
            self.verdict((name, place), ("failed", "FAILED"), |object| {
                object.found(ids, &found);
                object.digests("expected", expected.digests.iter().copied());
            });
        }
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
            if let Some(id) = tally.assumed {
                let others: Vec<&str> = of_one_length(id).map(Id::name).collect();
                let words = format!(
                    ": nothing but their length says that digests are of {}; they may be of {}: -a NAME settles it",
                    id.name(),
                    others.join(", ")
                );
                self.console.error(&[&quote(list), words.as_bytes()].concat());
            }
            if tally.cached > 0 {
                let files = if tally.cached == 1 { "file was" } else { "files were" };
                let words = format!(": {} {files} not read: their digests are from the cache", tally.cached);
                self.console.error(&[&quote(list), words.as_bytes()].concat());
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
    fn file(&mut self, name: OsString, note: Note, result: io::Result<Found>) {
        if let Note::Expect(expected, functions, place) = note {
            self.judge(name.as_bytes(), (&expected, &functions, &place), result);
        }
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Expect(..) => {}
            Note::Unserved(expected, why, place) => {
                self.tally.proper += 1;
                self.unreadable((&expected.name, &place), &io::Error::other(why));
            }
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

/// What the lines of checksum files are fed with.
pub(super) struct Feed<'f> {
    pub(super) reading: Reading,
    pub(super) opener: &'f mut Opener,
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
            self.reading.begin(operand);
            let complete = self.list(reader, &list, from_stdin, regular, pipeline).is_ok();
            pipeline.note(Note::End { list, complete });
        }
    }

    fn list<S: Sink<Note>>(
        &mut self,
        mut reader: BufReader<File>,
        list: &Rc<[u8]>,
        from_stdin: bool,
        regular: bool,
        pipeline: &mut Pipeline<'_, Note, S>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for line in 1.. {
            if !regular && !reader.buffer().contains(&b'\n') {
                // The next read may wait for a writer who waits for our verdicts.
                pipeline.drain();
            }
            let Some(whole) = read_line(&mut reader, &mut bytes)? else { break };
            let place = Place { list: Rc::clone(list), line };
            match if whole { self.reading.line(&bytes) } else { Listed::Improper } {
                Listed::Blank => {}
                // stdin is this very list.
                Listed::File(expected) if !(from_stdin && expected.name == b"-") => {
                    self.expect(expected, place, pipeline);
                }
                Listed::File(_) | Listed::Improper => {
                    pipeline.note(Note::Improper { kind: self.reading.kind(), place });
                }
            }
        }
        Ok(())
    }

    fn expect<S: Sink<Note>>(&mut self, expected: Expected, place: Place, pipeline: &mut Pipeline<'_, Note, S>) {
        let ids: Vec<Id> = expected.digests.iter().map(|(id, _)| *id).collect();
        match self.opener.functions(&ids) {
            Err(why) => pipeline.note(Note::Unserved(expected, why, place)),
            Ok(functions) => {
                let name = OsString::from_vec(expected.name.clone());
                let note = Note::Expect(expected, Functions::clone(&functions), place);
                cache::feed(self.cache, name, functions, note, pipeline);
            }
        }
    }
}
