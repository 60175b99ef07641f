//! Runs programs with more rights than their caller, after the caller has prepared files and variables.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::fmt;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::statvfs::{FsFlags, statvfs};

/// The UID of the caller, the user `nobody`.
pub(crate) const CALLER: u32 = 65534;

/// The rights of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// The program has the rights of its caller.
    Plain,
    /// The file belongs to root, and has mode 4755.
    SetUser,
    /// The file belongs to root and root's group, and has mode 2755.
    SetGroup,
    /// The file has a capability.
    Capability,
}

impl Rights {
    pub(crate) const ALL: [Rights; 4] = [Rights::Plain, Rights::SetUser, Rights::SetGroup, Rights::Capability];
}

/// Root's folder with the libraries and programs, on a file system that honours set-user-ID bits and capabilities.
pub(crate) struct Lab {
    folder: PathBuf,
    homes: AtomicU32,
}

impl Lab {
    /// Returns `None`, and reports a skipped test, if something is missing.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            gantry_lab::skip("root");
            return None;
        }
        let missing = ["cc", "setcap"].into_iter().find(|tool| !is_installed(tool));
        if let Some(tool) = missing {
            gantry_lab::skip(tool);
            return None;
        }
        let Some(parent) =
            ["/var/lib", "/opt", env!("CARGO_TARGET_TMPDIR")].into_iter().find(|path| gives_rights(path))
        else {
            gantry_lab::skip("file system that gives programs rights");
            return None;
        };
        let folder = Path::new(parent).join(format!("gantry-hostile-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        DirBuilder::new().mode(0o755).create(&folder).unwrap();
        for part in ["bin", "root"] {
            DirBuilder::new().mode(0o755).create(folder.join(part)).unwrap();
        }
        Some(Self { folder, homes: AtomicU32::new(0) })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// Creates a home that belongs to the caller.
    pub(crate) fn home(&self) -> Home {
        let number = self.homes.fetch_add(1, Ordering::Relaxed);
        Home::new(self.path(&format!("home-{number}")), CALLER)
    }

    /// Creates a home that belongs to root.
    pub(crate) fn home_of_root(&self) -> Home {
        let number = self.homes.fetch_add(1, Ordering::Relaxed);
        Home::new(self.path(&format!("home-{number}")), 0)
    }

    /// Copies a program and gives the copy these rights.
    pub(crate) fn copy_with_rights(&self, program: &Path, rights: Rights) -> PathBuf {
        let name = program.file_name().unwrap().to_str().unwrap();
        let copy = self.path(&format!("bin/{name}.{rights:?}"));
        gantry_lab::copy_program(program, &copy);
        let mode = match rights {
            Rights::SetUser => 0o4755,
            Rights::SetGroup => 0o2755,
            _ => 0o755,
        };
        fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
        if rights == Rights::Capability {
            run_checked(Command::new("setcap").arg("cap_net_bind_service+ep").arg(&copy));
        }
        copy
    }

    /// Compiles a C program; `add_libraries` adds the libraries.
    fn compile(&self, name: &str, add_libraries: impl FnOnce(&mut Command)) -> PathBuf {
        let program = self.path(name);
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        add_libraries(compile.arg(source(name)));
        run_checked(&mut compile);
        program
    }

    /// Compiles the program that uses `libgantry.so.0`.
    pub(crate) fn compile_c_program(&self) -> PathBuf {
        let prefix = self.path("prefix");
        let mut build = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/c-library"));
        run_checked(build.arg("--archive").arg(built_library("libgantry_c.a")).arg(&prefix));
        let libraries = prefix.join("lib");
        self.compile("open", |compile| {
            compile.arg("-I").arg(prefix.join("include")).arg("-L").arg(&libraries).arg("-lgantry");
            compile.arg(format!("-Wl,-rpath,{}", libraries.display()));
        })
    }

    /// Compiles the program that uses libcrypto, and writes the configuration with which libcrypto loads the provider.
    pub(crate) fn compile_provider_program(&self, setting: &str) -> (PathBuf, PathBuf) {
        let module = self.path("gantry.so");
        fs::copy(built_library("libgantry_openssl.so"), &module).unwrap();
        let configuration = format!(
            "openssl_conf = init\n[init]\nproviders = providers\nalg_section = algorithms\n\
             [providers]\ndefault = default_provider\ngantry = gantry_provider\n[default_provider]\nactivate = 1\n\
             [gantry_provider]\nmodule = {}\nactivate = 1\nCIPHERS = ALL\nDEVICES = lanes=on\n{setting}\n\
             [algorithms]\ndefault_properties = ?provider=gantry,?gantry.serves=yes\n",
            module.display()
        );
        let program = self.compile("provider", |compile| {
            compile.arg("-lcrypto");
        });
        (program, self.write("openssl.cnf", configuration))
    }

    /// Compiles the program that is linked with the library for XFRM.
    pub(crate) fn compile_xfrm_program(&self) -> PathBuf {
        let library = self.path("libgantry_xfrm.so");
        fs::copy(built_library("libgantry_xfrm.so"), &library).unwrap();
        self.compile("xfrm", |compile| {
            compile.arg("-Wl,--no-as-needed").arg(library);
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a program as a user, with these variables and umask 0.
pub(crate) fn run(user: u32, program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> ProgramOutput {
    run_after("", user, program, arguments, variables)
}

/// Runs shell commands, then [`run`]s the program in the same process.
pub(crate) fn run_after(
    before: &str,
    user: u32,
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> ProgramOutput {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("umask 0\n{before}\nexec \"$0\" \"$@\"")).arg(program).args(arguments);
    command.env_clear().env("PATH", "/usr/bin:/bin").envs(variables.iter().copied()).current_dir("/");
    ProgramOutput::new(command.uid(user).gid(user).output().unwrap())
}

/// The output of a program, followed by its exit status.
pub(crate) struct ProgramOutput(String);

impl ProgramOutput {
    pub(crate) fn new(Output { status, stdout, stderr }: Output) -> Self {
        let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self(format!("{out}{err}{status}"))
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}

impl fmt::Display for ProgramOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A folder with a configuration that names a shim, and room for caches, statistics and sockets.
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
    owner: u32,
}

impl Home {
    fn new(folder: PathBuf, owner: u32) -> Self {
        let home = Self { folder, owner };
        for part in ["", ".config", ".config/gantry", "cache", "stats", "tmp"] {
            let path = home.path(part);
            DirBuilder::new().mode(0o755).create(&path).unwrap();
            home.give_to_owner(&path);
        }
        run_checked(
            Command::new("cc")
                .args(["-shared", "-fPIC", "-o"])
                .arg(home.path("shim.so"))
                .arg(source("shim"))
                .arg(format!("-DMARKER=\"{}\"", home.path("loaded").display())),
        );
        fs::set_permissions(home.path("shim.so"), Permissions::from_mode(0o644)).unwrap();
        home.give_to_owner(&home.path("shim.so"));
        home.configure(&home.path("shim.so"));
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.folder.clone() } else { self.folder.join(name) }
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn give_to_owner(&self, path: &Path) {
        chown(path, Some(self.owner), Some(self.owner)).unwrap();
    }

    /// Writes a configuration that names this shim.
    pub(crate) fn configure(&self, shim: &Path) {
        let text = format!("[devices]\ndpdk = [\"crypto_openssl\"]\n[dpdk]\nshim = \"{}\"\n", shim.display());
        self.write(".config/gantry/gantry.toml", &text);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        self.give_to_owner(&path);
    }

    /// Lets all users write to a file and run it.
    pub(crate) fn open_to_all(&self, name: &str) {
        fs::set_permissions(self.path(name), Permissions::from_mode(0o777)).unwrap();
    }

    /// Returns whether the shim was loaded.
    pub(crate) fn is_loaded(&self) -> bool {
        self.path("loaded").exists()
    }

    /// Returns all paths below a folder.
    pub(crate) fn paths_below(&self, folder: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut todo = vec![self.path(folder)];
        while let Some(folder) = todo.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    todo.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found
    }
}

/// Returns the path of a library that cargo built into the folder of the tests.
pub(crate) fn built_library(name: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(name)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"))
}

fn is_installed(tool: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", tool]).output();
    found.is_ok_and(|found| found.status.success())
}

fn gives_rights(path: &str) -> bool {
    let refused = FsFlags::ST_NOSUID | FsFlags::ST_NOEXEC;
    statvfs(path).is_ok_and(|system| !system.flags().intersects(refused))
}

pub(crate) fn run_checked(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
