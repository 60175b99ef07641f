//! `--help` and `--version`: the only output that differs from coreutils under the names of its tools.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use gantry_core::Algorithm;

use super::{FrontEnd, OptionRow, rows};

pub(crate) fn version(argv0: &OsStr) -> String {
    format!("{} (Gantry) {}, in place of GNU coreutils 9.1\n", base_name(argv0), env!("CARGO_PKG_VERSION"))
}

pub(crate) fn help(front_end: FrontEnd, argv0: &OsStr, algorithm: Algorithm) -> String {
    let name = argv0.to_string_lossy();
    let bits = 8 * algorithm.info().tag.max;
    let of_tool = format!("Print {} digests ({bits} bits) of files", algorithm.name().to_uppercase());
    let (operands, about) = match front_end {
        FrontEnd::Coreutils => ("[FILE]...", of_tool),
        FrontEnd::Gantry => ("[FILE]...", "Print digests of files".to_owned()),
        FrontEnd::Audit => {
            let text = format!("Usage: {name} [OPTION]... MANIFEST [DIR]\n{AUDIT}\n\n");
            return with_options(text, front_end, rows(front_end)) + "\n" + AUDIT_EXAMPLES + "\n";
        }
        FrontEnd::Bag => {
            let text = format!("Usage: {name} [OPTION]... DIR\n{BAG}\n\n");
            return with_options(text, front_end, rows(front_end)) + "\n" + BAG_EXAMPLES + "\n";
        }
    };
    let commands = if front_end == FrontEnd::Gantry {
        format!("  or:  {name} audit [OPTION]... MANIFEST [DIR]\n  or:  {name} bag [OPTION]... DIR\n")
    } else {
        String::new()
    };
    let recursive = if front_end == FrontEnd::Gantry { " With -r and no FILE, read the current folder." } else { "" };
    let mut text = format!(
        "Usage: {name} [OPTION]... {operands}\n\
         {commands}\
         {about}, or verify them.\n\n\
         With no FILE, or when FILE is -, read standard input.{recursive}\n\n"
    );
    let (checking, general): (Vec<_>, Vec<_>) = rows(front_end).partition(|row| row.only_with_check);
    text = with_options(text, front_end, general.into_iter());
    text.push_str("\nOnly with --check:\n");
    text = with_options(text, front_end, checking.into_iter());
    text.push_str(
        "\nEach line has the digest, a space, '*' for binary or ' ' for text mode (both read the same bytes), and the\n\
         name. Files are read in parallel; lines keep the order of the arguments. The exit status is 0 if every file\n\
         was read (and matched, with --check), otherwise 1.\n",
    );
    if front_end == FrontEnd::Gantry {
        text.push_str(GANTRY);
    }
    text
}

const GANTRY: &str = "
--check reads checksum files of coreutils, BSD, OpenSSL, hashdeep, b3sum, BagIt and --json. With -a, it ignores
lines of other digests. Several digests are printed as BSD-style lines; each file is read once. With --parts or
--etag, -a is md5 (default), sha1, sha256, crc32 or crc32c; with --parts whole, also crc64nvme.

A link to this program named md5sum, sha1sum, sha224sum, sha256sum, sha384sum or sha512sum acts as that tool.
--set, --devices and --policy go before sum: gantry --policy pin:software sum FILE.

Examples:
  gantry sum *.iso > SHA256SUMS             write a checksum file
  gantry sum -c SHA256SUMS                  verify it
  gantry sum -r -a sha512 photos > sums     all files in a folder
  gantry sum -r --exclude .git --json .     a JSON object for each file
  gantry sum -a md5 -a sha256 *.iso         two digests, each file read once
  gantry sum -c --cache ~/.sums sums        do not read files with unchanged size, inode and times
  gantry sum audit sums photos              list new, moved, changed and missing files
  gantry sum bag photos                     turn the folder into a BagIt bag, with its files in photos/data
  tar c /etc | gantry sum -a md5            digest of a pipe
";

/// Description of `audit`.
pub(crate) const AUDIT: &str = "\
Compare DIR (default: the current folder) with MANIFEST, and list new, moved, changed and missing files. MANIFEST
is a checksum file of any kind that gantry sum --check reads, or a BagIt bag, whose manifests are all verified in one pass.

A manifest of gantry sum --json has sizes and times, too: a file with the same size and time but other content is
reported as damaged. It also has symbolic links and folders, which are compared.

Names in MANIFEST are relative to DIR, or to the current folder if all of them begin with DIR.";

/// Examples and exit status of `audit`.
pub(crate) const AUDIT_EXAMPLES: &str = "\
Examples:
  gantry sum -r photos > sums               write a manifest
  gantry sum audit sums photos              compare the folder with it
  gantry sum audit --json sums photos       a JSON object for each file
  gantry sum audit bag                      a bag, all digests in one pass
  gantry sum -r --json photos > sums        a manifest with sizes, times, links and folders
  gantry sum -r --json --unlisted sums photos >> sums    add new files to it

Exit status: 0 if everything is as listed, 1 if something differs, 2 if something could not be compared.";

/// Description of `bag`.
pub(crate) const BAG: &str = "\
Turn DIR into a BagIt bag (RFC 8493): its files move to DIR/data, and manifests with their digests are written.

The digests are SHA-512, or those of -a: md5, sha1, sha224, sha256, sha384, sha512. After an error DIR is unchanged.";

/// Examples and exit status of `bag`.
pub(crate) const BAG_EXAMPLES: &str = "\
Examples:
  gantry sum bag photos                     make a bag
  gantry sum audit photos                   verify it
  gantry sum bag -a md5 -a sha256 photos    two manifests, each file read once

Exit status: 0 if DIR is now a bag, otherwise 1.";

fn with_options<'r>(mut text: String, front_end: FrontEnd, rows: impl Iterator<Item = &'r OptionRow>) -> String {
    for row in rows {
        option(&mut text, front_end, row);
    }
    text
}

/// Columns before the description of an option.
const INDENT: usize = 24;

const MAX_COLUMNS: usize = 110;

fn option(text: &mut String, front_end: FrontEnd, row: &OptionRow) {
    let short = row.short.map_or_else(|| "   ".to_owned(), |letter| format!("-{letter},"));
    let long = row.argument.map_or_else(|| row.long.to_owned(), |argument| format!("{}={argument}", row.long));
    let mut line = format!("  {short} --{long:<16}");
    for word in row.help(front_end).split(' ') {
        if line.len() + word.len() >= MAX_COLUMNS {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
            line = " ".repeat(INDENT);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

fn base_name(argv0: &OsStr) -> String {
    Path::new(argv0).file_name().unwrap_or(argv0).to_string_lossy().into_owned()
}
