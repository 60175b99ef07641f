//! The command line as help, manual pages and completions show it.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, CommandFactory, ValueHint};
use gantry::{Algorithm, Kind};
use gantry_runtime::{DEVICES, KEYS, PolicyChoice};

use super::Cli;
use crate::sum::options::{Front, rows};

/// The commands that the configuration has no influence on: its options are refused after them, and not shown.
pub(super) const UNCONFIGURED: &[&str] = &[
    "kernel",
    "reproduce",
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

/// The one of them that a command is, or is part of.
pub(super) fn unconfigured(path: &str) -> Option<&'static str> {
    let holds = |above: &&&str| path.strip_prefix(**above).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    UNCONFIGURED.iter().find(holds).copied()
}

/// The command line as it is read.
pub(super) fn accepted() -> Command {
    hidden_where_they_do_not_count(Cli::command())
}

/// The command line with everything that there is to say about it.
pub(crate) fn documented() -> Command {
    hidden_where_they_do_not_count(described())
}

/// The options of the configuration are taken everywhere, so that a message can say where they change nothing.
fn hidden_where_they_do_not_count(root: Command) -> Command {
    let hidden: Vec<Arg> = settings(&root).map(|option| option.hide(true)).collect();
    UNCONFIGURED.iter().chain(&["sum"]).fold(root, |root, path| with_options(root, path.split(' '), &hidden))
}

/// The command line as shells complete it: without hidden commands, and with the names that arguments may have.
pub(crate) fn completed() -> Command {
    let root = described();
    let options: Vec<Arg> = settings(&root).map(|option| with_values("", option.global(false))).collect();
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set());
    let commands = commands.map(|command| completed_command(command.clone(), "", &options));
    Command::new("gantry").version(env!("CARGO_PKG_VERSION")).args(options.iter().cloned()).subcommands(commands)
}

fn completed_command(command: Command, above: &str, options: &[Arg]) -> Command {
    let name = command.get_name().to_owned();
    let path = if above.is_empty() { name.clone() } else { format!("{above} {name}") };
    let takes_options = !command.has_subcommands() && name != "sum" && unconfigured(&path).is_none();
    let command = command
        .mut_args(|argument| with_values(&name, argument))
        .mut_subcommands(|sub| completed_command(sub, &path, options));
    if takes_options { command.args(options.iter().cloned()) } else { command }
}

/// An argument with the values that are known beforehand. They live as long as the program, which ends when it has said them.
fn with_values(command: &str, argument: Arg) -> Arg {
    let kinds: &[Kind] = match command {
        "sum" => &[Kind::Digest],
        "crypt" => &[Kind::Cipher, Kind::Aead],
        _ => &[],
    };
    let algorithms = || {
        let fits = |algorithm: &&Algorithm| kinds.is_empty() || kinds.contains(&algorithm.info().kind);
        Algorithm::ALL.iter().filter(fits).map(|algorithm| algorithm.name()).collect()
    };
    let devices = || DEVICES.iter().map(|(name, _)| *name);
    let values: Vec<&'static str> = match argument.get_id().as_str() {
        "algorithm" | "algorithms" => algorithms(),
        // That of `esp serve` is a network device.
        "device" if command != "serve" => devices().collect(),
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

/// The options that are taken before and after every command.
fn settings(root: &Command) -> impl Iterator<Item = Arg> {
    root.get_arguments().filter(|option| option.is_global_set()).cloned()
}

/// Adds options to the command at the end of a path, if there is one.
fn with_options<'a>(command: Command, mut path: impl Iterator<Item = &'a str>, options: &[Arg]) -> Command {
    match path.next() {
        None => command.args(options.iter().cloned()),
        Some(name) if command.find_subcommand(name).is_some() => {
            command.mut_subcommand(name, |sub| with_options(sub, path, options))
        }
        Some(_) => command,
    }
}

/// The command line with the options of `sum`, which `sum` itself reads as getopt would.
fn described() -> Command {
    Cli::command().mut_subcommand("sum", |_| {
        let options = rows(Front::Gantry).map(|row| {
            let help = if row.checking { format!("{} (with --check)", row.help) } else { row.help.to_owned() };
            let mut option = Arg::new(row.long).long(row.long).help(help);
            if let Some(letter) = row.short {
                option = option.short(letter);
            }
            match row.argument {
                Some(argument) => option.value_name(argument),
                None => option.action(ArgAction::SetTrue),
            }
        });
        Command::new("sum")
            .about("Print or verify digests of files")
            .long_about(
                "Print or verify digests of files, as sha256sum and its kin do: the same options, output, messages and \
                 exit status, many files at once. Under the names md5sum, sha1sum, sha224sum, sha256sum, sha384sum and \
                 sha512sum (links to this program) it is one of them. Options of the configuration stand before the \
                 command: gantry --policy pin:software sum FILE.",
            )
            .disable_help_flag(true)
            .args(options)
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .num_args(0..)
                    .value_hint(ValueHint::FilePath)
                    .help("Files to read; standard input where there is none, and for -"),
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        for shape in [Cli::command(), documented(), completed()] {
            shape.debug_assert();
        }
    }

    #[test]
    fn every_command_without_a_configuration_exists() {
        let root = documented();
        for path in UNCONFIGURED {
            if cfg!(feature = "model") || *path != "reproduce" {
                assert!(
                    path.split(' ').try_fold(&root, |command, name| command.find_subcommand(name)).is_some(),
                    "{path}"
                );
            }
        }
    }
}
