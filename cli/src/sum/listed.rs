//! The files that a checksum file names: `--unlisted LIST`.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::console::reason;
use super::lists::{ListParser, ParsedLine};

/// Absolute paths of the files, links and folders that a list names.
pub(super) struct Listed(HashSet<PathBuf>);

impl Listed {
    /// Reads a list.
    ///
    /// # Errors
    /// Describes a list that cannot be read, or that has a line that is not understood.
    pub(super) fn read(list: &OsStr) -> Result<Self, String> {
        let path = Path::new(list);
        let at = |error: io::Error| format!("{}: {}", path.display(), reason(&error));
        let mut parser = ListParser::any(Vec::new(), false);
        let mut lines = parser.lines(File::open(path).map_err(at)?).map_err(at)?;
        parser.begin(list);
        let (mut line, mut number, mut names) = (Vec::new(), 0, HashSet::new());
        while let Some(whole) = lines.next(&mut line).map_err(at)? {
            number += 1;
            let name = match if whole { parser.line(&line) } else { ParsedLine::Improper } {
                ParsedLine::Blank => continue,
                ParsedLine::File(expected) => expected.name,
                ParsedLine::Special(name, _) => name,
                ParsedLine::Improper => {
                    return Err(format!("{}: {number}: improperly formatted checksum line", path.display()));
                }
            };
            names.insert(absolute(Path::new(OsStr::from_bytes(&name))));
        }
        Ok(Self(names))
    }

    /// True if the list names this file.
    pub(super) fn contains(&self, name: &OsStr) -> bool {
        self.0.contains(&absolute(Path::new(name)))
    }
}

/// Returns the absolute path, without `.` and `..`.
pub(super) fn absolute(path: &Path) -> PathBuf {
    normalized(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Returns the path without `.`, and without `..` after a name.
pub(super) fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
