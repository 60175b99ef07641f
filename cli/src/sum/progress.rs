//! `--progress`: bytes, rate and time left, on stderr if that is a terminal.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::lists::{ListParser, ParsedLine};
use super::walk::{WalkEntry, walk};
use crate::args::sum::Options;

/// Returns a bar for `total` bytes, or a bar without an end if a pipe makes the total unknown.
pub(super) fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "{bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left  [{wide_bar}]")
        }
        None => (ProgressBar::no_length(), "{bytes}  {binary_bytes_per_sec}  {elapsed}"),
    };
    // A test draws both constant templates.
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Returns the bytes of the operands, including the contents of folders.
pub(super) fn total_bytes(options: &Options) -> Option<u64> {
    let mut total = Some(0);
    walk(&options.operands, options, |step| {
        if let WalkEntry::File(name) = step {
            total = total.zip(size(Path::new(&name))).map(|(total, size)| total + size);
        }
    });
    total
}

/// Returns the bytes of these files.
pub(super) fn sizes(mut files: impl Iterator<Item = PathBuf>) -> Option<u64> {
    files.try_fold(0, |total, file| Some(total + size(&file)?))
}

/// Returns the bytes of all files listed in checksum files; `None` if a checksum file or a listed file can be read only once.
pub(super) fn listed(lists: &[OsString], parser: &ListParser) -> Option<u64> {
    let (mut total, mut line, mut parser) = (0, Vec::new(), parser.clone());
    for list in lists {
        size(Path::new(list))?;
        let Ok(mut lines) = File::open(list).and_then(|file| parser.lines(file)) else { continue };
        parser.begin(list);
        while let Ok(Some(whole)) = lines.next(&mut line) {
            if let ParsedLine::File(expected) = parser.line(&line)
                && whole
            {
                total += size(Path::new(OsStr::from_bytes(&expected.name)))?;
            }
        }
    }
    Some(total)
}

/// Returns the bytes of a file; `None` if only reading the file shows their number. Unreadable files count 0.
fn size(file: &Path) -> Option<u64> {
    match file.metadata() {
        Ok(data) if data.is_file() => Some(data.len()),
        Err(_) if file != Path::new("-") => Some(0),
        _ => None,
    }
}
