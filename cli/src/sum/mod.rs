//! `gantry sum`, and the tools of GNU coreutils 9.1 whose place it takes: digests of files, and their verification.
//!
//! Options, output, messages and exit statuses under the names of coreutils are those of coreutils, byte for byte; only
//! `--help` and `--version` speak of Gantry.
//!
//! Files: [`options`] reads the command line, [`engine`] reads and hashes files in order, [`console`] writes,
//! [`check`] judges what [`checkfile`] parsed.

mod check;
mod checkfile;
mod console;
mod digest;
mod engine;
mod help;
pub(crate) mod options;
mod progress;
mod quote;
pub(crate) mod sys;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use gantry::{Algorithm, Kind, Session, SessionParams};
use gantry_runtime::Config;
use indicatif::ProgressBar;

use crate::args::Settings;

use check::Verdicts;
use checkfile::Format;
use console::Console;
use digest::Digest;
pub(crate) use engine::read_full;
use engine::{Engine, Sink};
use options::{Action, Front, Options};
use quote::quote;

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

/// Runs as the tool that `argv0` names, or as `gantry sum` under any other name. `args` are what comes after it, and
/// `settings` what came before.
pub(crate) fn main(argv0: &OsStr, args: Vec<OsString>, settings: &Settings) -> ExitCode {
    sys::restore_sigpipe();
    let (front, algorithm) = match tool(argv0) {
        Some(algorithm) => (Front::Coreutils, algorithm),
        None => (Front::Gantry, Algorithm::Sha256),
    };
    let mut console = Console::new(argv0);
    let good = match options::parse(front, args, env::var_os("POSIXLY_CORRECT").is_some()) {
        Ok(Action::Run(options)) => match session(front, &options, algorithm, settings, &mut console) {
            Ok((session, threads)) => run(&options, session, threads, &mut console),
            Err(message) => {
                console.error(message.as_bytes());
                false
            }
        },
        Ok(Action::Help) => {
            console.text(&help::help(front, argv0, algorithm));
            true
        }
        Ok(Action::Version) => {
            console.text(&help::version(argv0));
            true
        }
        Err(message) => {
            console.usage_error(&message);
            false
        }
    };
    if console.finish() && good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(options: &Options, session: Session, threads: Option<usize>, console: &mut Console) -> bool {
    let tag = tag(session.params().algorithm());
    let digits = 2 * session.params().tag_length();
    let format = Format::new(&tag, digits);
    let bar = if options.progress { progress::bar(options, &format) } else { ProgressBar::hidden() };
    console.write_above(bar.clone());
    // A checksum file may name many.
    let files = if options.check { usize::MAX } else { options.operands.len() };
    let engine = Engine::new(session, files, threads, bar.clone());
    let mut good = if options.check {
        let mut verdicts = Verdicts::new(options, &tag, console);
        engine.run(&mut verdicts, |pipeline| check::feed(&options.operands, format, pipeline));
        verdicts.good()
    } else {
        if options.zero {
            console.end_lines_with_nul();
        }
        let mut printer = Printer { options, tag: &tag, console, good: true };
        engine.run(&mut printer, |pipeline| {
            for operand in &options.operands {
                pipeline.file(operand.clone(), ());
            }
        });
        printer.good
    };
    bar.finish_and_clear();
    if sys::closed_stdin_was_read() {
        console.io_error(b"standard input", &io::Error::from_raw_os_error(libc::EBADF));
        good = false;
    }
    good
}

/// The session, and how many threads may use it, if somebody said so.
///
/// Scripts that run a tool of coreutils know nothing of Gantry: under these names a configuration that is wrong is a warning, and
/// the defaults hold.
fn session(
    front: Front,
    options: &Options,
    default: Algorithm,
    settings: &Settings,
    console: &mut Console,
) -> Result<(Session, Option<usize>), String> {
    let algorithm = match &options.algorithm {
        None => default,
        Some(name) => name.to_string_lossy().parse::<Algorithm>().map_err(|error| error.to_string())?,
    };
    if algorithm.kind() != Kind::Digest {
        return Err(format!("{algorithm} is a {}, not a digest", algorithm.kind()));
    }
    let configured = settings.config().map_err(|failure| failure.to_string());
    match (configured.and_then(|config| open(config, algorithm)), front) {
        (Err(wrong), Front::Coreutils) => {
            if !options.status {
                console.error(format!("warning: {wrong}; gantry uses its defaults").as_bytes());
            }
            open(Config::default(), algorithm)
        }
        (opened, _) => opened,
    }
}

fn open(config: Config, algorithm: Algorithm) -> Result<(Session, Option<usize>), String> {
    let threads = config.threads();
    let gantry = gantry_runtime::open(config).map_err(|error| error.to_string())?;
    let session = gantry.session(SessionParams::new(algorithm, &[])).map_err(|error| error.to_string())?;
    Ok((session, threads))
}

/// The algorithm's name in BSD-style lines.
fn tag(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Blake2b256 => "BLAKE2b-256".to_owned(),
        other => other.name().to_uppercase(),
    }
}

/// Prints a line for each file.
struct Printer<'c> {
    options: &'c Options,
    tag: &'c str,
    console: &'c mut Console,
    good: bool,
}

impl Sink<()> for Printer<'_> {
    fn file(&mut self, name: OsString, (): (), result: io::Result<Digest>) {
        let name = name.as_bytes();
        let digest = match result {
            Ok(digest) => digest,
            Err(error) => {
                self.good = false;
                return self.console.io_error(&quote(name), &error);
            }
        };
        let line = self.console.line();
        let escape = !self.options.zero && needs_escape(name);
        if escape {
            line.push(b'\\');
        }
        if self.options.tag {
            line.extend(self.tag.as_bytes());
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

    fn note(&mut self, (): ()) {}

    fn waiting(&mut self) {
        self.console.flush();
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
