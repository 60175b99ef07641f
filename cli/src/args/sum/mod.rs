//! The command line of `gantry sum` and the coreutils names, parsed as `getopt_long` does: clusters, abbreviations, permutation.
//!
//! Parsing has no side effects, so that tests can check every refusal as a value.

pub(crate) mod help;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Hash functions for `-a` besides the framework's algorithms.
pub(crate) const MORE_NAMES: &[&str] = &[
    "blake2b-512",
    "blake3",
    "sha512-224",
    "blake2b-128",
    "blake2b-160",
    "blake2b-224",
    "blake2b-384",
    "blake2s-256",
    "sm3",
];

/// The front end that the options are parsed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    /// A coreutils name (`sha256sum`): the options of coreutils only.
    Coreutils,
    /// `gantry sum`: the options of coreutils and Gantry's.
    Gantry,
    /// `gantry sum audit`: Gantry's options about trees.
    Audit,
    /// `gantry sum bag`.
    Bag,
}

impl FrontEnd {
    /// Returns the exit status of a failure. `audit` keeps 1 for differences.
    pub(crate) fn failure_status(self) -> u8 {
        if self == Self::Audit { 2 } else { 1 }
    }
}

/// The action that the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Digest or check.
    Run(Box<Options>),
    Help,
    Version,
}

/// The parts of an object of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartSize {
    /// None: the object is one piece.
    Whole,
    Bytes(u64),
}

#[derive(Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one switch of the command line each")]
pub(crate) struct Options {
    /// `-a`: names of algorithms (only `gantry sum`).
    pub(crate) algorithms: Vec<OsString>,
    /// `-b` or `-t`; the default is text.
    pub(crate) binary: Option<bool>,
    /// `--cache`: a file with digests of earlier runs (only `gantry sum`).
    pub(crate) cache: Option<OsString>,
    /// `-c`: the operands are checksum files.
    pub(crate) check: bool,
    /// `--exclude`: globs of names to skip (only `gantry sum`).
    pub(crate) exclude: Vec<OsString>,
    /// `-L`: follows symbolic links in folders (only `gantry sum`).
    pub(crate) follow: bool,
    /// `--ignore-improper`: succeeds despite improper lines (only `gantry sum`).
    pub(crate) ignore_improper: bool,
    /// `--ignore-missing`: skips files that do not exist.
    pub(crate) ignore_missing: bool,
    /// `--include`: globs of files to include (only `gantry sum`).
    pub(crate) include: Vec<OsString>,
    /// `--json`: prints JSON lines (only `gantry sum`).
    pub(crate) json: bool,
    /// `-x`: stays in the file system of a folder (only `gantry sum`).
    pub(crate) one_file_system: bool,
    /// `--etag` (only `gantry sum`).
    pub(crate) etag: Option<String>,
    /// `--parts` (only `gantry sum`).
    pub(crate) parts: Option<PartSize>,
    /// `--progress` (only `gantry sum`).
    pub(crate) progress: bool,
    /// `--quiet`: no OK lines.
    pub(crate) quiet: bool,
    /// `-r`: recurses into folders (only `gantry sum`).
    pub(crate) recursive: bool,
    /// `--status`: nothing on stdout, no warnings.
    pub(crate) status: bool,
    /// `--strict`: fails at an improper line.
    pub(crate) strict: bool,
    /// `--tag`: BSD-style lines.
    pub(crate) tag: bool,
    /// `--unlisted`: a list whose files are left out (only `gantry sum`).
    pub(crate) unlisted: Option<OsString>,
    /// `-w`: name every improper line.
    pub(crate) warn: bool,
    /// `-z`: NUL ends a line, names are not escaped.
    pub(crate) zero: bool,
    /// Files, in the order given; `-` if there is none.
    pub(crate) operands: Vec<OsString>,
}

/// One row of the option table.
#[derive(Debug)]
pub(crate) struct OptionRow {
    /// The long name, without dashes.
    pub(crate) long: &'static str,
    pub(crate) short: Option<char>,
    /// The argument's name, for options that take one.
    pub(crate) argument: Option<&'static str>,
    /// One line of help.
    help: &'static str,
    /// Only useful with `--check`.
    pub(crate) only_with_check: bool,
    /// Absent under the coreutils names.
    pub(crate) is_gantry_only: bool,
    /// Also an option of `audit`.
    in_audit: bool,
    switch: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    Algorithm,
    Binary,
    Cache,
    Check,
    Etag,
    Exclude,
    Follow,
    Help,
    IgnoreImproper,
    IgnoreMissing,
    Include,
    Json,
    OneFileSystem,
    Parts,
    Progress,
    Quiet,
    Recursive,
    Status,
    Strict,
    Tag,
    Text,
    Unlisted,
    Version,
    Warn,
    Zero,
}

impl OptionRow {
    /// Returns the line of help of a front end.
    pub(crate) fn help(&self, front_end: FrontEnd) -> &'static str {
        match (front_end, self.switch) {
            (FrontEnd::Audit, Switch::Algorithm) => {
                "compare only this digest of MANIFEST (default: every one); may be repeated"
            }
            (FrontEnd::Gantry, Switch::Strict) => "fail if a line is improperly formatted (default)",
            (FrontEnd::Bag, Switch::Algorithm) => "digest of the manifests (default sha512); may be repeated",
            _ => self.help,
        }
    }
}

const fn row(long: &'static str, short: Option<char>, switch: Switch, help: &'static str) -> OptionRow {
    OptionRow {
        long,
        short,
        argument: None,
        help,
        only_with_check: false,
        is_gantry_only: false,
        in_audit: false,
        switch,
    }
}

/// An option that is meaningful only with `--check`.
const fn check_option(long: &'static str, short: Option<char>, switch: Switch, help: &'static str) -> OptionRow {
    OptionRow { only_with_check: true, ..row(long, short, switch, help) }
}

/// An option of Gantry's.
const fn gantry_option(
    long: &'static str,
    short: Option<char>,
    argument: Option<&'static str>,
    switch: Switch,
    help: &'static str,
) -> OptionRow {
    OptionRow { is_gantry_only: true, argument, ..row(long, short, switch, help) }
}

/// An option of Gantry's that `audit` has, too.
const fn tree_option(
    long: &'static str,
    short: Option<char>,
    argument: Option<&'static str>,
    switch: Switch,
    help: &'static str,
) -> OptionRow {
    OptionRow { in_audit: true, ..gantry_option(long, short, argument, switch, help) }
}

/// Every option. Those of coreutils come first, in its order, because `getopt_long` lists the candidates of an ambiguous abbreviation
/// in that order.
pub(crate) const OPTION_TABLE: &[OptionRow] = &[
    row("check", Some('c'), Switch::Check, "read checksums from the FILEs and verify them"),
    check_option("ignore-missing", None, Switch::IgnoreMissing, "skip files that do not exist"),
    OptionRow { in_audit: true, ..check_option("quiet", None, Switch::Quiet, "do not print OK for files that match") },
    check_option("status", None, Switch::Status, "print nothing, only set the exit status"),
    check_option("warn", Some('w'), Switch::Warn, "name each improperly formatted line"),
    check_option("strict", None, Switch::Strict, "fail if a line is improperly formatted"),
    row("tag", None, Switch::Tag, "print BSD-style lines"),
    row("zero", Some('z'), Switch::Zero, "end lines with NUL and do not escape names"),
    row("binary", Some('b'), Switch::Binary, "mark lines as read in binary mode"),
    row("text", Some('t'), Switch::Text, "mark lines as read in text mode (default)"),
    OptionRow { in_audit: true, ..row("help", None, Switch::Help, "print this help and exit") },
    OptionRow { in_audit: true, ..row("version", None, Switch::Version, "print the version and exit") },
    tree_option(
        "algorithm",
        Some('a'),
        Some("NAME"),
        Switch::Algorithm,
        "digest (default sha256): any of `gantry algorithms`, blake3, sm3, sha512-224, blake2s-256 or blake2b-N (N is 128, \
         160, 224, 384 or 512); may be repeated",
    ),
    OptionRow {
        only_with_check: true,
        ..gantry_option(
            "ignore-improper",
            None,
            None,
            Switch::IgnoreImproper,
            "succeed despite improperly formatted lines",
        )
    },
    gantry_option(
        "recursive",
        Some('r'),
        None,
        Switch::Recursive,
        "recurse into folders, in byte order of the names; options marked `in folders` need it",
    ),
    tree_option(
        "include",
        None,
        Some("GLOB"),
        Switch::Include,
        "in folders: only files that match GLOB (*.iso, data/**)",
    ),
    tree_option("exclude", None, Some("GLOB"), Switch::Exclude, "in folders: skip files and folders that match GLOB"),
    tree_option("follow", Some('L'), None, Switch::Follow, "in folders: follow symbolic links"),
    tree_option(
        "one-file-system",
        Some('x'),
        None,
        Switch::OneFileSystem,
        "in folders: skip folders of other file systems",
    ),
    gantry_option(
        "unlisted",
        None,
        Some("LIST"),
        Switch::Unlisted,
        "in folders: skip files named in checksum file LIST",
    ),
    tree_option("json", None, None, Switch::Json, "print JSON lines, one object per file"),
    tree_option(
        "cache",
        None,
        Some("CACHE"),
        Switch::Cache,
        "take digests of files with unchanged size, inode and times from CACHE; update CACHE",
    ),
    gantry_option(
        "parts",
        None,
        Some("SIZE"),
        Switch::Parts,
        "print S3's checksum of an object uploaded in parts of SIZE (such as 8M; at most 5G; `whole`: one part)",
    ),
    gantry_option("etag", None, Some("VALUE"), Switch::Etag, "find the part size for which S3's checksum is VALUE"),
    tree_option("progress", None, None, Switch::Progress, "show bytes, rate and time left on the terminal"),
];

/// Returns the options of `front_end`.
pub(crate) fn rows(front_end: FrontEnd) -> impl Iterator<Item = &'static OptionRow> + Clone {
    OPTION_TABLE.iter().filter(move |row| match front_end {
        FrontEnd::Coreutils => !row.is_gantry_only,
        FrontEnd::Gantry => true,
        FrontEnd::Audit => row.in_audit,
        FrontEnd::Bag => {
            matches!(row.switch, Switch::Algorithm | Switch::Help | Switch::Progress | Switch::Version)
        }
    })
}

/// Parses the arguments after the program's name.
///
/// With `posixly_correct`, the first operand ends the options. Otherwise, options may follow operands.
///
/// # Errors
/// The diagnostic without the program's name, as bytes because it quotes the user's input. The caller appends a pointer to `--help`.
pub(crate) fn parse(front_end: FrontEnd, args: Vec<OsString>, posixly_correct: bool) -> Result<Action, Vec<u8>> {
    let mut options = Options::default();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            options.operands.extend(args);
            break;
        }
        if bytes.len() < 2 || bytes[0] != b'-' {
            options.operands.push(arg);
            if posixly_correct {
                options.operands.extend(args);
                break;
            }
            continue;
        }
        if let Some(long) = bytes.strip_prefix(b"--") {
            let (row, attached) = find_long(front_end, long)?;
            let argument = match (row.argument.is_some(), attached) {
                (false, None) => None,
                (false, Some(_)) => return Err(format!("option '--{}' doesn't allow an argument", row.long).into()),
                (true, Some(value)) => Some(OsString::from_vec(value.to_vec())),
                (true, None) => Some(
                    args.next().ok_or_else(|| format!("option '--{}' requires an argument", row.long).into_bytes())?,
                ),
            };
            if let Some(action) = options.set(row.switch, argument)? {
                return Ok(action);
            }
            continue;
        }
        let mut cluster = &bytes[1..];
        while let Some((&letter, rest)) = cluster.split_first() {
            cluster = rest;
            let Some(row) = rows(front_end).find(|row| row.short == Some(char::from(letter))) else {
                return Err([b"invalid option -- '", &[letter][..], b"'"].concat());
            };
            let argument =
                match (row.argument.is_some(), cluster.is_empty()) {
                    (false, _) => None,
                    (true, false) => Some(OsString::from_vec(std::mem::take(&mut cluster).to_vec())),
                    (true, true) => Some(args.next().ok_or_else(|| {
                        format!("option requires an argument -- '{}'", char::from(letter)).into_bytes()
                    })?),
                };
            if let Some(action) = options.set(row.switch, argument)? {
                return Ok(action);
            }
        }
    }
    if front_end == FrontEnd::Audit {
        (options.check, options.recursive) = (true, true);
        if !(1..=2).contains(&options.operands.len()) {
            return Err(b"audit takes MANIFEST and, optionally, DIR".to_vec());
        }
    }
    if front_end == FrontEnd::Bag {
        options.recursive = true;
        if options.operands.len() != 1 {
            return Err(b"bag takes one DIR".to_vec());
        }
    }
    options.refuse_contradictions(front_end)?;
    if options.operands.is_empty() {
        options.operands.push(if options.recursive { "." } else { "-" }.into());
    }
    Ok(Action::Run(Box::new(options)))
}

/// Returns the row that `typed` (a long option without its dashes) names or abbreviates, and the value after `=`.
fn find_long(front_end: FrontEnd, typed: &[u8]) -> Result<(&'static OptionRow, Option<&[u8]>), Vec<u8>> {
    let (name, value) = match typed.iter().position(|&b| b == b'=') {
        Some(at) => (&typed[..at], Some(&typed[at + 1..])),
        None => (typed, None),
    };
    if let Some(row) = rows(front_end).find(|row| row.long.as_bytes() == name) {
        return Ok((row, value));
    }
    let candidates: Vec<_> = rows(front_end).filter(|row| row.long.as_bytes().starts_with(name)).collect();
    match candidates[..] {
        [row] => Ok((row, value)),
        [] => Err([b"unrecognized option '--", typed, b"'"].concat()),
        _ => {
            let mut message = [b"option '--", typed, b"' is ambiguous; possibilities:"].concat();
            for row in candidates {
                message.extend(format!(" '--{}'", row.long).into_bytes());
            }
            Err(message)
        }
    }
}

impl Options {
    /// Applies one switch. Returns `Some` if it ends the parsing of options.
    fn set(&mut self, switch: Switch, argument: Option<OsString>) -> Result<Option<Action>, Vec<u8>> {
        match switch {
            Switch::Algorithm => self.algorithms.extend(argument),
            Switch::Binary => self.binary = Some(true),
            Switch::Cache => self.cache = argument,
            Switch::Check => self.check = true,
            Switch::Etag => self.etag = argument.map(|value| value.to_string_lossy().into_owned()),
            Switch::Exclude => self.exclude.extend(glob(argument)?),
            Switch::Follow => self.follow = true,
            Switch::Help => return Ok(Some(Action::Help)),
            Switch::IgnoreImproper => self.ignore_improper = true,
            Switch::IgnoreMissing => self.ignore_missing = true,
            Switch::Include => self.include.extend(glob(argument)?),
            Switch::Json => self.json = true,
            Switch::OneFileSystem => self.one_file_system = true,
            Switch::Parts => {
                let size = argument.as_ref().and_then(|size| part_size(size.to_str()?));
                self.parts =
                    Some(size.ok_or("--parts: neither a size from 1 to 5G, such as 8M or 8388608, nor whole")?);
            }
            Switch::Progress => self.progress = true,
            Switch::Recursive => self.recursive = true,
            // The last of these three options wins.
            Switch::Quiet => (self.quiet, self.status, self.warn) = (true, false, false),
            Switch::Status => (self.quiet, self.status, self.warn) = (false, true, false),
            Switch::Warn => (self.quiet, self.status, self.warn) = (false, false, true),
            Switch::Strict => self.strict = true,
            Switch::Tag => (self.tag, self.binary) = (true, Some(true)),
            Switch::Text => self.binary = Some(false),
            Switch::Unlisted => self.unlisted = argument,
            Switch::Version => return Ok(Some(Action::Version)),
            Switch::Zero => self.zero = true,
        }
        Ok(None)
    }

    fn refuse_contradictions(&self, front_end: FrontEnd) -> Result<(), Vec<u8>> {
        let check = self.check;
        let by_parts = self.parts.is_some() || self.etag.is_some();
        let refusals = [
            (self.parts.is_some() && self.etag.is_some(), "--etag cannot be used with --parts"),
            (by_parts && check, "--parts and --etag are meaningless when verifying checksums"),
            (
                by_parts && (self.binary.is_some() || self.json),
                "--parts and --etag cannot be used with --binary, --text, --tag or --json",
            ),
            (
                by_parts && (self.recursive || self.cache.is_some()),
                "--parts and --etag cannot be used with -r or --cache",
            ),
            (by_parts && self.algorithms.len() > 1, "--parts and --etag take one digest only"),
            (by_parts && self.progress, "--parts and --etag cannot be used with --progress"),
            (self.tag && self.binary == Some(false), "--tag does not support --text mode"),
            (
                self.json && (self.tag || self.zero || self.binary.is_some()),
                "--json cannot be used with --tag, --zero, --binary or --text",
            ),
            (
                self.recursive && check && front_end != FrontEnd::Audit,
                "-r is meaningless when verifying checksums; to compare a folder with them, use `gantry sum audit`",
            ),
            (
                !self.recursive
                    && (self.follow
                        || self.one_file_system
                        || self.unlisted.is_some()
                        || !self.include.is_empty()
                        || !self.exclude.is_empty()),
                "--include, --exclude, --follow, --one-file-system and --unlisted are meaningful only with -r",
            ),
            (
                self.algorithms.len() > 1 && self.binary == Some(false),
                "several digests are printed with --tag, which does not support --text mode",
            ),
            (self.strict && self.ignore_improper, "--strict cannot be used with --ignore-improper"),
            (
                self.zero && check && front_end == FrontEnd::Coreutils,
                "the --zero option is not supported when verifying checksums",
            ),
            (self.tag && check, "the --tag option is meaningless when verifying checksums"),
            (
                self.binary.is_some() && check,
                "the --binary and --text options are meaningless when verifying checksums",
            ),
        ];
        if let Some((_, message)) = refusals.iter().find(|(applies, _)| *applies) {
            return Err(message.as_bytes().to_vec());
        }
        let meaningful_with_check = [
            (self.ignore_improper, "ignore-improper"),
            (self.ignore_missing, "ignore-missing"),
            (self.status, "status"),
            (self.warn, "warn"),
            (self.quiet, "quiet"),
            (self.strict, "strict"),
        ];
        match meaningful_with_check.iter().find(|(given, _)| *given && !check) {
            Some((_, name)) => {
                Err(format!("the --{name} option is meaningful only when verifying checksums").into_bytes())
            }
            None => Ok(()),
        }
    }
}

fn glob(argument: Option<OsString>) -> Result<Option<OsString>, Vec<u8>> {
    match argument.as_ref().map(|glob| (glob, fast_glob::validate(glob.as_bytes()))) {
        Some((glob, Err(error))) => Err([b"'", glob.as_bytes(), format!("': {error}").as_bytes()].concat()),
        _ => Ok(argument),
    }
}

/// Parses the size of a part of an S3 upload: `whole`, bytes, or K, M or G (powers of 1024), at most 5 GiB.
fn part_size(text: &str) -> Option<PartSize> {
    if text == "whole" {
        return Some(PartSize::Whole);
    }
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << unit)?;
    (1..=5 << 30).contains(&bytes).then_some(PartSize::Bytes(bytes))
}
