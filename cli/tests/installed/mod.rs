//! The files of `make install`, and programs that use them.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gantry_lab::wait_until;
use serde_json::Value;

use crate::gantry::text;

/// Lines of the provider's section that enable all algorithms.
pub(crate) const EVERYTHING: &str =
    "CIPHERS = ALL\nSIGNATURES = ALL\nKEY_EXCHANGE = ALL\nKDFS = ALL\nDEVICES = lanes=on\n";

/// Returns lines of an earlier run of `gantry openssl config`, so that the next run does not measure.
pub(crate) fn earlier_lines() -> String {
    format!("# gantry: begin\n[gantry_provider]\n{EVERYTHING}# gantry: end\n")
}

/// A folder with the files of `make install` and of the tests; removed on drop.
pub(crate) struct Installed(pub(crate) PathBuf);

impl Installed {
    pub(crate) fn new(name: &str) -> Self {
        // Hard links need a folder on the file system of cargo's builds.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("openssl-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::create_dir_all(folder.join("lib/ossl-modules")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_gantry"), folder.join("bin/gantry")).unwrap();
        // Cargo builds the module beside the tests.
        let module = std::env::current_exe().unwrap().with_file_name("libgantry_openssl.so");
        fs::hard_link(module, folder.join("lib/ossl-modules/gantry.so")).unwrap();
        Self(folder)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn module(&self) -> PathBuf {
        self.0.join("lib/ossl-modules/gantry.so")
    }

    /// Writes a configuration that activates `module`, with these lines in its section.
    pub(crate) fn configuration(&self, module: &Path, section: &str) -> PathBuf {
        let text = format!(
            "openssl_conf = init\n[init]\nproviders = providers\nalg_section = algorithms\n[providers]\ndefault = host\n\
             gantry = gantry\n[host]\nactivate = 1\n[gantry]\nmodule = {}\nactivate = 1\n{section}\n[algorithms]\n\
             default_properties = ?provider=gantry,?gantry.serves=yes\n",
            module.display()
        );
        self.write("openssl.cnf", &text)
    }

    /// Prepares `gantry` with these arguments, under this OpenSSL configuration.
    pub(crate) fn command(&self, configuration: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0.join("bin/gantry"));
        for variable in
            ["GANTRY_CONFIG", "GANTRY_DEVICES", "GANTRY_POLICY", "GANTRY_STATS", "GANTRY_DISABLE", "COLUMNS"]
        {
            command.env_remove(variable);
        }
        command.current_dir(&self.0).env("XDG_CONFIG_HOME", "/nonexistent").env("OPENSSL_CONF", configuration);
        command.args(arguments);
        command
    }

    /// Returns the output of a command, which must succeed.
    pub(crate) fn says(&self, configuration: &Path, arguments: &[&str]) -> String {
        let output = self.command(configuration, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// Returns the report of `gantry advise` about a program, and checks that it ends with the program's status.
    pub(crate) fn advice(&self, configuration: &Path, program: &[&str]) -> String {
        let output = self.command(configuration, &[&["advise", "--"], program].concat()).output().unwrap();
        let (code, message) = (output.status.code().unwrap(), text(&output.stderr));
        assert!(message.contains(&format!(" ended with exit status: {code}.\n")), "{program:?}: {code} {message}");
        message
    }

    /// Returns the report of `gantry advise` or `gantry stat` about a program, as JSON.
    pub(crate) fn json(&self, configuration: &Path, arguments: &[&str], program: &[&str]) -> Value {
        let file = self.0.join("said.json");
        let options = ["--json", "--output", file.to_str().unwrap(), "--"];
        let output = self.command(configuration, &[arguments, &options, program].concat()).output().unwrap();
        assert!(output.status.success(), "{program:?}: {}", text(&output.stderr));
        serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    }

    /// Compiles a C program.
    pub(crate) fn compile(&self, source: &str, options: &[&str]) -> String {
        let (source, program) = (self.write("program.c", source), self.0.join("program"));
        let status = Command::new("cc").arg("-o").arg(&program).arg(source).args(options).status().unwrap();
        assert!(status.success(), "{options:?}");
        program.to_str().unwrap().to_owned()
    }
}

/// `openssl s_server` on the loopback with `cert.pem`; killed on drop.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
}

impl Installed {
    pub(crate) fn serve(&self) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
                    -addext subjectAltName=DNS:localhost";
        let made = Command::new("sh").args(["-c", make]).current_dir(&self.0).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        let mut serve = Command::new("openssl");
        serve.args(["s_server", "-quiet", "-www", "-cert", "cert.pem", "-key", "key.pem", "-accept"]);
        serve.arg(format!("127.0.0.1:{port}")).current_dir(&self.0).env("OPENSSL_CONF", "/dev/null");
        let process = serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { process, port };
        wait_until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// True if a program is installed; otherwise counts the test as skipped.
pub(crate) fn is_installed(program: &str) -> bool {
    let runs = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !runs {
        gantry_lab::skip(program);
    }
    runs
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the rest of the table's row that begins with these words.
pub(crate) fn row<'t>(table: &'t str, begins: &[&str]) -> Vec<&'t str> {
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = rows.find(|words| words.starts_with(begins));
    found.unwrap_or_else(|| panic!("no {begins:?} in\n{table}")).split_off(begins.len())
}
