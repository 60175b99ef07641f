//! Files and pipes that a command reads and writes: standard input and output by default.

mod read;
mod scratch;
pub(crate) mod sys;
mod target;
mod whole_file;

use std::fs::File;
use std::io;
use std::path::Path;

use crate::failure::Failure;

pub(crate) use read::{read_full, read_up_to};
pub(crate) use target::Target;
pub(crate) use whole_file::{PUBLIC_MODE, replace, write_new};

/// A source of data, with its name for messages.
pub(crate) struct Input {
    pub(crate) file: File,
    pub(crate) name: String,
}

impl Input {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let (file, name) = match path {
            Some(path) => (File::open(path), path.display().to_string()),
            None => (sys::stdin(), "standard input".to_owned()),
        };
        match file {
            Ok(file) => Ok(Self { file, name }),
            Err(error) => Err(Failure::at(name, &error)),
        }
    }

    pub(crate) fn failed(&self, error: &io::Error) -> Failure {
        Failure::at(&self.name, error)
    }
}
