//! A host with a data path that serves `ip xfrm`, and pairs of hosts.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gantry_esp::{Options, Server, parse_network};
use gantry_lab::wait_until;
use gantry_runtime::Config;
use serde_json::Value;

use crate::namespace::Namespace;

/// A time limit for events that take milliseconds.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(20);
/// The environment variable with the [`Plan`] of a data path in a child process, as JSON.
const PLAN_VARIABLE: &str = "GANTRY_TEST_DATA_PATH";

/// The setup of a data path, as far as tests differ.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queues: usize,
    /// The MTU of the device in bytes.
    pub(crate) mtu: u32,
    pub(crate) protect: Vec<&'static str>,
    /// Keys and values of the device configuration.
    pub(crate) configuration: Vec<(&'static str, &'static str)>,
    /// A program, with arguments, that executes the data path.
    pub(crate) under: Vec<String>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { queues: 1, mtu: 1400, protect: Vec::new(), configuration: Vec::new(), under: Vec::new() }
    }
}

/// One end of the tunnel. Dropping it ends its data path.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    /// The addresses outside the tunnel: IPv4, then IPv6.
    pub(crate) outer: [IpAddr; 2],
    /// The addresses inside the tunnel: IPv4, then IPv6.
    pub(crate) inner: [IpAddr; 2],
    /// The device to the other host.
    pub(crate) device: &'static str,
    folder: PathBuf,
    data_path: Option<Child>,
}

impl Host {
    /// Creates host 1 or 2, with its inner addresses and without a link.
    fn new(number: u16) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("gantry-tunnel-{}-{count}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let namespace = Namespace::new();
        let outer = [format!("10.{number}.0.{number}"), format!("fd0{number}::{number}")];
        let inner = [format!("10.1{number}.0.1"), format!("fd1{number}::1")];
        let address = |text: &String| text.parse().unwrap();
        let (outer, inner) = (outer.each_ref().map(address), inner.each_ref().map(address));
        namespace.ip(&format!("address add {}/32 dev lo", inner[0]));
        namespace.ip(&format!("address add {}/128 dev lo nodad", inner[1]));
        let device = if number == 1 { "va" } else { "vb" };
        Self { namespace, outer, inner, device, folder, data_path: None }
    }

    /// Gives the link device its addresses, and routes everything over a router, which may be the other host.
    fn connect(&self, routers: [IpAddr; 2]) {
        let Self { namespace, outer, device, .. } = self;
        for ((address, bits), router) in outer.iter().zip([24, 64]).zip(routers) {
            let nodad = if bits == 64 { "nodad" } else { "" };
            namespace.ip(&format!("address add {address}/{bits} dev {device} {nodad}"));
            let family = if bits == 64 { "-6" } else { "-4" };
            namespace.ip(&format!("{family} route add default via {router} dev {device} onlink"));
        }
    }

    /// Starts a data path, and waits until it answers.
    pub(crate) fn serve(&mut self, plan: &Plan) {
        let Plan { queues, mtu, protect, configuration, under } = plan;
        let plan = serde_json::json!({
            "queues": queues, "mtu": mtu, "protect": protect, "configuration": configuration, "folder": self.folder
        });
        let program = std::env::current_exe().unwrap();
        let mut words = under.iter().map(Into::into).chain([program.into_os_string()]);
        let mut command = Command::new(words.next().unwrap());
        let log = File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        command
            .args(words)
            .args(["--exact", "--include-ignored", "--nocapture", "host::a_data_path_answers_and_ends"])
            .env(PLAN_VARIABLE, plan.to_string())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let child = self.namespace.enter(|| command.spawn()).expect("the test program runs again");
        let child = self.data_path.insert(child);
        let start = Instant::now();
        while status(&self.folder).is_none() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "the data path has ended: {}", log());
            assert!(start.elapsed() < EVENT_TIMEOUT, "the data path does not answer: {}", log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.data_path.take().expect("there is a data path");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns the host's folder, with the sockets of its data path.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the process ID of the data path.
    pub(crate) fn process(&self) -> u32 {
        self.data_path.as_ref().expect("there is a data path").id()
    }

    pub(crate) fn status(&self) -> Value {
        status(&self.folder).expect("the data path answers")
    }

    /// Returns the status as this thread's user sees it; `None` without an answer.
    pub(crate) fn try_status(&self) -> Option<Value> {
        status(&self.folder)
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.status()["counters"][name].as_u64().unwrap_or_else(|| panic!("there is no counter {name}"))
    }

    /// Waits until a counter has a value.
    pub(crate) fn await_counter(&self, name: &str, value: u64) {
        wait_until(&format!("{name} is {value}"), || self.counter(name) == value);
    }

    /// Builds a command `ip xfrm`; arguments are separated by spaces, and `""` is an empty one.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let library = std::env::current_exe().unwrap().with_file_name("libgantry_xfrm.so");
        assert!(library.exists(), "cargo builds the library of this package before its tests");
        let mut command = Command::new("ip");
        command.arg("xfrm").args(arguments.split_whitespace().map(|word| word.trim_matches('"')));
        command.env("LD_PRELOAD", library).env("GANTRY_XFRM", self.folder.join("xfrm"));
        command
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Child {
        self.namespace.enter(|| command.spawn()).unwrap()
    }

    fn output(&self, arguments: &str) -> Output {
        self.namespace.enter(|| self.command(arguments).output()).unwrap()
    }

    /// Runs `ip xfrm`, which must succeed. Returns the output.
    pub(crate) fn xfrm(&self, arguments: &str) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "ip xfrm {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `ip -s xfrm`, and joins the lines of each counter.
    pub(crate) fn statistics(&self, arguments: &str) -> String {
        let mut command = Command::new("ip");
        let plain = self.command(arguments);
        command.arg("-s").args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = self.namespace.enter(|| command.output()).unwrap();
        String::from_utf8(output.stdout).unwrap().replace("\n\t  ", " ")
    }

    /// Runs `ip xfrm`, which must fail. Returns the error text.
    pub(crate) fn refused(&self, arguments: &str) -> String {
        let output = self.output(arguments);
        assert!(!output.status.success(), "ip xfrm {arguments} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Runs many `ip xfrm` commands in one process. Stops at the first error.
    pub(crate) fn xfrm_batch(&self, commands: &str) {
        let file = self.folder.join("batch");
        fs::write(&file, commands).unwrap();
        let mut command = self.command("");
        // Only `ip` has an option for batch files, not `ip xfrm`.
        let mut batch = Command::new("ip");
        batch.arg("-batch").arg(file).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command = batch;
        let output = self.namespace.enter(|| command.output()).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(status) = status(&self.folder)
        {
            let _ = std::io::stderr().write_all(format!("{}: {status}\n", self.device).as_bytes());
        }
        if let Some(mut child) = self.data_path.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let _ = std::io::stderr().write_all(format!("{} said: {log}\n", self.device).as_bytes());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Two hosts, the ends of a tunnel.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) a: Host,
    pub(crate) b: Host,
}

impl Pair {
    /// Creates two hosts with one link and no data path.
    pub(crate) fn linked() -> Self {
        let (a, b) = (Host::new(1), Host::new(2));
        a.namespace.join(a.device, &b.namespace, b.device);
        a.connect(b.outer);
        b.connect(a.outer);
        Self { a, b }.await_neighbours()
    }

    /// Creates two hosts with a router between them, whose devices are `ra` and `rb`.
    pub(crate) fn routed() -> (Self, Namespace) {
        let (a, b, router) = (Host::new(1), Host::new(2), Namespace::new());
        a.namespace.join(a.device, &router, "ra");
        b.namespace.join(b.device, &router, "rb");
        for (device, v4, v6) in [("ra", "10.1.0.254/24", "fd01::fe/64"), ("rb", "10.2.0.254/24", "fd02::fe/64")] {
            router.ip(&format!("address add {v4} dev {device}"));
            router.ip(&format!("address add {v6} dev {device} nodad"));
        }
        router.sysctl("ipv4/ip_forward", "1");
        router.sysctl("ipv6/conf/all/forwarding", "1");
        a.connect(["10.1.0.254", "fd01::fe"].map(|router| router.parse().unwrap()));
        b.connect(["10.2.0.254", "fd02::fe"].map(|router| router.parse().unwrap()));
        (Self { a, b }.await_neighbours(), router)
    }

    /// Waits until the hosts know their neighbours: packets that wait for neighbour discovery may be dropped.
    fn await_neighbours(self) -> Self {
        for to in self.b.outer {
            wait_until("the hosts reach each other", || self.a.ping("-W 0.2", to).0 == 1);
        }
        self
    }

    /// Creates two hosts with one link, and data paths of one plan.
    pub(crate) fn with_data_paths(plan: &Plan) -> Self {
        let mut pair = Self::linked();
        pair.serve(plan);
        pair
    }

    pub(crate) fn serve(&mut self, plan: &Plan) {
        self.a.serve(plan);
        self.b.serve(plan);
    }
}

fn status(folder: &Path) -> Option<Value> {
    let mut text = String::new();
    UnixStream::connect(folder.join("status")).ok()?.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// In a child process this test becomes the data path.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_data_path_answers_and_ends() {
    if let Ok(plan) = std::env::var(PLAN_VARIABLE) {
        run(&serde_json::from_str(&plan).unwrap());
    }
    let mut pair = Pair::linked();
    pair.a.serve(&Plan::default());
    assert_eq!(pair.a.status()["device"], "gantry0");
    assert_eq!(pair.a.status()["guarded"], true, "the kernel has nf_tables");
    assert!(pair.a.namespace.ip("link show").contains("gantry0"));
    pair.a.kill();
    assert!(!pair.a.namespace.ip("link show").contains("gantry0"));
}

/// Runs a data path until the test closes the other end of the standard input.
fn run(plan: &Value) -> ! {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut config = Config::default();
    for setting in plan["configuration"].as_array().unwrap() {
        config.set(setting[0].as_str().unwrap(), setting[1].as_str().unwrap(), "the test").unwrap();
    }
    let protect = plan["protect"].as_array().unwrap();
    let options = Options {
        queues: plan["queues"].as_u64().unwrap() as usize,
        mtu: plan["mtu"].as_u64().unwrap() as u32,
        protected: protect.iter().map(|text| parse_network(text.as_str().unwrap()).unwrap()).collect(),
        folder: plan["folder"].as_str().unwrap().into(),
        ..Options::default()
    };
    let Err(failed) = Server::new(gantry_runtime::open(config).unwrap(), options).and_then(Server::run);
    panic!("{failed}");
}
