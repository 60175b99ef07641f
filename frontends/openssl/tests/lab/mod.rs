//! Shared by the tests: the module under the name that programs load, configurations, and programs that run with them.

#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod groups;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::ops::Index;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gantry_lab::wait_until;
use gantry_runtime::stats::{PageReceiver, ReceivedPages, VARIABLE};

/// The lines of a section that sends all served requests to another device than the default provider.
pub(crate) const OFFLOADED: &str =
    "CIPHERS = ALL\nSIGNATURES = ALL\nKEY_EXCHANGE = ALL\nKDFS = ALL\nPOLICY = pin:software";

/// The lines of a section that serves every algorithm of the module, on the faster side. A device is named, because algorithms that cannot
/// gain would be omitted otherwise.
pub(crate) const EVERYTHING: &str =
    "CIPHERS = ALL\nSIGNATURES = ALL\nKEY_EXCHANGE = ALL\nKDFS = ALL\nDEVICES = lanes=on";

/// Returns a section with every algorithm, and `policy`.
pub(crate) fn everything(policy: &str) -> String {
    format!("{EVERYTHING}\n{policy}")
}

/// The lines of a section in which every cipher fails: programs that still work do not use the module.
pub(crate) const FAILED: &str = "CIPHERS = ALL\nSIGNATURES = NONE\nKEY_EXCHANGE = NONE\nKDFS = NONE\nFORCE_FAIL = yes";

/// A temporary folder with the module and configurations.
pub(crate) struct Lab {
    pub(crate) folder: PathBuf,
    /// Additional environment variables of programs.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Receives the statistics pages of the programs.
    page_receiver: Mutex<Option<PageReceiver>>,
}

impl Lab {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("gantry-openssl-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        // Cargo builds the module beside the tests.
        let module = std::env::current_exe().unwrap().with_file_name("libgantry_openssl.so");
        fs::copy(&module, folder.join("gantry.so")).unwrap_or_else(|error| panic!("{}: {error}", module.display()));
        Self { folder, variables: Vec::new(), page_receiver: Mutex::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        path
    }

    /// Writes a configuration with these lines in the provider's section.
    pub(crate) fn configuration(&self, section: &str) -> PathBuf {
        let module = self.path("gantry.so");
        let text = format!(
            "openssl_conf = init\nnodejs_conf = init\nnginx = init\n[init]\nproviders = providers\nalg_section = algorithms\n\
             random = random\n[providers]\ndefault = default_provider\ngantry = gantry_provider\n[default_provider]\n\
             activate = 1\n[gantry_provider]\nmodule = {}\nactivate = 1\n{section}\n[algorithms]\n\
             default_properties = ?provider=gantry,?gantry.serves=yes\n[random]\nproperties = ?provider=default,-gantry.serves\n",
            module.display()
        );
        let count = fs::read_dir(&self.folder).unwrap().count();
        self.write(&format!("{count}.cnf"), text)
    }

    /// Returns a command whose OpenSSL reads `configuration`, and whose Gantry reads `gantry/gantry.toml` here.
    pub(crate) fn command(&self, program: &str, configuration: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env("OPENSSL_CONF", configuration).env("XDG_CONFIG_HOME", &self.folder);
        command.envs(self.variables.iter().cloned());
        for variable in ["GANTRY_CONFIG", "GANTRY_DISABLE", VARIABLE] {
            command.env_remove(variable);
        }
        if let Some(page_receiver) = &*self.page_receiver.lock().unwrap() {
            command.env(VARIABLE, page_receiver.path());
        }
        command
    }

    /// Makes programs hand over their statistics, from now on.
    pub(crate) fn collect_statistics(&self) {
        self.page_receiver.lock().unwrap().get_or_insert_with(|| PageReceiver::begin(&self.folder).unwrap());
    }

    /// Returns the statistics that programs have handed over since [`collect_statistics`](Self::collect_statistics).
    pub(crate) fn take_statistics(&self) -> ReceivedPages {
        let taken = self.page_receiver.lock().unwrap().take().expect("watched").end().unwrap();
        fs::remove_file(self.path("socket")).unwrap();
        self.collect_statistics();
        taken
    }

    /// Runs a shell script with `configuration`, and returns its output.
    pub(crate) fn sh(&self, script: &str, configuration: &Path) -> Output {
        self.command("sh", configuration).args(["-ec", script]).stdin(Stdio::null()).output().unwrap()
    }

    /// Measures the algorithms of `names` as `gantry openssl config` does.
    pub(crate) fn measure(&self, section: &str, names: &str) {
        let mut list = self.command("openssl", &self.configuration(section));
        list.args(["list", "-providers"]).env("GANTRY_OPENSSL_MEASURE", names);
        assert!(list.env("GANTRY_OPENSSL_MEASURED", self.path("measured")).output().unwrap().status.success());
        assert!(self.path("measured").exists());
    }

    /// Starts a server with its output in the file `log`, and waits until it listens.
    pub(crate) fn serve(&self, command: &mut Command, port: u16) -> Server {
        let log = fs::File::create(self.path("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let server = Server(command.spawn().unwrap());
        wait_for(port);
        server
    }

    /// Returns the output of the last server.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Makes a self-signed certificate of a kind: `cert.pem` and `key.pem`.
    pub(crate) fn certificate(&self, kind: &str) {
        let script = format!(
            "openssl req -x509 -newkey {kind} -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
             -addext subjectAltName=DNS:localhost 2>&1"
        );
        let output = self.sh(&script, Path::new("/dev/null"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// Compiles a C program with this machine's libcrypto.
    pub(crate) fn compile(&self, source: &str) -> PathBuf {
        self.compile_with(source, &["-Wl,--no-as-needed".into(), "-lcrypto".into()])
    }

    /// Compiles a C program; `arguments` follow the source.
    pub(crate) fn compile_with(&self, source: &str, arguments: &[OsString]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let program = self.path("program");
        let mut compile = Command::new("cc");
        // Deprecated functions are used on purpose, as old programs do.
        compile
            .args(["-O1", "-pthread", "-Wno-deprecated-declarations", "-o"])
            .arg(&program)
            .arg(&source)
            .args(arguments);
        assert!(compile.status().unwrap().success(), "{}", source.display());
        program
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Runs `openssl s_server` and `openssl s_client`, each with its own configuration. The client sends a request, and the answer must equal
/// the file `answer`.
pub(crate) fn tls(lab: &Lab, server: &Path, client: &Path, arguments: &str) -> Result<(), String> {
    let port = port();
    let listen =
        format!("exec openssl s_server -quiet -accept 127.0.0.1:{port} -cert cert.pem -key key.pem -HTTP {arguments}");
    let mut serve = lab.command("sh", server);
    serve.args(["-c", &listen]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Server(serve.spawn().unwrap());
    wait_for(port);
    let ask = format!(
        "printf 'GET /answer HTTP/1.0\\r\\n\\r\\n' | timeout 60 openssl s_client -connect 127.0.0.1:{port} -CAfile cert.pem \
         -verify_return_error -quiet -ign_eof {arguments} 2>error | tail -c $(stat -c %s answer) >got; cmp got answer"
    );
    let output = lab.sh(&ask, client);
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{}{}", text(&output), fs::read_to_string(lab.path("error")).unwrap_or_default()))
    }
}

/// Returns the folder in which `scripts/evp-test` has built a release of OpenSSL.
pub(crate) fn openssl(series: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/evp-test");
    let built = Command::new(script).arg(series).output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    PathBuf::from(std::str::from_utf8(&built.stdout).unwrap().trim())
}

/// Returns the arguments that link a program with the libcrypto in the folder of a release: shared or static.
pub(crate) fn libcrypto(folder: &Path, shared: bool) -> Vec<OsString> {
    let folder = folder.to_str().unwrap();
    let headers = format!("-I{folder}/include");
    if shared {
        vec![headers.into(), format!("-L{folder}").into(), format!("-Wl,-rpath,{folder}").into(), "-lcrypto".into()]
    } else {
        vec![headers.into(), format!("{folder}/libcrypto.a").into(), "-ldl".into()]
    }
}

/// A program that is stopped when dropped.
pub(crate) struct Server(pub(crate) Child);

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM lets it stop its workers.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let begun = Instant::now();
        while self.0.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if the tests run as root.
pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

/// Returns a port of the loopback that was free a moment ago.
pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn wait_for(port: u16) {
    wait_until(&format!("a server listens on {port}"), || TcpStream::connect(("127.0.0.1", port)).is_ok());
}

/// Returns pseudorandom bytes.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(step).collect()
}

/// Requests and bytes by OpenSSL's algorithm names. For each direction: requests and bytes of the default provider, then requests and bytes
/// of devices.
#[derive(Debug, Default)]
pub(crate) struct Counters(HashMap<String, [u64; 8]>);

impl Counters {
    pub(crate) fn values(&self) -> impl Iterator<Item = &[u64; 8]> {
        self.0.values()
    }
}

impl Index<&str> for Counters {
    type Output = [u64; 8];

    fn index(&self, name: &str) -> &[u64; 8] {
        self.0.get(&name.to_uppercase()).unwrap_or(&[0; 8])
    }
}

/// Returns the counters of the last process that loaded the module.
pub(crate) fn counters(lab: &Lab) -> Counters {
    let page = lab.take_statistics().pages.pop().expect("the module was loaded");
    let mut counters = Counters::default();
    for row in page.read().unwrap().rows {
        let is_reverse = ["decrypt", "open", "verify"].contains(&&*row.operation);
        let index = 4 * usize::from(is_reverse) + 2 * usize::from(row.device.as_deref() != Some("host"));
        let numbers = counters.0.entry(openssl_name(&row.algorithm)).or_default();
        numbers[index] += row.requests;
        numbers[index + 1] += row.bytes;
    }
    counters
}

fn openssl_name(name: &str) -> String {
    name.to_uppercase()
}

/// Returns true if the module has modelled devices; otherwise the test is skipped with a message.
pub(crate) fn has_models() -> bool {
    let has_models = cfg!(feature = "model");
    if !has_models {
        gantry_lab::skip("modelled devices");
    }
    has_models
}

/// Returns true if a program is installed; otherwise the test is skipped with a message.
pub(crate) fn is_installed(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status().unwrap();
    if !found.success() {
        gantry_lab::skip(program);
    }
    found.success()
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
