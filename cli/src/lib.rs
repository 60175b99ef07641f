//! The `gantry` command.
//!
//! [`main`] parses the command line. Each command is a module with a function that takes its arguments and the output.
//!
//! | file | content |
//! |---|---|
//! | `args/` | the command line; `sum/` the command line of `gantry sum`, in the style of getopt |
//! | `output.rs`, `table.rs`, `units.rs`, `plot/` | messages and exit statuses, tables, formatted numbers, drawings |
//! | `manual.rs` | manual pages and completions |
//! | `speed/` | `load.rs` requests and buffers, `queue_load.rs` queues, `measure.rs` timing, `openssl.rs` comparison, `report.rs` results |
//! | `sum/` | `walk.rs` finds files, `engine/` hashes, `printer.rs` prints, `recognise.rs` parses lists, `check.rs` and `audit/` verify |
//! | `crypt/` | `stream.rs` ciphers in pieces, `message.rs` AEADs as one message |
//! | `verity/`, `torrent/` | hash trees, and pieces of torrents |
//! | `hashing/` | blocks and pieces of one file, hashed on all processors |
//! | `program.rs`, `temporary.rs` | other programs, and folders for their files |
//! | `io/` | inputs, `target.rs` outputs, `scratch.rs` files that get their name once they are complete |
//! | `top/` | `model.rs` rates, `columns.rs` tables, `state.rs` and `keys.rs` interaction, `view.rs` and `screen.rs` the terminal |
//! | `stat.rs`, `exporter/` | statistics of programs, for users and for Prometheus |
//! | `openssl/` | `conf.rs` parses an `openssl.cnf`, `setup.rs` changes one, `measured.rs` queries the module |

#![deny(unsafe_code)]
#![cfg_attr(not(feature = "programs"), allow(dead_code, reason = "commands that are left out use them"))]

#[cfg(feature = "programs")]
mod advise;
mod algorithms;
mod args;
mod check;
mod config;
mod crypt;
#[cfg(feature = "programs")]
mod devcrypto;
mod devices;
mod dm_verity;
#[cfg(feature = "programs")]
mod esp;
#[cfg(feature = "programs")]
mod exporter;
mod failure;
mod hashing;
mod hex;
mod interrupt;
mod io;
mod kernel;
mod machine;
mod manual;
#[cfg(feature = "programs")]
mod openssl;
mod output;
mod plot;
mod program;
mod route;
#[cfg(feature = "programs")]
mod serve;
mod speed;
#[cfg(feature = "programs")]
mod stat;
#[cfg(feature = "programs")]
mod status;
mod sum;
mod table;
#[cfg(feature = "programs")]
mod temporary;
mod terminal;
#[cfg(feature = "programs")]
mod top;
mod torrent;
mod tune;
mod units;
mod verity;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::process::ExitCode;

#[cfg(feature = "programs")]
use args::Programs;
use args::{Command, Settings};
#[cfg(feature = "programs")]
use output::Failure;
use output::Output;

/// Counts the memory that parsers take, for tests.
#[cfg(test)]
#[global_allocator]
static MEMORY: gantry_lab::memory::CountingAllocator = gantry_lab::memory::CountingAllocator;

/// Runs the command.
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
        Err(error) => return print_clap_message(&error),
    };
    let mut output = Output::new();
    let settings = cli.settings;
    if let Err(failure) = settings.refuse_without_effect(&cli.path) {
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
        Command::Verity(args) => verity::run(&args, &settings, &mut output),
        Command::Torrent(args) => torrent::run(&args, &settings, &mut output),
        #[cfg(feature = "programs")]
        Command::Programs(command) => run_program_command(&command, &settings, &mut output),
        Command::Config(args) => config::run(&args, &settings, &mut output),
        Command::Completions(args) => manual::completions(args.shell, &mut output),
        Command::Manual(args) => manual::write(&args, &mut output),
    };
    match result.and_then(|()| output.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(feature = "programs")]
fn run_program_command(command: &Programs, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    match command {
        Programs::Esp(args) => esp::run(args, settings, output),
        Programs::Devcrypto(args) => devcrypto::run(args, settings),
        Programs::Serve(args) => serve::run(args, settings),
        Programs::Advise(args) => advise::run(args, output),
        Programs::Openssl(args) => openssl::run(args, output),
        Programs::Stat(args) => stat::run(args, settings, output),
        Programs::Exporter(args) => exporter::run(args),
        Programs::Top(args) => top::run(args, output),
    }
}

/// Prints a message of clap. Help and versions go to stdout and are a success; mistakes go to stderr and are a failure.
fn print_clap_message(error: &clap::Error) -> ExitCode {
    let text = error.render();
    if error.use_stderr() {
        // If stderr cannot be written, the exit code still shows the mistake.
        let _ = write!(std::io::stderr(), "{text}");
        return ExitCode::from(2);
    }
    let mut output = Output::new();
    match output.write(&text.to_string()).and_then(|()| output.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
