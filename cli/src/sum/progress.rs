//! `--progress`: bytes, rate and time left, on stderr if that is a terminal.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::lists::{Listed, Reading, read_line};
use super::options::Options;
use super::walk::{Step, walk};

/// A bar over all bytes there are to read; one without an end where that cannot be known, because of a pipe.
pub(super) fn bar(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => {
            (ProgressBar::new(total), "{bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left  [{wide_bar}]")
        }
        None => (ProgressBar::no_length(), "{bytes}  {binary_bytes_per_sec}  {elapsed}"),
    };
    // The templates are constants, and a test draws both.
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Bytes of the operands, and of what is below them.
pub(super) fn below(options: &Options) -> Option<u64> {
    let mut total = Some(0);
    walk(&options.operands, options, |step| {
        if let Step::File(name) = step {
            total = total.zip(size(Path::new(&name))).map(|(total, size)| total + size);
        }
    });
    total
}

/// Bytes of these files.
pub(super) fn sizes(mut files: impl Iterator<Item = PathBuf>) -> Option<u64> {
    files.try_fold(0, |total, file| Some(total + size(&file)?))
}

/// Bytes of all files that checksum files list; `None` when one can be read only once.
pub(super) fn listed(lists: &[OsString], reading: &Reading) -> Option<u64> {
    let (mut total, mut line, mut reading) = (0, Vec::new(), reading.clone());
    for list in lists {
        size(Path::new(list))?;
        let Ok(file) = File::open(list) else { continue };
        let mut reader = BufReader::new(file);
        reading.begin(list);
        while let Ok(Some(whole)) = read_line(&mut reader, &mut line) {
            if let Listed::File(expected) = reading.line(&line)
                && whole
            {
                total += size(Path::new(OsStr::from_bytes(&expected.name)))?;
            }
        }
    }
    Some(total)
}

/// Bytes of a file; `None` when only reading it tells. A file that cannot be read has none.
fn size(file: &Path) -> Option<u64> {
    match file.metadata() {
        Ok(data) if data.is_file() => Some(data.len()),
        Err(_) if file != Path::new("-") => Some(0),
        _ => None,
    }
}
