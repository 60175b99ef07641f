use std::fs;
use std::path::Path;

use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use gantry_runtime::KEYS;

use crate::args::{Manual, documented};
use crate::output::{Failure, Output};

pub(crate) fn completions(shell: Shell, output: &mut Output) -> Result<(), Failure> {
    output.write(&String::from_utf8_lossy(&completion(shell)))
}

pub(crate) fn write(args: &Manual, _output: &mut Output) -> Result<(), Failure> {
    if let Some(folder) = &args.completions {
        for (shell, name) in [(Shell::Bash, "gantry.bash"), (Shell::Zsh, "_gantry"), (Shell::Fish, "gantry.fish")] {
            write_file(folder, name, &completion(shell))?;
        }
    }
    if let Some(folder) = &args.man {
        for (name, page) in pages() {
            write_file(folder, &name, &page)?;
        }
    }
    Ok(())
}

fn write_file(folder: &Path, name: &str, content: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, content))
        .map_err(|error| Failure::at(path.display(), &error))
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut documented(), "gantry", &mut script);
    script
}

/// gantry(1) and one page for each command, with their file names.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut root = documented().disable_help_subcommand(true);
    root.build();
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set());
    let mut pages: Vec<(String, Vec<u8>)> =
        commands.map(|command| (format!("gantry-{}.1", command.get_name()), page(command, |_| ()))).collect();
    pages.push(("gantry.1".to_owned(), page(&root, configuration)));
    pages
}

/// One page: what clap knows, then `more`, then what its help ends with.
fn page(command: &clap::Command, more: impl Fn(&mut Roff)) -> Vec<u8> {
    let man = Man::new(command.clone());
    let name = command.get_display_name().unwrap_or(command.get_name());
    // Man would leave out the empty date, and with it put the version into its place.
    let mut page =
        format!(".TH {name} 1 \"\" \"gantry {}\" \"Gantry Manual\"\n", env!("CARGO_PKG_VERSION")).into_bytes();
    let mut rest = Roff::new();
    more(&mut rest);
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, status) = help.split_once("\n\n").unwrap_or((&help, ""));
    if let Some(examples) = examples.strip_prefix("Examples:\n") {
        rest.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines() {
            rest.text([roman(line)]);
        }
        rest.control("fi", []);
    }
    if let Some(status) = status.strip_prefix("Exit status: ") {
        rest.control("SH", ["EXIT STATUS"]).text([roman(status)]);
    }
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

/// The section about configuration, from the table of keys.
fn configuration(page: &mut Roff) {
    page.control("SH", ["KEYS"]);
    page.text([roman("What can be configured, and the variable that sets it:")]);
    for key in KEYS {
        page.control("TP", []).text([bold(key.name), roman(", "), bold(key.variable())]);
        page.text([roman(format!("{} Accepts {}. Default: {}.", key.doc, key.accepts, key.default))]);
    }
    page.control("SH", ["FILES"]);
    page.text([roman("Read in this order, so that what comes later wins; then variables, then arguments:")]);
    for file in [
        "/etc/gantry/gantry.toml",
        "$XDG_CONFIG_HOME/gantry/gantry.toml (~/.config)",
        "the file named by GANTRY_CONFIG",
    ] {
        page.control("TP", []).text([roman(file)]);
    }
}
