//! `gantry advise`: how much gantry gains on this machine or for a program, and how to gain more.

mod machine;
mod program;
mod reasons;
mod summary;
mod view;

use std::fs;
use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::Duration;

use gantry_runtime::stats::Report;

use crate::args::Advise;
use crate::output::{Failure, Output, check_writable};
use crate::stat;
use crate::temporary::{exit_like, run_with_statistics};
use machine::MachineReport;
use program::{ProgramReport, Subject};

pub(crate) fn run(args: &Advise, output: &mut Output) -> Result<(), Failure> {
    if let Some(file) = &args.output {
        check_writable(file)?;
    }
    match (&args.command[..], args.pid) {
        ([program, arguments @ ..], _) => {
            let kernel_tls_before = reasons::kernel_tls_count();
            let mut command = crate::program::program(program)?;
            let (status, received) = run_with_statistics(command.args(arguments))?;
            let mut pages: Vec<Report> = received.pages.iter().filter_map(|page| page.read().ok()).collect();
            let names: Vec<String> = received.pages.iter().map(|page| page.program.clone()).collect();
            let name = program.to_string_lossy().into_owned();
            let mut report =
                ProgramReport::of(Subject::Command { name, status: status.to_string() }, names, &mut pages);
            report.kernel_tls = reasons::kernel_tls_count().saturating_sub(kernel_tls_before);
            report.reasons.extend(received.problem_lines());
            report.add_reasons(program);
            let machine = report.measure();
            write_report(args, machine.as_ref(), Some(&report), |text| {
                // stdout belongs to the program.
                io::stderr().write_all(text.as_bytes()).map_err(|error| Failure::at("standard error", &error))
            })?;
            exit_like(status)
        }
        ([], Some(pid)) => {
            let before = stat::read_page(pid)?;
            sleep(Duration::from_secs_f64(args.seconds));
            let after = stat::read_page(pid)?;
            let names = after.processes.iter().map(|process| process.program.clone()).collect();
            let mut difference = program::difference(after, &before);
            let subject = Subject::Process { pid, seconds: args.seconds };
            let mut report = ProgramReport::of(subject, names, std::slice::from_mut(&mut difference));
            let machine = report.measure();
            write_report(args, machine.as_ref(), Some(&report), |text| output.write(text))
        }
        ([], None) => {
            let machine = MachineReport::measure(None)?;
            write_report(args, Some(&machine), None, |text| output.write(text))
        }
    }
}

/// Writes the report to the file of `--output`, or else passes it to `to`.
fn write_report(
    args: &Advise,
    machine: Option<&MachineReport>,
    program: Option<&ProgramReport>,
    to: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let text = if args.json { view::json(machine, program)? } else { view::text(args, machine, program) };
    match &args.output {
        Some(path) => fs::write(path, text).map_err(|error| Failure::at(path.display(), &error)),
        None => to(&text),
    }
}
