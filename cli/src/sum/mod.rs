//! `gantry sum`, and the tools of GNU coreutils 9.1 that it replaces: digests of files, and their verification.
//!
//! Under the names of coreutils' tools, options, output, messages and exit statuses are the same as in coreutils, byte for byte, except
//! `--help` and `--version`.
//!
//! | file | content |
//! |---|---|
//! | `names.rs`, `open.rs`, `function.rs` | hash functions: names, sessions, messages |
//! | `walk.rs`, `engine/` | finds files, and reads and hashes many side by side, in order |
//! | `printer.rs`, `record.rs`, `console.rs`, `quote.rs`, `progress.rs` | lines, JSON, messages, progress bar |
//! | `checkfile.rs`, `bsd.rs`, `object.rs`, `bag_names.rs`, `recognise.rs` | formats of lines: coreutils, BSD, JSON, bags, any tool |
//! | `lists.rs`, `check.rs` | lines of a file, and verdicts about them |
//! | `audit/` | compares a folder with a manifest |
//! | `bag.rs`, `make_bag.rs` | the tags of BagIt bags; makes a bag |
//! | `read_mode.rs` | files that are not read as whole files of bytes |
//! | `cache.rs` | digests of earlier runs |
//! | `parts/` | the checksums of S3 |
//! | `listed.rs` | the files that a list names |

mod audit;
mod bag;
mod bag_names;
mod bsd;
mod cache;
mod check;
mod checkfile;
mod console;
mod digest;
mod engine;
mod function;
mod lines;
mod listed;
mod lists;
mod make_bag;
mod names;
mod object;
mod open;
mod parts;
mod printer;
mod progress;
mod quote;
mod read_mode;
mod recognise;
mod record;
mod walk;

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;

use gantry_core::Algorithm;
use gantry_runtime::rights;
use indicatif::ProgressBar;

use crate::args::Settings;
use crate::args::sum::{Action, FrontEnd, Options, help, parse};
use crate::hashing;
use crate::io::sys;

use cache::Cache;
use check::{ListFeeder, Verdicts};
use console::Console;
use engine::{Engine, Pipeline, Sink};
use function::Functions;
use listed::Listed;
use lists::ListParser;
use names::HashId;
use open::Opener;
use printer::{EntryNote, Printer};
use walk::{WalkEntry, walk};

/// The tools of coreutils and their algorithms.
pub(crate) const TOOLS: [(&str, Algorithm); 6] = [
    ("md5sum", Algorithm::Md5),
    ("sha1sum", Algorithm::Sha1),
    ("sha224sum", Algorithm::Sha224),
    ("sha256sum", Algorithm::Sha256),
    ("sha384sum", Algorithm::Sha384),
    ("sha512sum", Algorithm::Sha512),
];

/// True if `argv0` names one of the tools of coreutils.
pub(crate) fn is_tool(argv0: &OsStr) -> bool {
    tool_algorithm(argv0).is_some()
}

fn tool_algorithm(argv0: &OsStr) -> Option<Algorithm> {
    let name = std::path::Path::new(argv0).file_name()?;
    TOOLS.iter().find(|(tool, _)| name == *tool).map(|(_, algorithm)| *algorithm)
}

/// Runs as the tool that `argv0` names, or as `gantry sum` under any other name. `args` follow the name of the tool or command; `settings`
/// precede it.
pub(crate) fn main(argv0: &OsStr, mut args: Vec<OsString>, settings: &Settings) -> ExitCode {
    sys::restore_sigpipe();
    let (front_end, algorithm) = match tool_algorithm(argv0) {
        Some(algorithm) => (FrontEnd::Coreutils, algorithm),
        None => match args.first().and_then(|word| word.to_str()) {
            Some("audit") => (FrontEnd::Audit, Algorithm::Sha256),
            // RFC 8493, section 2.4.
            Some("bag") => (FrontEnd::Bag, Algorithm::Sha512),
            _ => (FrontEnd::Gantry, Algorithm::Sha256),
        },
    };
    let mut name = argv0.to_owned();
    if matches!(front_end, FrontEnd::Audit | FrontEnd::Bag) {
        name.push(" ");
        name.push(args.remove(0));
    }
    let mut console = Console::new(&name);
    let status = match parse(front_end, args, rights::variable("POSIXLY_CORRECT").is_some()) {
        Ok(Action::Run(options)) => match run(front_end, &options, algorithm, settings, &mut console) {
            Ok(status) => status,
            Err(message) => {
                console.error(message.as_bytes());
                front_end.failure_status()
            }
        },
        Ok(Action::Help) => {
            console.text(&help::help(front_end, &name, algorithm));
            0
        }
        Ok(Action::Version) => {
            console.text(&help::version(argv0));
            0
        }
        Err(message) => {
            console.usage_error(&message);
            front_end.failure_status()
        }
    };
    if console.finish() { ExitCode::from(status) } else { ExitCode::from(status.max(front_end.failure_status())) }
}

/// Runs the options, and returns the exit status.
fn run(
    front_end: FrontEnd,
    options: &Options,
    algorithm: Algorithm,
    settings: &Settings,
    console: &mut Console,
) -> Result<u8, String> {
    if options.parts.is_some() || options.etag.is_some() {
        let threads = hashing::threads(settings).map_err(|failure| failure.to_string())?;
        return Ok(u8::from(!parts::run(options, threads, console)?));
    }
    let named = open::named_functions(options)?;
    let cache = match &options.cache {
        None => None,
        Some(path) => {
            let (cache, damaged) = Cache::open(path)?;
            if let Some(words) = damaged {
                console.error(format!("warning: {words}").as_bytes());
            }
            Some(RefCell::new(cache))
        }
    };
    // Under the names of coreutils the function is known; otherwise functions are opened when a checksum file needs them.
    let accepts_any_format = front_end != FrontEnd::Coreutils && options.check;
    let default =
        if accepts_any_format { Vec::new() } else { vec![HashId::from_name(algorithm.name()).ok_or("no digest")?] };
    let ids = if named.is_empty() { default } else { named };
    let mut opener = Opener::new(front_end, options, &ids, settings, console)?;
    let parser = if accepts_any_format { ListParser::any(ids.clone(), options.zero) } else { ListParser::one(ids[0]) };
    let listed = options.unlisted.as_ref().map(|list| Listed::read(list)).transpose()?;
    let run = Run { options, cache: cache.as_ref(), listed };
    let status = match front_end {
        FrontEnd::Audit => audit::run(&run, parser, &mut opener, console)?,
        FrontEnd::Bag => make_bag::run(&run, &ids, &mut opener, console)?,
        _ if options.check => u8::from(!run.check(parser, &mut opener, console)),
        _ => u8::from(!run.print(&opener.functions(&ids)?, opener.threads, console)),
    };
    if sys::closed_stdin_was_read() {
        console.io_error(b"standard input", &io::Error::from_raw_os_error(libc::EBADF));
        return Ok(status.max(front_end.failure_status()));
    }
    if let Some((mut cache, path)) = cache.map(RefCell::into_inner).zip(options.cache.as_ref())
        && let Err(error) = cache.save()
    {
        // Only warn, because the results do not depend on the cache.
        let words = format!("warning: {}: {}; the cache was not changed", path.display(), console::reason(&error));
        console.error(words.as_bytes());
    }
    Ok(status)
}

/// State that all ways to hash files share.
struct Run<'r> {
    options: &'r Options,
    cache: Option<&'r RefCell<Cache>>,
    /// The names to leave out, from the list of `--unlisted`.
    listed: Option<Listed>,
}

impl Run<'_> {
    /// Prints the digests of files. Returns true if all could be read.
    fn print(&self, functions: &Functions, threads: Option<usize>, console: &mut Console) -> bool {
        let options = self.options;
        let bar = self.bar(|| progress::total_bytes(options));
        if options.zero {
            console.end_lines_with_nul();
        }
        console.write_above(bar.clone());
        let files = if options.recursive { usize::MAX } else { options.operands.len() };
        let engine = Engine::new(Some(functions), files, threads, bar.clone());
        let functions = functions.clone();
        let mut printer = Printer { options, functions, cache: self.cache, console, all_read: true };
        let functions = printer.functions.clone();
        engine.run(&mut printer, |pipeline| self.walk(&functions, pipeline));
        bar.finish_and_clear();
        printer.all_read
    }

    fn walk<S: Sink<EntryNote>>(&self, functions: &Functions, pipeline: &mut Pipeline<'_, EntryNote, S>) {
        let is_listed = |name: &OsStr| self.listed.as_ref().is_some_and(|listed| listed.contains(name));
        walk(&self.options.operands, self.options, |step| match step {
            WalkEntry::File(name) if is_listed(&name) => {}
            WalkEntry::File(name) => cache::feed(self.cache, name, functions.clone(), EntryNote::File, pipeline),
            WalkEntry::Special(name, special) if self.options.json && !is_listed(&name) => {
                pipeline.feed_note(EntryNote::Special(name, special));
            }
            WalkEntry::Special(..) => {}
            WalkEntry::Skipped(name, what) => pipeline.feed_note(EntryNote::Skipped(name, what)),
            WalkEntry::Failed(name, error) => pipeline.feed_note(EntryNote::Failed(name, error)),
        });
    }

    /// Verifies checksum files. Returns true if every file matches.
    fn check(&self, parser: ListParser, opener: &mut Opener, console: &mut Console) -> bool {
        let options = self.options;
        let bar = self.bar(|| progress::listed(&options.operands, &parser));
        if options.zero {
            console.end_lines_with_nul();
        }
        console.write_above(bar.clone());
        let functions = match &parser {
            ListParser::One(_, id) => opener.functions(&[*id]).ok(),
            ListParser::Any { .. } => None,
        };
        // A checksum file may list many files.
        let engine = Engine::new(functions.as_ref(), usize::MAX, opener.threads, bar.clone());
        let strict = match parser {
            ListParser::One(..) => options.strict,
            ListParser::Any { .. } => !options.ignore_improper,
        };
        let opener = RefCell::new(opener);
        let mut verdicts = Verdicts::new(options, strict, &opener, self.cache, console);
        let mut feeder = ListFeeder { parser, opener: &opener, cache: self.cache };
        engine.run(&mut verdicts, |pipeline| feeder.feed_all(&options.operands, pipeline));
        bar.finish_and_clear();
        verdicts.all_verified()
    }

    /// Returns the progress bar; calls `total` only if the bar is shown.
    fn bar(&self, total: impl FnOnce() -> Option<u64>) -> ProgressBar {
        if self.options.progress { progress::bar(total()) } else { ProgressBar::hidden() }
    }
}

/// True if a name would break the line that contains it.
fn needs_escape(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'))
}

/// Appends a name, with escapes if `escape` is set.
fn write_name(line: &mut Vec<u8>, name: &[u8], escape: bool) {
    if !escape {
        line.extend(name);
        return;
    }
    for &byte in name {
        match byte {
            b'\\' => line.extend(b"\\\\"),
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            plain => line.push(plain),
        }
    }
}
