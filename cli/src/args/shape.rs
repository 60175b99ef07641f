//! The command line as help, manual pages and completions show it.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, CommandFactory, ValueHint};
use gantry_core::{Algorithm, Kind};
use gantry_runtime::{KEYS, PolicyChoice};

use super::Cli;
use super::sum::help::{AUDIT, AUDIT_EXAMPLES, BAG, BAG_EXAMPLES};
use super::sum::{FrontEnd, MORE_NAMES, rows};

/// Commands that do not read the configuration: its options are refused after them, and hidden in their help.
pub(super) const COMMANDS_WITHOUT_CONFIGURATION: &[&str] = &[
    "kernel",
    "advise",
    "openssl",
    "exporter",
    "esp status",
    "esp exec",
    "esp clear",
    "top",
    "config keys",
    "config path",
    "completions",
    "manual",
];

/// Commands that use no device: of the configuration they read only the number of threads and the limit of CPU instructions.
const COMMANDS_WITHOUT_DEVICES: &[&str] = &["verity", "torrent"];

/// Returns the command on which an option of the configuration has no effect, if `path` is that command or below it.
pub(super) fn command_without(option: &str, path: &str) -> Option<&'static str> {
    let commands = if option == "set" { &[] } else { COMMANDS_WITHOUT_DEVICES };
    let holds = |above: &&&str| path.strip_prefix(**above).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    COMMANDS_WITHOUT_CONFIGURATION.iter().chain(commands).find(holds).copied()
}

/// Returns the command line for parsing.
pub(super) fn command_to_parse() -> Command {
    hide_ineffective_settings(Cli::command())
}

/// Returns the command line with its complete documentation.
pub(crate) fn documented_command() -> Command {
    hide_ineffective_settings(command_with_sum())
}

/// Hides the options of the configuration where they have no effect. They are still parsed, so that a message can say so.
fn hide_ineffective_settings(root: Command) -> Command {
    let hidden: Vec<Arg> = settings(&root).map(|option| option.hide(true)).collect();
    let root = COMMANDS_WITHOUT_CONFIGURATION
        .iter()
        .chain(&["sum", "sum audit", "sum bag"])
        .fold(root, |root, path| with_options(root, path.split(' '), &hidden));
    let of_devices: Vec<Arg> = hidden.into_iter().filter(|option| option.get_id() != "set").collect();
    COMMANDS_WITHOUT_DEVICES.iter().fold(root, |root, path| with_options(root, path.split(' '), &of_devices))
}

/// Returns the command line for completions: without hidden commands, and with known values of arguments.
pub(crate) fn completion_command() -> Command {
    let root = command_with_sum();
    let options: Vec<Arg> = settings(&root).map(|option| with_values("", option.global(false))).collect();
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set());
    let commands = commands.map(|command| completed_command(command.clone(), "", &options));
    Command::new("gantry").version(env!("CARGO_PKG_VERSION")).args(options.iter().cloned()).subcommands(commands)
}

fn completed_command(command: Command, above: &str, options: &[Arg]) -> Command {
    let name = command.get_name().to_owned();
    let path = if above.is_empty() { name.clone() } else { format!("{above} {name}") };
    let is_sum = path.split(' ').next() == Some("sum");
    let takes_options = !command.has_subcommands() && !is_sum;
    let options_here = options.iter().filter(|option| command_without(option.get_id().as_str(), &path).is_none());
    let command = command
        .mut_args(|argument| with_values(&name, argument))
        .mut_subcommands(|sub| completed_command(sub, &path, options));
    if takes_options { command.args(options_here.cloned()) } else { command }
}

/// Lists the known values of an argument. Leaks them: the program ends after printing the completions.
fn with_values(command: &str, argument: Arg) -> Arg {
    let kinds: &[Kind] = match command {
        "sum" | "audit" | "bag" => &[Kind::Digest],
        "crypt" => &[Kind::Cipher, Kind::Aead],
        _ => &[],
    };
    let algorithms = || {
        let fits = |algorithm: &&Algorithm| kinds.is_empty() || kinds.contains(&algorithm.info().kind);
        let more = if kinds == [Kind::Digest] { MORE_NAMES } else { [].as_slice() };
        Algorithm::ALL.iter().filter(fits).map(|algorithm| algorithm.name()).chain(more.iter().copied()).collect()
    };
    let devices = || gantry_runtime::devices().map(|(name, _)| name);
    let values: Vec<&'static str> = match argument.get_id().as_str() {
        "algorithm" | "algorithms" => algorithms(),
        "device" => devices().collect(),
        "name" if command == "devices" => devices().collect(),
        "devices" => devices()
            .flat_map(|name| [format!("{name}=on").leak(), format!("{name}=off").leak()])
            .map(|value| &*value)
            .collect(),
        "policy" => PolicyChoice::NAMES.to_vec(),
        // The examples of gantry.toml, as arguments.
        "set" => KEYS.iter().map(|key| &*key.example.replace(" = ", "=").replace('"', "").leak()).collect(),
        "command" => return argument.value_hint(ValueHint::CommandWithArguments),
        _ => return argument,
    };
    argument.value_parser(PossibleValuesParser::new(values))
}

/// Returns the options of the configuration, which are accepted before and after every command.
fn settings(root: &Command) -> impl Iterator<Item = Arg> {
    root.get_arguments().filter(|option| option.is_global_set()).cloned()
}

/// Adds options to the command at the end of `path`, if it exists.
fn with_options<'a>(command: Command, mut path: impl Iterator<Item = &'a str>, options: &[Arg]) -> Command {
    match path.next() {
        None => command.args(options.iter().cloned()),
        Some(name) if command.find_subcommand(name).is_some() => {
            command.mut_subcommand(name, |sub| with_options(sub, path, options))
        }
        Some(_) => command,
    }
}

/// Returns the command line with the options of `sum`, which parses its arguments itself, as getopt would.
fn command_with_sum() -> Command {
    Cli::command().mut_subcommand("sum", |_| {
        Command::new("sum")
            .about("Print or verify digests of files")
            .long_about(
                "Print or verify digests of files. Options, output, messages and exit status are those of sha256sum, and \
                 many files are read in parallel. A link to this program named md5sum, sha1sum, sha224sum, sha256sum, sha384sum \
                 or sha512sum acts as that tool. Options of the configuration stand before sum: \
                 gantry --policy pin:software sum FILE. With --parts or --etag, -a is md5 (default), sha1, sha256, crc32 or \
                 crc32c; with --parts whole, also crc64nvme.",
            )
            .after_help(EXAMPLES_OF_SUM)
            .disable_help_flag(true)
            .disable_help_subcommand(true)
            .args(options(FrontEnd::Gantry))
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .num_args(0..)
                    .value_hint(ValueHint::FilePath)
                    .help("Files to read; - is standard input [default: -, or . with -r]"),
            )
            .subcommand(audit())
            .subcommand(bag())
    })
}

/// Returns a text without line ends in paragraphs, because clap wraps lines by itself.
fn unwrapped(text: &str) -> String {
    let paragraphs: Vec<String> = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    paragraphs.join("\n\n")
}

fn bag() -> Command {
    let folder = Arg::new("folder").value_name("DIR").required(true).value_hint(ValueHint::DirPath);
    Command::new("bag")
        .about("Turn a folder into a BagIt bag")
        .long_about(unwrapped(BAG))
        .after_help(BAG_EXAMPLES)
        .disable_help_flag(true)
        .args(options(FrontEnd::Bag))
        .arg(folder.help("Folder whose files move to DIR/data"))
}

fn audit() -> Command {
    let manifest = Arg::new("manifest").value_name("MANIFEST").required(true).value_hint(ValueHint::AnyPath);
    let folder = Arg::new("folder").value_name("DIR").value_hint(ValueHint::DirPath);
    Command::new("audit")
        .about("Compare a folder with a list of digests")
        .long_about(unwrapped(AUDIT))
        .after_help(AUDIT_EXAMPLES)
        .disable_help_flag(true)
        .args(options(FrontEnd::Audit))
        .arg(manifest.help("Checksum file, or BagIt bag"))
        .arg(folder.help("Folder to compare with it [default: .]"))
}

/// Returns the options of a front end.
fn options(front_end: FrontEnd) -> impl Iterator<Item = Arg> {
    rows(front_end).map(move |row| {
        let only_with = if row.only_with_check && front_end != FrontEnd::Audit { " (with --check)" } else { "" };
        let mut option = Arg::new(row.long).long(row.long).help(format!("{}{only_with}", row.help(front_end)));
        if let Some(letter) = row.short {
            option = option.short(letter);
        }
        match row.argument {
            Some(argument) => option.value_name(argument),
            None => option.action(ArgAction::SetTrue),
        }
    })
}

const EXAMPLES_OF_SUM: &str = "\
Examples:
  gantry sum *.iso > SHA256SUMS             write a checksum file
  gantry sum -c SHA256SUMS                  verify a checksum file of any kind
  gantry sum -r -a sha256 -a sha512 photos  all files in a folder, two digests, each file read once
  gantry sum audit sums photos              compare the folder with the list

Exit status: 0 if every file was read (and matched, with --check), otherwise 1.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        for shape in [Cli::command(), documented_command(), completion_command()] {
            shape.debug_assert();
        }
    }

    #[test]
    fn every_command_without_a_configuration_exists() {
        let root = documented_command();
        for path in COMMANDS_WITHOUT_CONFIGURATION {
            let found = path.split(' ').try_fold(&root, |command, name| command.find_subcommand(name));
            assert!(found.is_some(), "{path}");
        }
    }
}
