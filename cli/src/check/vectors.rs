//! Source of Wycheproof's vectors: a file beside the program, a file of the installation, or the program itself.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use gantry_conformance::Vectors;
use gantry_runtime::bounded;
use serde::Serialize;

use crate::output::Failure;

/// The file that `gantry-vectors` writes.
const FILE_NAME: &str = "gantry-vectors.zlib";

/// Source of the vectors, or the reason why there are none. In JSON, it is an object with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VectorSource {
    /// A file, or "the program".
    From(String),
    /// There is no file. The string names the places where it could be.
    Missing(String),
    /// A file cannot be used. The string is the reason.
    Unusable(String),
}

impl fmt::Display for VectorSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorSource::From(path) => write!(f, "with Wycheproof's vectors, from {path}"),
            VectorSource::Missing(reason) | VectorSource::Unusable(reason) => {
                write!(f, "without Wycheproof's vectors: {reason}")
            }
        }
    }
}

/// Finds the vectors for the program at this path. A file takes precedence over vectors in the program.
pub(crate) fn find(program: io::Result<PathBuf>) -> (Vectors, VectorSource) {
    let candidate_paths = program.map(|program| candidate_paths(&program)).unwrap_or_default();
    for path in &candidate_paths {
        match read(path) {
            Ok(Some(vectors)) => return (vectors, VectorSource::From(path.display().to_string())),
            Ok(None) => {}
            Err(reason) => return (Vectors::none(), VectorSource::Unusable(reason)),
        }
    }
    // Do not ask the crate `gantry-conformance`: its tests enable the feature in a build of the whole workspace.
    if cfg!(feature = "more-vectors") {
        return (Vectors::default(), VectorSource::From("the program".to_owned()));
    }
    let candidate_paths: Vec<String> = candidate_paths.iter().map(|path| path.display().to_string()).collect();
    let missing = match &candidate_paths[..] {
        [] => "the path of the program is unknown".to_owned(),
        candidate_paths => format!("there is no {}", candidate_paths.join(", and no ")),
    };
    (Vectors::none(), VectorSource::Missing(missing))
}

/// Returns the places of the file: beside the program, and in its installation. The system has resolved links in `program`.
fn candidate_paths(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent();
    let installation = folder.and_then(Path::parent).map(|prefix| prefix.join("share/gantry"));
    folder.map(Path::to_owned).into_iter().chain(installation).map(|folder| folder.join(FILE_NAME)).collect()
}

/// Reads the vectors of a file, if it exists.
fn read(file: &Path) -> Result<Option<Vectors>, String> {
    let failed = |error| Failure::at(file.display(), &error).to_string();
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(format!("{}: not a regular file", file.display())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    }
    let packed = bounded::read(file).map_err(failed)?;
    Vectors::unpack(&packed).map(Some).map_err(|reason| format!("{}: {reason}", file.display()))
}
