//! Installs the library below a prefix, and compiles and runs programs with it.

#![allow(dead_code, reason = "each test uses its own part")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Tools that a machine may lack.
const TOOLS: [&str; 4] = ["cc", "c++", "pkg-config", "nm"];

/// A temporary folder with the library installed below `prefix`.
pub(crate) struct Lab {
    folder: PathBuf,
}

impl Lab {
    /// Returns `None` if a tool is missing; the test then counts as skipped.
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

    /// Compiles one of the tests' programs.
    pub(crate) fn test_program(&self, name: &str) -> PathBuf {
        let program = self.path(name);
        fs::copy(crate_path("tests").join(name), &program).unwrap();
        let include = format!("-I{}", crate_path("tests").display());
        let version = format!("-DVERSION=\"{}\"", env!("CARGO_PKG_VERSION"));
        // Each program uses only some of the shared functions.
        self.compile("cc", "c99", &program, &[&include, &version, "-Wno-unused-function"]);
        program
    }

    /// Runs a compiled program, and returns its output.
    pub(crate) fn run(&self, source: &Path, arguments: &[&str]) -> String {
        output(self.command(source.with_extension("")).args(arguments))
    }

    /// Returns a command that finds the library, and ignores the user's configuration.
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

/// Returns a command's output. It must succeed and print nothing to standard error.
pub(crate) fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{command:?}: {status}\n{}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// Links the library that cargo built beside the tests, with `scripts/c-library`.
pub(crate) fn build(options: &[&str], folder: &Path) {
    let archive = std::env::current_exe().unwrap().with_file_name("libgantry_c.a");
    let mut command = Command::new(crate_path("../../scripts/c-library"));
    let output = command.arg("--archive").arg(archive).args(options).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Returns the path of a file of this crate.
pub(crate) fn crate_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

pub(crate) fn book_page(page: &str) -> PathBuf {
    crate_path("../../docs/src").join(page)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
