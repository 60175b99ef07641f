//! The output of a command: a stream, or a file that appears when it is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::scratch::Scratch;
use super::sys;
use crate::failure::Failure;

/// Destination of a result.
pub(crate) enum Target {
    /// A pipe, a device, or standard output. Written immediately.
    Open { file: File, name: String },
    /// A file that gets its name once it is complete.
    Named { scratch: Scratch, path: PathBuf },
}

impl Target {
    pub(crate) fn new(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            let name = "standard output".to_owned();
            let file = sys::stdout().map_err(|error| Failure::at(&name, &error))?;
            return Ok(Target::Open { file, name });
        };
        let name = path.display().to_string();
        let failed = |error: io::Error| Failure::at(&name, &error);
        match std::fs::metadata(path) {
            Ok(data) if !data.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
                return Ok(Target::Open { file, name });
            }
            Ok(_) => {
                // A user without write access to the file must not replace it either.
                OpenOptions::new().write(true).open(path).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        // Replace the file, not a link to it.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let scratch = Scratch::new(folder).map_err(failed)?;
        Ok(Target::Named { scratch, path })
    }

    /// Writes the next piece of a result.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match self {
            Target::Open { file, .. } => file.write_all(bytes),
            Target::Named { scratch, .. } => scratch.file.write_all(bytes),
        };
        written.map_err(|error| self.failed(&error))
    }

    /// Publishes the complete result, and reports late write errors.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let name = self.name();
        let file = match self {
            Target::Open { file, .. } => Ok(file),
            Target::Named { scratch, path } => scratch.publish(&path),
        };
        file.and_then(sys::close).map_err(|error| Failure::at(name, &error))
    }

    fn name(&self) -> String {
        match self {
            Target::Open { name, .. } => name.clone(),
            Target::Named { path, .. } => path.display().to_string(),
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::at(self.name(), error)
    }
}
