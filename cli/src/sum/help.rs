//! `--help` and `--version`: the only words that are ours under the names of coreutils.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use gantry::Algorithm;

use super::options::{Front, Row, rows};

pub(super) fn version(argv0: &OsStr) -> String {
    format!("{} (Gantry) {}, in place of GNU coreutils 9.1\n", base_name(argv0), env!("CARGO_PKG_VERSION"))
}

pub(super) fn help(front: Front, argv0: &OsStr, algorithm: Algorithm) -> String {
    let name = argv0.to_string_lossy();
    let digests = match front {
        Front::Coreutils => {
            format!("{} digests ({} bits)", algorithm.name().to_uppercase(), 8 * algorithm.info().tag.max)
        }
        Front::Gantry => "digests".to_owned(),
    };
    let mut text = format!(
        "Usage: {name} [OPTION]... [FILE]...\n\
         Print {digests} of files, or verify them.\n\n\
         With no FILE, or when FILE is -, read standard input.\n\n"
    );
    let (checking, general): (Vec<_>, Vec<_>) = rows(front).partition(|row| row.checking);
    for row in general {
        option(&mut text, row);
    }
    text.push_str("\nOnly with --check:\n");
    for row in checking {
        option(&mut text, row);
    }
    text.push_str(
        "\nA line is: the digest, a blank, '*' for binary or ' ' for text mode (which are the same here), the\n\
         name. Files are read in parallel; lines keep the order of the arguments. The exit status is 0 when\n\
         every file was read (and matched, with --check), otherwise 1.\n",
    );
    if front == Front::Gantry {
        text.push_str(
            "\nExamples:\n  \
             gantry sum *.iso > SHA256SUMS             write a checksum file\n  \
             gantry sum -c SHA256SUMS                  verify it\n  \
             gantry sum -a sha512 --progress *.iso     another digest, with a progress bar\n  \
             tar c /etc | gantry sum -a md5            digest of a pipe\n",
        );
    }
    text
}

fn option(text: &mut String, row: &Row) {
    let short = row.short.map_or_else(|| "   ".to_owned(), |letter| format!("-{letter},"));
    let long = row.argument.map_or_else(|| row.long.to_owned(), |argument| format!("{}={argument}", row.long));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  {short} --{long:<16} {}", row.help);
}

fn base_name(argv0: &OsStr) -> String {
    Path::new(argv0).file_name().unwrap_or(argv0).to_string_lossy().into_owned()
}
