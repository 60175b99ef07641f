//! `gantry advise`: what gantry gains on this machine, or for a program, and what would gain more.

/// What a machine gains.
mod machine;
/// What a program asked for.
mod program;
/// Why a program goes without gantry.
mod reasons;
/// The verdict about a machine, by use.
mod uses;
/// Text and JSON.
mod view;

use std::fs;
use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::Duration;

use gantry_runtime::stats::Report;

use crate::args::Advise;
use crate::output::{Failure, Output, must_be_writable};
use crate::stat;
use crate::temporary::{as_its_own, watch};
use machine::Machine;
use program::{Program, Subject};

pub(crate) fn run(args: &Advise, output: &mut Output) -> Result<(), Failure> {
    if let Some(file) = &args.output {
        must_be_writable(file)?;
    }
    match (&args.command[..], args.pid) {
        ([program, arguments @ ..], _) => {
            let given = reasons::kernel_tls();
            let mut command = crate::program::program(program)?;
            let (status, taken) = watch(command.args(arguments))?;
            let mut pages: Vec<Report> = taken.pages.iter().filter_map(|page| page.read().ok()).collect();
            let names: Vec<String> = taken.pages.iter().map(|page| page.program.clone()).collect();
            let name = program.to_string_lossy().into_owned();
            let mut about = Program::of(Subject::Command { name, status: status.to_string() }, names, &mut pages);
            about.kernel_tls = reasons::kernel_tls().saturating_sub(given);
            about.reasons.extend(taken.sentences());
            about.explain(program);
            let machine = about.measure();
            say(args, machine.as_ref(), Some(&about), |text| {
                // What the program printed on stdout stays what it is.
                io::stderr().write_all(text.as_bytes()).map_err(|error| Failure::at("standard error", &error))
            })?;
            as_its_own(status)
        }
        ([], Some(pid)) => {
            let before = stat::of_page(pid)?;
            sleep(Duration::from_secs_f64(args.seconds));
            let after = stat::of_page(pid)?;
            let names = after.processes.iter().map(|process| process.program.clone()).collect();
            let mut since = program::since(after, &before);
            let subject = Subject::Process { pid, seconds: args.seconds };
            let mut about = Program::of(subject, names, std::slice::from_mut(&mut since));
            let machine = about.measure();
            say(args, machine.as_ref(), Some(&about), |text| output.write(text))
        }
        ([], None) => {
            let machine = Machine::measure(None)?;
            say(args, Some(&machine), None, |text| output.write(text))
        }
    }
}

/// Into the file that was named, or else where it goes by itself.
fn say(
    args: &Advise,
    machine: Option<&Machine>,
    program: Option<&Program>,
    to: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let text = if args.json { view::json(machine, program)? } else { view::text(args, machine, program) };
    match &args.output {
        Some(path) => fs::write(path, text).map_err(|error| Failure::at(path.display(), &error)),
        None => to(&text),
    }
}
