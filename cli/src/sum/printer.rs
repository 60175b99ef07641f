//! Prints a line for each digest, or an object for each file.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::cache::Cache;
use super::console::Console;
use super::engine::{HashedFile, Sink};
use super::function::Functions;
use super::object::Special;
use super::quote::quote;
use super::record::ObjectWriter;
use super::{needs_escape, write_name};
use crate::args::sum::Options;

/// The note that accompanies an entry of the walk to the printer.
pub(super) enum EntryNote {
    /// A file that is hashed. Its name comes with its result.
    File,
    /// A symbolic link or a folder.
    Special(OsString, Special),
    /// Not a regular file, with its kind.
    Skipped(OsString, &'static str),
    Failed(OsString, io::Error),
}

pub(super) struct Printer<'c> {
    pub(super) options: &'c Options,
    pub(super) functions: Functions,
    pub(super) cache: Option<&'c RefCell<Cache>>,
    pub(super) console: &'c mut Console,
    /// True if every file could be read.
    pub(super) all_read: bool,
}

impl Sink<EntryNote> for Printer<'_> {
    fn on_file(&mut self, name: OsString, _: EntryNote, result: io::Result<HashedFile>) {
        match result {
            Ok(found) => {
                if let Some(cache) = self.cache {
                    cache.borrow_mut().insert(name.as_bytes(), &self.functions, &found);
                }
                if self.options.json {
                    self.object(name.as_bytes(), &found);
                } else {
                    self.lines(name.as_bytes(), &found);
                }
            }
            Err(error) => self.failed(name.as_bytes(), &error),
        }
    }

    fn on_note(&mut self, note: EntryNote) {
        match note {
            EntryNote::File => {}
            EntryNote::Special(name, special) => {
                let mut object = ObjectWriter::begin(self.console.line());
                object.name("path", name.as_bytes());
                object.special(&special);
                object.end();
                self.console.end_line();
            }
            EntryNote::Skipped(name, what) => {
                self.console.error(&[&quote(name.as_bytes()), format!(": {what}, skipped").as_bytes()].concat());
            }
            EntryNote::Failed(name, error) => self.failed(name.as_bytes(), &error),
        }
    }

    fn on_wait(&mut self) {
        self.console.flush();
    }
}

impl Printer<'_> {
    fn failed(&mut self, name: &[u8], error: &io::Error) {
        self.all_read = false;
        self.console.io_error(&quote(name), error);
        if self.options.json {
            let mut object = ObjectWriter::begin(self.console.line());
            object.name("path", name);
            object.error(error);
            object.end();
            self.console.end_line();
        }
    }

    fn object(&mut self, name: &[u8], found: &HashedFile) {
        let mut object = ObjectWriter::begin(self.console.line());
        object.name("path", name);
        object.found(self.functions.iter().map(|function| function.id), found);
        object.end();
        self.console.end_line();
    }

    fn lines(&mut self, name: &[u8], found: &HashedFile) {
        let escape = !self.options.zero && needs_escape(name);
        for (function, digest) in self.functions.iter().zip(&found.digests) {
            let line = self.console.line();
            if escape {
                line.push(b'\\');
            }
            // Several digests need tags to tell them apart.
            if self.options.tag || self.functions.len() > 1 {
                line.extend(function.id.tag().as_bytes());
                line.extend(b" (");
                write_name(line, name, escape);
                line.extend(b") = ");
                digest.write_hex(line);
            } else {
                digest.write_hex(line);
                line.extend([b' ', if self.options.binary == Some(true) { b'*' } else { b' ' }]);
                write_name(line, name, escape);
            }
            self.console.end_line();
        }
    }
}
