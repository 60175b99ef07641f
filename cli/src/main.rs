//! The `gantry` command: see [`gantry_cli`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    gantry_cli::main()
}
