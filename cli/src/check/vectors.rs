//! Where `gantry check` has Wycheproof's vectors from: a file beside the program, the folder of an installation, or the program itself.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use gantry_conformance::Vectors;
use gantry_runtime::bounded;
use serde::Serialize;

use crate::output::Failure;

/// The file that `gantry-vectors` writes.
const NAME: &str = "gantry-vectors.zlib";

/// Where they are from, or why there are none. In JSON an object with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// A file, or "the program".
    From(String),
    /// There is no file, and where it was looked for.
    Missing(String),
    /// There is a file that cannot be used, and why not.
    Unusable(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::From(place) => write!(f, "with Wycheproof's vectors, from {place}"),
            Source::Missing(why) | Source::Unusable(why) => write!(f, "without Wycheproof's vectors: {why}"),
        }
    }
}

/// The vectors of the program that lies at this path. A file comes before the vectors in the program.
pub(crate) fn find(program: io::Result<PathBuf>) -> (Vectors, Source) {
    let places = program.map(|program| places(&program)).unwrap_or_default();
    for place in &places {
        match read(place) {
            Ok(Some(vectors)) => return (vectors, Source::From(place.display().to_string())),
            Ok(None) => {}
            Err(why) => return (Vectors::none(), Source::Unusable(why)),
        }
    }
    // Not what the crate has: in a build of the whole workspace its tests ask for them.
    if cfg!(feature = "more-vectors") {
        return (Vectors::default(), Source::From("the program".to_owned()));
    }
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let missing = match &places[..] {
        [] => "the system does not say where the program lies".to_owned(),
        places => format!("there is no {}", places.join(", and no ")),
    };
    (Vectors::none(), Source::Missing(missing))
}

/// Beside the program, as cargo builds it, and in the installation that it is a part of. The system has resolved links.
fn places(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent();
    let installation = folder.and_then(Path::parent).map(|prefix| prefix.join("share/gantry"));
    folder.map(Path::to_owned).into_iter().chain(installation).map(|folder| folder.join(NAME)).collect()
}

/// The vectors of a file, if there is one.
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
    Vectors::unpack(&packed).map(Some).map_err(|why| format!("{}: {why}", file.display()))
}
