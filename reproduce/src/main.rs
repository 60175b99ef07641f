//! `gantry-reproduce`: published figures next to Gantry's figures on models of the same machines.
//!
//! | file | content |
//! |---|---|
//! | `paper.rs` | figures of "Cryptographic Device Support for FreeBSD" (Leffler, BSDCon 2003) |
//! | `cards.rs`, `dispatch.rs` | the paper's Tables 1 and 5 to 8 by models; its Tables 2 to 4 on this machine |
//! | `flow_control.rs`, `table9.rs` | the paper's 28 threads on one card; its tunnel of IPsec between network namespaces |
//! | `boards.rs`, `sec.rs` | two boards and a security engine, from published measurements |
//! | `report.rs`, `table.rs` | rows with their bounds, and text |

#![allow(clippy::cast_precision_loss, reason = "measured, not counted")]

mod boards;
mod cards;
mod dispatch;
mod flow_control;
mod paper;
mod report;
mod sec;
mod table;
mod table9;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use report::{Report, Result};

/// Print published figures next to those of Gantry
///
/// The machines of the publications are modelled and run in simulated time, with the same result on every machine. The costs of Gantry
/// itself are measured on this machine. The exit status is 1 if a figure is out of its bounds or a program is missing.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  gantry-reproduce                      everything, in about a minute
  gantry-reproduce cards --simulated    Tables 1 and 5 to 8 of 2003
  sudo gantry-reproduce table9          an IPsec tunnel by software, lanes and a card"
)]
struct Args {
    /// The works to reproduce [default: all]
    #[arg(value_enum)]
    works: Vec<Work>,
    /// Leave out measurements in real time
    #[arg(long)]
    simulated: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// Three cards and two kinds of dispatch: "Cryptographic Device Support for FreeBSD" (Leffler, BSDCon 2003)
    Cards,
    /// 28 threads on one of these cards
    FlowControl,
    /// Throughput of an IPsec tunnel between network namespaces: raw, by software, lanes and a card. Needs root and iperf3
    Table9,
    /// Two boards with a crypto engine beside a CPU of similar speed: Marvell Kirkwood and Cortex-A9
    Boards,
    /// Partitions of one engine, the SEC of a Freescale P4080, each a guest over vhost-user
    Sec,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report::say(error);
            ExitCode::FAILURE
        }
    }
}

/// Runs the works. Returns true if every figure is within its bounds.
fn run(args: &Args) -> Result<bool> {
    let works = if args.works.is_empty() { Work::value_variants() } else { &args.works };
    let mut report = Report::default();
    for work in works {
        let rows = &mut report.rows;
        let text = match work {
            Work::Cards => cards::run(args.simulated, rows)?,
            Work::FlowControl => flow_control::run(rows)?,
            Work::Boards => boards::run(rows)?,
            Work::Sec => sec::run(args.simulated, rows)?,
            Work::Table9 => match table9::missing_requirement(args.simulated) {
                None => table9::run(rows)?,
                Some(missing) if args.works.is_empty() => {
                    report::say(format_args!("Table 9 is left out, because it needs {missing}"));
                    continue;
                }
                Some(missing) => return Err(format!("Table 9 needs {missing}").into()),
            },
        };
        if !args.json {
            writeln!(io::stdout(), "{}\n", text.trim_end())?;
        }
    }
    if args.json {
        writeln!(io::stdout(), "{}", report.to_json()?)?;
    }
    Ok(report.print_violations())
}
