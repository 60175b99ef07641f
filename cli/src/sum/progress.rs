//! `--progress`: bytes, rate and time left, on stderr if that is a terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use indicatif::{ProgressBar, ProgressStyle};

use super::check::LONGEST_LINE;
use super::checkfile::{Format, Line, parse_line};
use super::options::Options;

/// A bar over all bytes there are to read; one without an end where that cannot be known, because of a pipe.
pub(super) fn bar(options: &Options, format: &Format) -> ProgressBar {
    let operands = options.operands.iter().map(Path::new);
    let total: Option<u64> =
        if options.check { operands.map(|list| listed(list, format)).sum() } else { operands.map(size).sum() };
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "{bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left  [{wide_bar}]")
        }
        None => (ProgressBar::no_length(), "{bytes}  {binary_bytes_per_sec}  {elapsed}"),
    };
    // The templates are constants, and a test draws both.
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Bytes of a file; `None` when only reading it tells. A file that cannot be read has none.
fn size(file: &Path) -> Option<u64> {
    match file.metadata() {
        Ok(data) if data.is_file() => Some(data.len()),
        Err(_) if file != Path::new("-") => Some(0),
        _ => None,
    }
}

/// Bytes of all files that a checksum file lists; `None` when it can be read only once.
fn listed(list: &Path, format: &Format) -> Option<u64> {
    size(list)?;
    let (mut total, mut line, mut format) = (0, Vec::new(), format.clone());
    let Ok(file) = File::open(list) else { return Some(0) };
    let mut reader = BufReader::new(file);
    loop {
        line.clear();
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return Some(total),
            Ok(_) => {
                if let Line::Entry { name, .. } = parse_line(&line, &mut format) {
                    total += size(Path::new(OsStr::from_bytes(&name)))?;
                }
            }
        }
    }
}
