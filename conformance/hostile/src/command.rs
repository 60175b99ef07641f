//! The `gantry` command, as a program that tests give other rights.

use std::process::ExitCode;

fn main() -> ExitCode {
    gantry_cli::main()
}
