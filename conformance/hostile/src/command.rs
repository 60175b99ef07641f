//! The `gantry` command, as a program to which tests give more rights.

use std::process::ExitCode;

fn main() -> ExitCode {
    gantry_cli::main()
}
