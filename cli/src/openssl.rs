//! `gantry openssl`: the provider set up, explained, and watched at work.

/// The module, asked.
mod ask;
/// What an `openssl.cnf` says.
mod conf;
/// A program watched.
mod doctor;
/// Who would serve what.
mod info;
/// The provider put into a configuration, and taken out again.
mod setup;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use gantry_runtime::bounded;

use crate::args::{Openssl, OpensslCommand};
use crate::output::{Failure, Output};
use crate::temporary::Folder;

pub(crate) fn run(args: &Openssl, output: &mut Output) -> Result<(), Failure> {
    match &args.command {
        OpensslCommand::Config { system, file, undo } => setup::run(*system, file.as_deref(), *undo, output),
        OpensslCommand::Info { conf } => info::run(conf.as_deref(), output),
        OpensslCommand::Doctor { command } => doctor::run(command, output),
    }
}

fn folders() -> String {
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

fn module() -> Option<PathBuf> {
    candidates().into_iter().find_map(|path| path.canonicalize().ok())
}

/// What stands in quotes in an answer of `openssl`.
fn openssl_says(arguments: &[&str]) -> Option<String> {
    let output = Command::new("openssl").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split('"').nth(1)?.to_owned())
}

/// Notes below a table.
fn said(notes: &[String]) -> String {
    notes.iter().flat_map(|note| ["- ", note, "\n"]).collect()
}

/// What the module had to say for itself, by program.
fn sentences(folder: &Folder) -> Result<Vec<String>, Failure> {
    let files = files(folder, "why")?;
    let texts = files.iter().flat_map(|path| bounded::read_to_string(path));
    Ok(texts.map(|text| text.trim_end().to_owned()).collect())
}

/// The files in a folder, in order, or those with an extension.
fn files(folder: &Folder, extension: &str) -> Result<Vec<PathBuf>, Failure> {
    let folder = folder.path();
    let entries = fs::read_dir(folder).map_err(|error| Failure::at(folder.display(), &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| extension.is_empty() || path.extension().is_some_and(|tail| tail == extension));
    files.sort();
    Ok(files)
}
