//! Command-line options, read as `getopt_long` reads them: clusters, abbreviations, permutation.
//!
//! Pure: nothing here touches the world, so every refusal can be tested as a value.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Which front the options are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// A coreutils name (`sha256sum`): their options and nothing else.
    Coreutils,
    /// `gantry sum`: their options and our own.
    Gantry,
}

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Digest or check.
    Run(Box<Options>),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// The options of one run.
#[derive(Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one switch of the command line each")]
pub(crate) struct Options {
    /// `-a`: the algorithm's name (only `gantry sum`).
    pub(crate) algorithm: Option<OsString>,
    /// `-b` or `-t`; the default is text.
    pub(crate) binary: Option<bool>,
    /// `-c`: the operands are checksum files.
    pub(crate) check: bool,
    /// `--ignore-missing`.
    pub(crate) ignore_missing: bool,
    /// `--progress` (only `gantry sum`).
    pub(crate) progress: bool,
    /// `--quiet`: no OK lines.
    pub(crate) quiet: bool,
    /// `--status`: nothing on stdout, no warnings.
    pub(crate) status: bool,
    /// `--strict`: an improper line is a failure.
    pub(crate) strict: bool,
    /// `--tag`: BSD-style lines.
    pub(crate) tag: bool,
    /// `-w`: name every improper line.
    pub(crate) warn: bool,
    /// `-z`: NUL ends a line, names are not escaped.
    pub(crate) zero: bool,
    /// Files, in the order given; `-` when none was.
    pub(crate) operands: Vec<OsString>,
}

/// One row of the option table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The long name, without dashes.
    pub(crate) long: &'static str,
    /// The short letter.
    pub(crate) short: Option<char>,
    /// The argument's name, for options that take one.
    pub(crate) argument: Option<&'static str>,
    /// One line of help.
    pub(crate) help: &'static str,
    /// Only useful with `--check`.
    pub(crate) checking: bool,
    /// Absent under the coreutils names.
    pub(crate) ours: bool,
    switch: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    Algorithm,
    Binary,
    Check,
    Help,
    IgnoreMissing,
    Progress,
    Quiet,
    Status,
    Strict,
    Tag,
    Text,
    Version,
    Warn,
    Zero,
}

const fn row(long: &'static str, short: Option<char>, switch: Switch, help: &'static str) -> Row {
    Row { long, short, argument: None, help, checking: false, ours: false, switch }
}

/// An option that is meaningful only with `--check`.
const fn checking(long: &'static str, short: Option<char>, switch: Switch, help: &'static str) -> Row {
    Row { checking: true, ..row(long, short, switch, help) }
}

/// Every option. The order is that of coreutils, because `getopt_long` lists candidates of an ambiguous abbreviation in
/// it; ours follow.
pub(crate) const TABLE: &[Row] = &[
    row("check", Some('c'), Switch::Check, "read checksums from the FILEs and verify them"),
    checking("ignore-missing", None, Switch::IgnoreMissing, "pass over files that do not exist"),
    checking("quiet", None, Switch::Quiet, "print no OK for files that match"),
    checking("status", None, Switch::Status, "print nothing, the exit status tells"),
    checking("warn", Some('w'), Switch::Warn, "name each improperly formatted line"),
    checking("strict", None, Switch::Strict, "fail when a line is improperly formatted"),
    row("tag", None, Switch::Tag, "print BSD-style lines"),
    row("zero", Some('z'), Switch::Zero, "end lines with NUL and do not escape names"),
    row("binary", Some('b'), Switch::Binary, "mark lines as read in binary mode"),
    row("text", Some('t'), Switch::Text, "mark lines as read in text mode (default)"),
    row("help", None, Switch::Help, "print this help and exit"),
    row("version", None, Switch::Version, "print the version and exit"),
    Row {
        ours: true,
        argument: Some("NAME"),
        ..row("algorithm", Some('a'), Switch::Algorithm, "the digest (default sha256); see `gantry algorithms`")
    },
    Row { ours: true, ..row("progress", None, Switch::Progress, "show bytes, rate and time left on the terminal") },
];

/// The rows that exist under `front`.
pub(crate) fn rows(front: Front) -> impl Iterator<Item = &'static Row> + Clone {
    TABLE.iter().filter(move |row| front == Front::Gantry || !row.ours)
}

/// Reads the arguments after the program's name.
///
/// With `posixly_correct` the first operand ends the options, otherwise options may follow operands.
///
/// # Errors
/// The diagnostic, without the program's name, as bytes: it quotes what the user typed. It is followed by a pointer to
/// `--help`.
pub(crate) fn parse(front: Front, args: Vec<OsString>, posixly_correct: bool) -> Result<Action, Vec<u8>> {
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
            let (row, attached) = find_long(front, long)?;
            let argument = match (row.argument.is_some(), attached) {
                (false, None) => None,
                (false, Some(_)) => return Err(format!("option '--{}' doesn't allow an argument", row.long).into()),
                (true, Some(value)) => Some(OsString::from_vec(value.to_vec())),
                (true, None) => Some(
                    args.next().ok_or_else(|| format!("option '--{}' requires an argument", row.long).into_bytes())?,
                ),
            };
            if let Some(action) = options.set(row.switch, argument) {
                return Ok(action);
            }
            continue;
        }
        let mut cluster = &bytes[1..];
        while let Some((&letter, rest)) = cluster.split_first() {
            cluster = rest;
            let Some(row) = rows(front).find(|row| row.short == Some(char::from(letter))) else {
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
            if let Some(action) = options.set(row.switch, argument) {
                return Ok(action);
            }
        }
    }
    options.refuse_contradictions()?;
    if options.operands.is_empty() {
        options.operands.push("-".into());
    }
    Ok(Action::Run(Box::new(options)))
}

/// The row that `typed` (a long option without its dashes) names or abbreviates, and the value after `=`.
fn find_long(front: Front, typed: &[u8]) -> Result<(&'static Row, Option<&[u8]>), Vec<u8>> {
    let (name, value) = match typed.iter().position(|&b| b == b'=') {
        Some(at) => (&typed[..at], Some(&typed[at + 1..])),
        None => (typed, None),
    };
    if let Some(row) = rows(front).find(|row| row.long.as_bytes() == name) {
        return Ok((row, value));
    }
    let candidates: Vec<_> = rows(front).filter(|row| row.long.as_bytes().starts_with(name)).collect();
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
    /// Applies one switch; `Some` when it ends the reading of options.
    fn set(&mut self, switch: Switch, argument: Option<OsString>) -> Option<Action> {
        match switch {
            Switch::Algorithm => self.algorithm = argument,
            Switch::Binary => self.binary = Some(true),
            Switch::Check => self.check = true,
            Switch::Help => return Some(Action::Help),
            Switch::IgnoreMissing => self.ignore_missing = true,
            Switch::Progress => self.progress = true,
            // Of these three the last one given counts.
            Switch::Quiet => (self.quiet, self.status, self.warn) = (true, false, false),
            Switch::Status => (self.quiet, self.status, self.warn) = (false, true, false),
            Switch::Warn => (self.quiet, self.status, self.warn) = (false, false, true),
            Switch::Strict => self.strict = true,
            Switch::Tag => (self.tag, self.binary) = (true, Some(true)),
            Switch::Text => self.binary = Some(false),
            Switch::Version => return Some(Action::Version),
            Switch::Zero => self.zero = true,
        }
        None
    }

    fn refuse_contradictions(&self) -> Result<(), Vec<u8>> {
        let check = self.check;
        let refusals = [
            (self.tag && self.binary == Some(false), "--tag does not support --text mode"),
            (self.zero && check, "the --zero option is not supported when verifying checksums"),
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
