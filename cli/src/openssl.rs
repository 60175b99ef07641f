//! `gantry openssl`: sets up the provider, and finds the module for other commands.

pub(crate) mod conf;
mod groups;
pub(crate) mod measured;
mod merge;
mod replace;
pub(crate) mod setup;

use std::path::PathBuf;

use crate::args::{Openssl, OpensslCommand};
use crate::output::{Failure, Output};
use crate::program::program;

pub(crate) fn run(args: &Openssl, output: &mut Output) -> Result<(), Failure> {
    let OpensslCommand::Config { system, file, undo, post_quantum } = &args.command;
    setup::run(*system, file.as_deref(), *undo, *post_quantum, output)
}

/// Lists the paths where the module may be.
pub(crate) fn candidate_list() -> String {
    candidates().iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the paths where the module may be: OpenSSL's folder, the folder of `make install`, and the folder of this program.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(folder) = openssl_output(&["version", "-m"]) {
        found.push(PathBuf::from(folder).join("gantry.so"));
    }
    if let Some(beside) = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())) {
        found.push(beside.join("../lib/ossl-modules/gantry.so"));
        found.push(beside.join("libgantry_openssl.so"));
    }
    found
}

/// Returns the path of the module.
pub(crate) fn find_module() -> Option<PathBuf> {
    candidates().into_iter().find_map(|path| path.canonicalize().ok())
}

/// Returns the release of the installed OpenSSL, major and minor.
fn installed_release() -> Option<(u32, u32)> {
    let output = program("openssl").ok()?.arg("version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.strip_prefix("OpenSSL ")?.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Runs `openssl`, and returns the first quoted text of its output.
fn openssl_output(arguments: &[&str]) -> Option<String> {
    let output = program("openssl").ok()?.args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split('"').nth(1)?.to_owned())
}
