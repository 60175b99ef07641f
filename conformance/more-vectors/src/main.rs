//! `gantry-vectors FILE` writes the vectors for `gantry check`. It replaces FILE atomically: an error leaves FILE unchanged.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(file), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: gantry-vectors FILE, such as gantry-vectors.zlib");
        return ExitCode::from(2);
    };
    let file = Path::new(&file);
    match write(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gantry-vectors: {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}

fn write(file: &Path) -> io::Result<()> {
    let mut temporary = OsString::from(file);
    temporary.push(format!(".{}", std::process::id()));
    let done = fs::write(&temporary, gantry_vectors::PACKED).and_then(|()| fs::rename(&temporary, file));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}
