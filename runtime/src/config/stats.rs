//! The setting of published statistics.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The environment variable with the path of a socket. A command that watches a process sets it, and the process sends its page there.
pub const VARIABLE: &str = "GANTRY_WATCH";

/// The choice for the publication of statistics. A process with elevated rights publishes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatsChoice {
    /// In a page of memory, but not under a system call filter: the filter may end the process for creating the page.
    #[default]
    Auto,
    /// Nowhere, unless a command watches the process (`GANTRY_WATCH`).
    Off,
    /// In a page, even under a filter.
    On,
    /// As [`StatsChoice::Auto`], and in a file in this folder. The file remains after the end of the process.
    Folder(PathBuf),
}

impl StatsChoice {
    /// The syntax of all choices.
    pub(crate) const ACCEPTED: &str = "auto, off, on or the absolute path of a folder";
}

impl FromStr for StatsChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(StatsChoice::Auto),
            "off" => Ok(StatsChoice::Off),
            "on" => Ok(StatsChoice::On),
            path if Path::new(path).is_absolute() => Ok(StatsChoice::Folder(path.into())),
            _ => Err(()),
        }
    }
}

impl fmt::Display for StatsChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsChoice::Auto => f.write_str("auto"),
            StatsChoice::Off => f.write_str("off"),
            StatsChoice::On => f.write_str("on"),
            StatsChoice::Folder(path) => path.display().fmt(f),
        }
    }
}
