//! `gantry top`: what processes do, live.

/// The tables.
mod columns;
/// What guests of servers had between two looks.
mod guests;
/// Keys that come from a terminal.
mod keys;
/// What processes did between two looks.
mod model;
/// The terminal.
mod screen;
/// What is shown.
mod state;
/// How it is drawn.
mod view;

use std::thread::sleep;
use std::time::Duration;

use gantry_runtime::stats::sees_all;

use crate::args::Top;
use crate::output::{Failure, Output, say};
use crate::terminal;
use columns::{PROCESSES, WORK, text};
use guests::GUESTS;
use model::{Looks, Sample};
use state::State;

const OWN: &str = "only your own processes are shown; root sees those of all users";

pub(crate) fn run(args: &Top, output: &mut Output) -> Result<(), Failure> {
    let mut looks = Looks::default();
    let first = look(&mut looks)?;
    let note = if sees_all() { "" } else { OWN };
    if args.json {
        json(args, &mut looks, output)
    } else if args.once || !screen::is_there() {
        if !note.is_empty() {
            say(note);
        }
        sleep(Duration::from_secs_f64(args.interval));
        table(look(&mut looks)?, args.interval, output)
    } else {
        screen::run(&mut looks, State::new(first, args.interval, note))
    }
}

fn look(looks: &mut Looks) -> Result<Sample, Failure> {
    looks.look().map_err(|error| Failure::at("/proc", &error))
}

/// One object, or one in each line for as long as anybody reads them.
fn json(args: &Top, looks: &mut Looks, output: &mut Output) -> Result<(), Failure> {
    loop {
        sleep(Duration::from_secs_f64(args.interval));
        let sample = look(looks)?;
        if args.once {
            return output.json(&sample);
        }
        let line = serde_json::to_string(&sample).map_err(|error| Failure::Failed(error.to_string()))?;
        output.write(&(line + "\n"))?;
    }
}

/// The processes, the busiest first, and what they do together.
fn table(sample: Sample, interval: f64, output: &mut Output) -> Result<(), Failure> {
    if sample.processes.is_empty() {
        say("nothing uses Gantry at the moment");
    }
    let width = terminal::width().map(|width| u16::try_from(width).unwrap_or(u16::MAX));
    let state = State::new(sample, interval, "");
    let processes = text(PROCESSES, state.processes(), width);
    output.write(&format!("{processes}\n{}", text(WORK, &state.all().work, width)))?;
    let guests = &state.all().guests;
    if guests.is_empty() { Ok(()) } else { output.write(&format!("\n{}", text(GUESTS, guests, width))) }
}
