//! `gantry sum`, and the tools of GNU coreutils 9.1 whose place it takes: digests of files, and their verification.
//!
//! Options, output, messages and exit statuses under the names of coreutils are those of coreutils, byte for byte; only
//! `--help` and `--version` speak of Gantry.
//!
//! | file | content |
//! |---|---|
//! | `options.rs`, `help.rs` | the command line |
//! | `names.rs`, `open.rs`, `function.rs` | hash functions by name, opened, at work |
//! | `walk.rs`, `engine/` | finds files, and reads and hashes many side by side, in order |
//! | `printer.rs`, `record.rs`, `console.rs`, `quote.rs`, `progress.rs` | lines, JSON, messages, the bar |
//! | `checkfile.rs`, `recognise.rs`, `object.rs`, `lists.rs`, `check.rs` | lines of coreutils, of anybody, of ours, of a file, and verdicts about them |
//! | `audit.rs` | a folder beside what a manifest says of it |
//! | `cache.rs` | digests of earlier runs |
//! | `parts.rs` | the values of S3 |

mod audit;
mod cache;
mod check;
mod checkfile;
mod console;
mod digest;
mod engine;
mod function;
pub(crate) mod help;
mod lists;
mod names;
mod object;
mod open;
pub(crate) mod options;
mod parts;
mod printer;
mod progress;
mod quote;
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
use crate::io::sys;

use cache::Cache;
use check::{Feed, Verdicts};
use console::Console;
use engine::{Engine, Pipeline, Sink};
use function::Functions;
use lists::Reading;
use names::Id;
use open::Opener;
use options::{Action, Front, Options};
use printer::{Printer, Remark};
use walk::{Step, walk};

/// The tools of coreutils, and what they compute.
pub(crate) const TOOLS: [(&str, Algorithm); 6] = [
    ("md5sum", Algorithm::Md5),
    ("sha1sum", Algorithm::Sha1),
    ("sha224sum", Algorithm::Sha224),
    ("sha256sum", Algorithm::Sha256),
    ("sha384sum", Algorithm::Sha384),
    ("sha512sum", Algorithm::Sha512),
];

/// Whether a program that was called as `argv0` is one of the tools of coreutils.
pub(crate) fn is_tool(argv0: &OsStr) -> bool {
    tool(argv0).is_some()
}

fn tool(argv0: &OsStr) -> Option<Algorithm> {
    let name = std::path::Path::new(argv0).file_name()?;
    TOOLS.iter().find(|(tool, _)| name == *tool).map(|(_, algorithm)| *algorithm)
}

/// The names of hash functions that `-a` takes beside those of the algorithms of the framework.
pub(crate) const MORE_NAMES: &[&str] = &["blake2b-512", "blake3"];

/// Runs as the tool that `argv0` names, or as `gantry sum` under any other name. `args` are what comes after it, and
/// `settings` what came before.
pub(crate) fn main(argv0: &OsStr, mut args: Vec<OsString>, settings: &Settings) -> ExitCode {
    sys::restore_sigpipe();
    let (front, algorithm) = match tool(argv0) {
        Some(algorithm) => (Front::Coreutils, algorithm),
        None if args.first().is_some_and(|word| word == "audit") => (Front::Audit, Algorithm::Sha256),
        None => (Front::Gantry, Algorithm::Sha256),
    };
    let mut name = argv0.to_owned();
    if front == Front::Audit {
        args.remove(0);
        name.push(" audit");
    }
    let mut console = Console::new(&name);
    let status = match options::parse(front, args, rights::variable("POSIXLY_CORRECT").is_some()) {
        Ok(Action::Run(options)) => match begin(front, &options, algorithm, settings, &mut console) {
            Ok(status) => status,
            Err(message) => {
                console.error(message.as_bytes());
                front.trouble()
            }
        },
        Ok(Action::Help) => {
            console.text(&help::help(front, &name, algorithm));
            0
        }
        Ok(Action::Version) => {
            console.text(&help::version(argv0));
            0
        }
        Err(message) => {
            console.usage_error(&message);
            front.trouble()
        }
    };
    if console.finish() { ExitCode::from(status) } else { ExitCode::from(status.max(front.trouble())) }
}

/// Does what the options ask for, and answers the exit status.
fn begin(
    front: Front,
    options: &Options,
    algorithm: Algorithm,
    settings: &Settings,
    console: &mut Console,
) -> Result<u8, String> {
    let named = open::named(options)?;
    if options.parts.is_some() || options.etag.is_some() {
        // That of ETags is MD5.
        let algorithm = named.first().map_or("md5", |id| id.name());
        let threads = crate::verity::threads(settings).map_err(|failure| failure.to_string())?;
        return Ok(u8::from(!parts::run(options, algorithm, threads, console)));
    }
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
    // What a checksum file asks for is opened when it is known, but under the names of coreutils.
    let any = front != Front::Coreutils && options.check;
    let default = if any { Vec::new() } else { vec![Id::of_name(algorithm.name()).ok_or("no digest")?] };
    let ids = if named.is_empty() { default } else { named };
    let mut opener = Opener::new(front, options, &ids, settings, console)?;
    let reading = if any { Reading::any(ids.clone()) } else { Reading::one(ids[0]) };
    let run = Run { options, cache: cache.as_ref() };
    let status = match front {
        Front::Audit => audit::run(&run, reading, &mut opener, console)?,
        _ if options.check => u8::from(!run.check(reading, &mut opener, console)),
        _ => u8::from(!run.print(&opener.functions(&ids)?, opener.threads, console)),
    };
    if sys::closed_stdin_was_read() {
        console.io_error(b"standard input", &io::Error::from_raw_os_error(libc::EBADF));
        return Ok(status.max(front.trouble()));
    }
    if let Some((cache, path)) = cache.map(RefCell::into_inner).zip(options.cache.as_ref())
        && let Err(error) = cache.save()
    {
        // The results are right without it.
        let words = format!("warning: {}: {}; it is as it was", path.display(), console::reason(&error));
        console.error(words.as_bytes());
    }
    Ok(status)
}

/// What every way of hashing files has in common.
struct Run<'r> {
    options: &'r Options,
    cache: Option<&'r RefCell<Cache>>,
}

impl Run<'_> {
    /// Prints the digests of files. Answers whether all could be read.
    fn print(&self, functions: &Functions, threads: Option<usize>, console: &mut Console) -> bool {
        let options = self.options;
        let bar = self.bar(|| progress::below(options));
        if options.zero {
            console.end_lines_with_nul();
        }
        console.write_above(bar.clone());
        let files = if options.recursive { usize::MAX } else { options.operands.len() };
        let engine = Engine::new(Some(functions), files, threads, bar.clone());
        let functions = functions.clone();
        let mut printer = Printer { options, functions, cache: self.cache, console, good: true };
        let functions = printer.functions.clone();
        engine.run(&mut printer, |pipeline| self.walk(&functions, pipeline));
        bar.finish_and_clear();
        printer.good
    }

    fn walk<S: Sink<Remark>>(&self, functions: &Functions, pipeline: &mut Pipeline<'_, Remark, S>) {
        walk(&self.options.operands, self.options, |step| match step {
            Step::File(name) => cache::feed(self.cache, name, functions.clone(), Remark::None, pipeline),
            Step::Skipped(name, what) => pipeline.note(Remark::Skipped(name, what)),
            Step::Failed(name, error) => pipeline.note(Remark::Failed(name, error)),
        });
    }

    /// Verifies checksum files. Answers whether everything is as they say.
    fn check(&self, reading: Reading, opener: &mut Opener, console: &mut Console) -> bool {
        let options = self.options;
        let bar = self.bar(|| progress::listed(&options.operands, &reading));
        console.write_above(bar.clone());
        let functions = match &reading {
            Reading::One(_, id) => opener.functions(&[*id]).ok(),
            Reading::Any { .. } => None,
        };
        // A checksum file may name many.
        let engine = Engine::new(functions.as_ref(), usize::MAX, opener.threads, bar.clone());
        let mut verdicts = Verdicts::new(options, self.cache, console);
        let mut feed = Feed { reading, opener, cache: self.cache };
        engine.run(&mut verdicts, |pipeline| feed.all(&options.operands, pipeline));
        bar.finish_and_clear();
        verdicts.good()
    }

    /// The bar, if one is wanted; `total` is asked only then.
    fn bar(&self, total: impl FnOnce() -> Option<u64>) -> ProgressBar {
        if self.options.progress { progress::bar(total()) } else { ProgressBar::hidden() }
    }
}

/// Whether a name would break the line that it stands in.
fn needs_escape(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'))
}

/// Appends a name, with escapes where asked for.
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
