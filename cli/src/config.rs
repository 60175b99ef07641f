//! `gantry config`: shows the configuration and the origin of each value.

use gantry_runtime::{Origin, files, sample};
use serde::Serialize;

use crate::args::{ConfigArgs, ConfigCommand, Settings};
use crate::output::{Failure, Output};
use crate::table::Table;

pub(crate) fn run(args: &ConfigArgs, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    match args.command {
        ConfigCommand::Show { json } => show(settings, json, output),
        ConfigCommand::Keys => output.write(&sample()),
        ConfigCommand::Path => output.write(&paths()),
    }
}

/// A key with its value, in the JSON.
#[derive(Serialize)]
struct Row {
    key: String,
    value: String,
    /// `default`, `file`, `variable` or `argument`.
    origin: &'static str,
    /// The file, variable or argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

fn show(settings: &Settings, json: bool, output: &mut Output) -> Result<(), Failure> {
    let config = settings.config()?;
    let shown = config.show();
    // Opening also checks the names of devices.
    gantry_runtime::open(config)?;
    if json {
        let row = |shown: gantry_runtime::ShownSetting| {
            let (origin, from, line) = match shown.origin {
                Origin::Default => ("default", None, None),
                Origin::File { path, line } => ("file", Some(path.display().to_string()), Some(line)),
                Origin::Variable(name) => ("variable", Some(name), None),
                Origin::Argument(text) => ("argument", Some(text), None),
            };
            Row { key: shown.key, value: shown.value, origin, from, line }
        };
        return output.json(&shown.into_iter().map(row).collect::<Vec<_>>());
    }
    let mut table = Table::new(&["KEY", "VALUE", "ORIGIN"], &[]);
    for shown in shown {
        table.add_row([shown.key, shown.value, shown.origin.to_string()]);
    }
    output.write(&table.render())
}

fn paths() -> String {
    let line = |file: gantry_runtime::File| {
        let state = if file.path.exists() { "" } else { " (not there)" };
        format!("{}{state}\n", file.path.display())
    };
    files().into_iter().map(line).collect()
}
