//! Manual pages and completions, generated from the definition of the command line.

use std::fs;
use std::path::Path;

use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use gantry_core::Algorithm;
use gantry_runtime::KEYS;

use crate::args::sum::{FrontEnd, OptionRow, rows};
use crate::args::{Manual, completion_command, documented_command};
use crate::output::{Failure, Output};
use crate::sum::TOOLS;

/// Folder of the command's pages, below PREFIX.
const PAGES_FOLDER: &str = "share/man/man1";
/// Folder of the pages of the *sum tools. `man` finds it if the folder of the tools precedes that of coreutils in PATH.
const TOOL_PAGES_FOLDER: &str = "lib/gantry/share/man/man1";
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/gantry"),
    (Shell::Zsh, "share/zsh/site-functions/_gantry"),
    (Shell::Fish, "share/fish/vendor_completions.d/gantry.fish"),
];

pub(crate) fn completions(shell: Shell, output: &mut Output) -> Result<(), Failure> {
    output.write(&String::from_utf8_lossy(&completion(shell)))
}

/// Writes all files below a folder that stands for PREFIX.
pub(crate) fn write(args: &Manual, _output: &mut Output) -> Result<(), Failure> {
    let mut root = documented_command().disable_help_subcommand(true);
    root.build();
    let mut files = vec![("share/man/man5/gantry.toml.5".to_owned(), config_page())];
    add_pages(&root, &mut files);
    for (name, algorithm) in TOOLS {
        files.push((format!("{TOOL_PAGES_FOLDER}/{name}.1"), tool_page(name, algorithm)));
    }
    files.extend(COMPLETIONS.map(|(shell, path)| (path.to_owned(), completion(shell))));
    for (path, content) in files {
        let path = args.folder.join(path);
        write_file(&path, &content).map_err(|error| Failure::at(path.display(), &error))?;
    }
    Ok(())
}

fn write_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, content)
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut completion_command(), "gantry", &mut script);
    script
}

/// Adds a page for a command and for each of its subcommands.
fn add_pages(command: &clap::Command, files: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    files.push((format!("{PAGES_FOLDER}/{name}.1"), page(name, command)));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        add_pages(sub, files);
    }
}

/// Formats one page: clap's sections, then the examples and notes that follow the help, then references.
fn page(name: &str, command: &clap::Command) -> Vec<u8> {
    let man = Man::new(command.clone());
    let mut page = title(name, 1);
    let mut rest = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, more) = help.split_once("\n\n").unwrap_or((&help, ""));
    if let Some(examples) = examples.strip_prefix("Examples:\n") {
        literal(&mut rest, "EXAMPLES", examples);
    }
    if let Some(status) = more.strip_prefix("Exit status: ") {
        rest.control("SH", ["EXIT STATUS"]).text([roman(status)]);
    } else if !more.is_empty() {
        rest.control("SH", ["NOTES"]).text([roman(more)]);
    }
    let above = name.rsplit_once('-').map(|(above, _)| (above, 1));
    see_also(&mut rest, above.into_iter().chain([("gantry.toml", 5)]));
    // Writing to memory does not fail.
    let _ = man.render_name_section(&mut page);
    let _ = man.render_synopsis_section(&mut page);
    let _ = man.render_description_section(&mut page);
    let _ = man.render_options_section(&mut page);
    if command.has_subcommands() {
        let _ = man.render_subcommands_section(&mut page);
    }
    let _ = rest.to_writer(&mut page);
    page
}

/// Formats gantry.toml(5) from the table of keys.
fn config_page() -> Vec<u8> {
    let mut page = Roff::new();
    page.control("SH", ["NAME"]).text([roman("gantry.toml - configuration of Gantry")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "The command, programs written for Gantry, and the OpenSSL provider read this configuration. All of it is optional. \
         The files are TOML. They are read in this order, and later ones override earlier ones. Variables override the files, \
         and arguments of gantry(1) override the variables:",
    )]);
    for file in [
        "/etc/gantry/gantry.toml",
        "$XDG_CONFIG_HOME/gantry/gantry.toml (~/.config)",
        "the file that GANTRY_CONFIG names",
    ] {
        page.control("TP", []).text([roman(file)]);
    }
    page.control("SH", ["KEYS"]);
    for key in KEYS {
        page.control("TP", []).text([bold(key.name), roman(" (variable "), bold(key.variable()), roman(")")]);
        page.text([roman(format!("{} Accepts {}. Default: {}.", key.doc, key.accepts, key.default))]);
    }
    let examples: Vec<&str> = KEYS.iter().map(|key| key.example).collect();
    literal(&mut page, "EXAMPLES", &examples.join("\n"));
    see_also(&mut page, [("gantry", 1), ("gantry-config", 1)]);
    [title("gantry.toml", 5), page.to_roff().into_bytes()].concat()
}

/// Formats the page of sha256sum or another tool from the table of options.
fn tool_page(name: &str, algorithm: Algorithm) -> Vec<u8> {
    let bits = 8 * algorithm.info().tag.max;
    let mut page = Roff::new();
    page.control("SH", ["NAME"]).text([roman(format!("{name} - print or verify {bits}-bit digests of files"))]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold(name), roman(" ["), italic("OPTION"), roman("]... ["), italic("FILE"), roman("]...")]);
    page.control("SH", ["DESCRIPTION"]).text([roman(format!(
        "{name} of Gantry replaces {name} of GNU coreutils 9.1: the same options, output, messages and exit status. It reads \
         many files at once. With no FILE, or when FILE is -, it reads standard input."
    ))]);
    let (checking, general): (Vec<&OptionRow>, Vec<_>) = rows(FrontEnd::Coreutils).partition(|row| row.only_with_check);
    for (heading, rows) in [("OPTIONS", general), ("OPTIONS WITH --check", checking)] {
        page.control("SH", [heading]);
        for row in rows {
            let mut names = vec![bold(format!("--{}", row.long))];
            if let Some(letter) = row.short {
                names.splice(0..0, [bold(format!("-{letter}")), roman(", ")]);
            }
            page.control("TP", []).text(names).text([roman(row.help(FrontEnd::Coreutils))]);
        }
    }
    page.control("SH", ["EXIT STATUS"]);
    page.text([roman("0 if every file was read (and matched, with --check), otherwise 1.")]);
    see_also(&mut page, [("gantry-sum", 1), ("gantry.toml", 5)]);
    [title(name, 1), page.to_roff().into_bytes()].concat()
}

/// Formats the header of a page, without a date, so that builds are reproducible.
fn title(name: &str, section: u8) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {name} {section} \"\" \"gantry {version}\" \"Gantry Manual\"\n").into_bytes()
}

/// Adds a section with literal lines.
fn literal(page: &mut Roff, heading: &str, text: &str) {
    page.control("SH", [heading]).control("nf", []);
    for line in text.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
}

fn see_also<'a>(page: &mut Roff, pages: impl IntoIterator<Item = (&'a str, u8)>) {
    let mut line = Vec::new();
    for (name, section) in pages {
        let comma = if line.is_empty() { "" } else { ", " };
        line.extend([roman(comma), bold(name), roman(format!("({section})"))]);
    }
    page.control("SH", ["SEE ALSO"]).text(line);
}
