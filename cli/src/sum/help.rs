//! `--help` and `--version`: the only words that are ours under the names of coreutils.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use gantry_core::Algorithm;

use super::options::{Front, Row, rows};

pub(super) fn version(argv0: &OsStr) -> String {
    format!("{} (Gantry) {}, in place of GNU coreutils 9.1\n", base_name(argv0), env!("CARGO_PKG_VERSION"))
}

pub(super) fn help(front: Front, argv0: &OsStr, algorithm: Algorithm) -> String {
    let name = argv0.to_string_lossy();
    let bits = 8 * algorithm.info().tag.max;
    let of_tool = format!("Print {} digests ({bits} bits) of files", algorithm.name().to_uppercase());
    let (operands, about) = match front {
        Front::Coreutils => ("[FILE]...", of_tool),
        Front::Gantry => ("[FILE]...", "Print digests of files".to_owned()),
        Front::Audit => {
            let text = format!("Usage: {name} [OPTION]... MANIFEST [DIR]\n{AUDIT}\n\n");
            return with_options(text, rows(front)) + "\n" + AUDIT_EXAMPLES + "\n";
        }
    };
    let mut text = format!(
        "Usage: {name} [OPTION]... {operands}\n\
         {about}, or verify them.\n\n\
         With no FILE, or when FILE is -, read standard input.\n\n"
    );
    let (checking, general): (Vec<_>, Vec<_>) = rows(front).partition(|row| row.checking);
    text = with_options(text, general.into_iter());
    text.push_str("\nOnly with --check:\n");
    text = with_options(text, checking.into_iter());
    text.push_str(
        "\nA line is: the digest, a blank, '*' for binary or ' ' for text mode (which are the same here), the\n\
         name. Files are read in parallel; lines keep the order of the arguments. The exit status is 0 when\n\
         every file was read (and matched, with --check), otherwise 1.\n",
    );
    if front == Front::Gantry {
        text.push_str(GANTRY);
    }
    text
}

const GANTRY: &str = "
--check reads what coreutils, BSD, OpenSSL, hashdeep, b3sum, BagIt and --json write. With -a, only lines of
these digests count. Several digests are printed with tags, from one reading of the file.

Examples:
  gantry sum *.iso > SHA256SUMS             write a checksum file
  gantry sum -c SHA256SUMS                  verify it
  gantry sum -r -a sha512 photos > sums     all files in a folder
  gantry sum -r --exclude .git --json .     an object for each file
  gantry sum -a md5 -a sha256 *.iso         two digests, one reading
  gantry sum -c --cache ~/.sums sums        read only files that changed since the last time
  gantry sum audit sums photos              what is new, moved, changed, missing (gantry sum audit --help)
  tar c /etc | gantry sum -a md5            digest of a pipe
";

/// What `audit` is for.
pub(crate) const AUDIT: &str = "\
Tell which files in DIR (.) are new, moved, changed or missing beside MANIFEST: a checksum file of any kind that
gantry sum --check reads, or a folder that is a bag (BagIt), whose manifests are verified in one reading.

Names in MANIFEST are relative to DIR; or to the current folder, if all of them begin with DIR.";

/// Its examples, and the exit status.
pub(crate) const AUDIT_EXAMPLES: &str = "\
Examples:
  gantry sum -r photos > sums               write a manifest
  gantry sum audit sums photos              what has become of the folder
  gantry sum audit --json sums photos       an object for each file
  gantry sum audit bag                      a bag, all digests in one reading

Exit status: 0 when everything is as listed, 1 when something differs, 2 when something could not be compared.";

fn with_options<'r>(mut text: String, rows: impl Iterator<Item = &'r Row>) -> String {
    for row in rows {
        option(&mut text, row);
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
