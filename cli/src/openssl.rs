//! `gantry openssl`: the provider set up; and what others need to know of it.

/// What an `openssl.cnf` says.
pub(crate) mod conf;
/// The module, asked what it gains.
pub(crate) mod measured;
/// Adds gantry to a configuration of somebody else.
mod merge;
/// Replaces a file with its owner and attributes.
mod replace;
/// The provider put into a configuration, and taken out again.
pub(crate) mod setup;

use std::path::PathBuf;

use crate::args::{Openssl, OpensslCommand};
use crate::output::{Failure, Output};
use crate::program::program;

pub(crate) fn run(args: &Openssl, output: &mut Output) -> Result<(), Failure> {
    let OpensslCommand::Config { system, file, undo } = &args.command;
    setup::run(*system, file.as_deref(), *undo, output)
}

/// Where the module is looked for, as a list.
pub(crate) fn folders() -> String {
    candidates().iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Where the module may be: where OpenSSL looks, where `make install` puts it, and beside this program.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(folder) = openssl_says(&["version", "-m"]) {
        found.push(PathBuf::from(folder).join("gantry.so"));
    }
    if let Some(beside) = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())) {
        found.push(beside.join("../lib/ossl-modules/gantry.so"));
        found.push(beside.join("libgantry_openssl.so"));
    }
    found
}

/// The module.
pub(crate) fn module() -> Option<PathBuf> {
    candidates().into_iter().find_map(|path| path.canonicalize().ok())
}

/// What stands in quotes in an answer of `openssl`.
fn openssl_says(arguments: &[&str]) -> Option<String> {
    let output = program("openssl").ok()?.args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split('"').nth(1)?.to_owned())
}
