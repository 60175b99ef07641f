//! `gantry top`: activity of processes, live.

mod columns;
mod guests;
mod keys;
mod model;
mod screen;
mod state;
mod view;

use std::thread::sleep;
use std::time::Duration;

use gantry_runtime::stats::can_see_all_pages;

use crate::args::Top;
use crate::output::{Failure, Output, print_message};
use crate::terminal;
use columns::{GUESTS, PROCESSES, WORK, render_table};
use model::{Sample, Sampler};
use state::State;

const OWN_PROCESSES_ONLY: &str = "only your own processes are shown; root sees those of all users";

pub(crate) fn run(args: &Top, output: &mut Output) -> Result<(), Failure> {
    let mut sampler = Sampler::default();
    let first = take_sample(&mut sampler)?;
    let note = if can_see_all_pages() { "" } else { OWN_PROCESSES_ONLY };
    if args.json {
        json(args, &mut sampler, output)
    } else if args.once || !screen::is_available() {
        if !note.is_empty() {
            print_message(note);
        }
        sleep(Duration::from_secs_f64(args.interval));
        table(take_sample(&mut sampler)?, args.interval, output)
    } else {
        screen::run(&mut sampler, State::new(first, args.interval, note))
    }
}

fn take_sample(sampler: &mut Sampler) -> Result<Sample, Failure> {
    sampler.take_sample().map_err(|error| Failure::at("/proc", &error))
}

/// With `--once`, prints one object. Without it, prints one object per line until stdout is closed.
fn json(args: &Top, sampler: &mut Sampler, output: &mut Output) -> Result<(), Failure> {
    loop {
        sleep(Duration::from_secs_f64(args.interval));
        let sample = take_sample(sampler)?;
        if args.once {
            return output.json(&sample);
        }
        let line = serde_json::to_string(&sample).map_err(|error| Failure::Failed(error.to_string()))?;
        output.write(&(line + "\n"))?;
    }
}

/// Prints the processes, the busiest first, and their work in total.
fn table(sample: Sample, interval: f64, output: &mut Output) -> Result<(), Failure> {
    if sample.processes.is_empty() {
        print_message("no process uses Gantry now");
    }
    let width = terminal::width().map(|width| u16::try_from(width).unwrap_or(u16::MAX));
    let state = State::new(sample, interval, "");
    let processes = render_table(PROCESSES, state.processes(), width);
    output.write(&format!("{processes}\n{}", render_table(WORK, &state.totals().work, width)))?;
    let guests = &state.totals().guests;
    if guests.is_empty() { Ok(()) } else { output.write(&format!("\n{}", render_table(GUESTS, guests, width))) }
}
