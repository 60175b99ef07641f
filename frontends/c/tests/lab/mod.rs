//! A prefix with the library in it, and programs that are compiled and run against it.

#![allow(dead_code, reason = "each test uses its own part")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a program may find on a machine that has no other use for it.
const TOOLS: [&str; 4] = ["cc", "c++", "pkg-config", "nm"];

/// A folder of its own, removed at the end, with the library installed below `prefix`.
pub(crate) struct Lab {
    folder: PathBuf,
}

impl Lab {
    /// `None`, said and counted, where a program is missing.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if let Some(missing) = TOOLS.into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err()) {
            gantry_lab::skip(missing);
            return None;
        }
        let folder = std::env::temp_dir().join(format!("gantry-c-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let lab = Self { folder };
        build(&[], &lab.path("prefix"));
        Some(lab)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        path
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.path("prefix/lib/libgantry.so.0")
    }

    /// Compiles a program beside its source, with every warning an error.
    pub(crate) fn compile(&self, compiler: &str, standard: &str, source: &Path, more: &[&str]) {
        let pkgconfig = self.path("prefix/lib/pkgconfig");
        let flags =
            output(Command::new("pkg-config").env("PKG_CONFIG_PATH", pkgconfig).args(["--cflags", "--libs", "gantry"]));
        let mut command = Command::new(compiler);
        command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-g"]);
        command
            .arg(source)
            .args(more)
            .arg("-o")
            .arg(source.with_extension(""))
            .args(flags.split_whitespace())
            .arg("-pthread");
        output(&mut command);
    }

    /// One of the programs of the tests, compiled.
    pub(crate) fn test_program(&self, name: &str) -> PathBuf {
        let program = self.path(name);
        fs::copy(here("tests").join(name), &program).unwrap();
        let include = format!("-I{}", here("tests").display());
        let version = format!("-DVERSION=\"{}\"", env!("CARGO_PKG_VERSION"));
        // Each of them uses some of what they share.
        self.compile("cc", "c99", &program, &[&include, &version, "-Wno-unused-function"]);
        program
    }

    /// Runs a program that was compiled; what it printed.
    pub(crate) fn run(&self, source: &Path, arguments: &[&str]) -> String {
        output(self.command(source.with_extension("")).args(arguments))
    }

    /// A command that finds the library, and nothing that the user has configured.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GANTRY_")) {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", &self.folder).env("LD_LIBRARY_PATH", self.path("prefix/lib"));
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a command printed, which has to go well and to say nothing else.
pub(crate) fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{command:?}: {status}\n{}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// Links the library that cargo has built beside the tests, with `scripts/c-library`.
pub(crate) fn build(options: &[&str], folder: &Path) {
    let archive = std::env::current_exe().unwrap().with_file_name("libgantry_c.a");
    let mut command = Command::new(here("../../scripts/c-library"));
    let output = command.arg("--archive").arg(archive).args(options).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// A file of this crate.
pub(crate) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A page of the book.
pub(crate) fn book(page: &str) -> PathBuf {
    here("../../docs/src").join(page)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
