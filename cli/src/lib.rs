//! The `gantry` command.
//!
//! [`main`] reads the command line. Each command is a module with a function that takes its arguments and the output.
//!
//! | file | content |
//! |---|---|
//! | `args/` | the command line |
//! | `output.rs`, `table.rs`, `units.rs`, `plot/` | messages and exit statuses, tables, numbers for people, drawings |
//! | `manual.rs` | manual pages and completions |
//! | `speed/` | `load.rs` what runs, `flight.rs` in a queue, `measure.rs` how, `openssl.rs` the peer, `report.rs` results |
//! | `sum/` | `options.rs` the command line of coreutils and ours, `walk.rs` finds files, `engine/` reads and hashes, `printer.rs` prints, `recognise.rs` reads lists, `check.rs` and `audit.rs` verify |
//! | `crypt/`, `compress.rs` | `stream.rs` ciphers in pieces, `message.rs` AEADs as one message; blocks side by side |
//! | `verity/`, `torrent/` | blocks and pieces of one file, hashed on all processors |
//! | `program.rs`, `temporary.rs` | other programs, and folders for their files |
//! | `io/` | inputs, `target.rs` outputs, `scratch.rs` files that get their name when they are complete |
//! | `top/` | `model.rs` rates from two looks, `columns.rs` tables, `state.rs` and `keys.rs` what keys change, `view.rs` and `screen.rs` the terminal |
//! | `stat.rs`, `exporter/` | what programs did, and the same for Prometheus |
//! | `openssl/` | `conf.rs` reads an `openssl.cnf`, `setup.rs` changes one, `ask.rs` asks the module |

#![deny(unsafe_code)]

mod advise;
/// `gantry algorithms`.
mod algorithms;
/// The command line, as data.
mod args;
/// `gantry check`.
mod check;
/// `gantry compress`.
mod compress;
/// `gantry config`.
mod config;
mod crypt;
/// `gantry devcrypto`.
mod devcrypto;
/// `gantry devices`.
mod devices;
/// `gantry esp`.
mod esp;
mod exporter;
/// Why a command did not do what it should.
mod failure;
/// Bytes as hexadecimal digits.
mod hex;
mod interrupt;
mod io;
/// `gantry kernel`.
mod kernel;
/// The CPU, the program, the day.
mod machine;
/// `gantry manual` and `gantry completions`.
mod manual;
/// `gantry openssl`.
mod openssl;
/// What a command writes, and how it fails.
mod output;
/// An SVG drawing.
mod plot;
mod program;
/// `gantry route`.
mod route;
/// `gantry serve`.
mod serve;
/// `gantry speed`.
mod speed;
/// `gantry stat`.
mod stat;
/// Reports of `gantry esp`.
mod status;
mod sum;
/// Columns.
mod table;
mod temporary;
mod terminal;
/// `gantry top`.
mod top;
mod torrent;
/// `gantry tune`.
mod tune;
/// Numbers with units, for people.
mod units;
mod verity;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::process::ExitCode;

use args::{Command, Settings};
use output::Output;

/// Tests ask what a reader takes.
#[cfg(test)]
#[global_allocator]
static MEMORY: gantry_lab::memory::Counting = gantry_lab::memory::Counting;

/// The whole program.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().collect();
    if let Some(argv0) = arguments.first()
        && sum::is_tool(argv0)
    {
        return sum::main(argv0, arguments[1..].to_vec(), &Settings::default());
    }
    if arguments.get(1).is_some_and(|command| command == "sum") {
        return sum::main(OsStr::new("gantry sum"), arguments[2..].to_vec(), &Settings::default());
    }
    io::sys::restore_sigpipe();
    let cli = match args::parse(arguments) {
        Ok(cli) => cli,
        Err(error) => return clap_said(&error),
    };
    let mut output = Output::new();
    let settings = cli.settings;
    if let Err(failure) = settings.must_count_for(&cli.path) {
        return failure.report();
    }
    let result = match cli.command {
        Command::Devices(args) => devices::run(&args, &settings, &mut output),
        Command::Algorithms(args) => algorithms::run(&args, &settings, &mut output),
        Command::Kernel(args) => kernel::run(&args, &mut output),
        Command::Check(args) => check::run(&args, &settings, &mut output),
        Command::Tune(args) => tune::run(&args, &settings, &mut output),
        Command::Route(args) => route::run(&args, &settings, &mut output),
        Command::Speed(args) => speed::run(&args, &settings, &mut output),
        Command::Sum(args) => return sum::main(OsStr::new("gantry sum"), args.arguments, &settings),
        Command::Crypt(args) => crypt::run(&args, &settings),
        Command::Compress(args) => compress::run(&args, &settings),
        Command::Verity(args) => verity::run(&args, &settings, &mut output),
        Command::Torrent(args) => torrent::run(&args, &settings, &mut output),
        Command::Esp(args) => esp::run(&args, &settings, &mut output),
        Command::Devcrypto(args) => devcrypto::run(&args, &settings),
        Command::Serve(args) => serve::run(&args, &settings),
        Command::Advise(args) => advise::run(&args, &mut output),
        Command::Openssl(args) => openssl::run(&args, &mut output),
        Command::Stat(args) => stat::run(&args, &settings, &mut output),
        Command::Exporter(args) => exporter::run(&args),
        Command::Top(args) => top::run(&args, &mut output),
        Command::Config(args) => config::run(&args, &settings, &mut output),
        Command::Completions(args) => manual::completions(args.shell, &mut output),
        Command::Manual(args) => manual::write(&args, &mut output),
    };
    match result.and_then(|()| output.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Help and versions go to stdout and are a success, mistakes to stderr and are not.
fn clap_said(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        // Where stderr cannot be written, the exit code says it.
        let _ = write!(std::io::stderr(), "{text}");
        return ExitCode::from(2);
    }
    let mut output = Output::new();
    match output.write(&text.to_string()).and_then(|()| output.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
