//! A gateway: a network namespace with a data path and a daemon; and pairs of gateways with a link.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use gantry_lab::wait_until;
use serde_json::Value;

use crate::data_path;
use crate::namespace::Namespace;
use crate::traffic::Stream;
use crate::wire::Wire;

const CHARON: &str = "/usr/lib/ipsec/charon";

/// The ESP implementation of a gateway, and the Debian release of its charon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) esp: Esp,
    pub(crate) debian: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Esp {
    Gantry,
    /// strongSwan's own implementation, kernel-libipsec.
    Libipsec,
    /// The implementation of Linux, in a guest.
    #[allow(dead_code, reason = "used by the tests in guests")]
    Kernel,
}

/// Gantry's ESP under this machine's charon: strongSwan 5.9 on Debian 12.
pub(crate) const GANTRY_12: Kind = Kind { esp: Esp::Gantry, debian: 12 };
/// Gantry's ESP under charon of Debian 13: strongSwan 6.0.
pub(crate) const GANTRY_13: Kind = Kind { esp: Esp::Gantry, debian: 13 };
pub(crate) const LIBIPSEC_12: Kind = Kind { esp: Esp::Libipsec, debian: 12 };
pub(crate) const LIBIPSEC_13: Kind = Kind { esp: Esp::Libipsec, debian: 13 };

/// Returns whether the prerequisites of `kinds` are installed. Reports and counts missing prerequisites.
pub(crate) fn is_possible(kinds: &[Kind]) -> bool {
    let programs = [(CHARON, "charon"), ("/usr/sbin/swanctl", "swanctl"), ("/usr/bin/tcpdump", "tcpdump")];
    let missing = programs.iter().find(|(path, _)| !Path::new(path).exists()).map(|(_, name)| *name);
    let missing = missing.or_else(|| (!is_root()).then_some("root"));
    let needs_fresh = kinds.iter().any(|kind| kind.debian == 13);
    let missing = missing.or_else(|| (needs_fresh && fresh_debian(13, "ike").is_none()).then_some("fresh Debian"));
    missing.into_iter().for_each(gantry_lab::skip);
    missing.is_none()
}

/// Returns Gantry's ESP under each available charon.
pub(crate) fn charons() -> impl Iterator<Item = Kind> {
    [GANTRY_12, GANTRY_13].into_iter().filter(|kind| is_possible(&[*kind]))
}

pub(crate) fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// Returns the folder of a minimal Debian with more programs (`scripts/fresh-debian`); `None` if the archive cannot be reached.
pub(crate) fn fresh_debian(debian: u8, with: &str) -> Option<PathBuf> {
    // One caller at a time: later callers find the folder that the first caller has made.
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let script = repository.join("scripts/fresh-debian");
    let output = Command::new(script).args([&debian.to_string(), with]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || output.status.code() == Some(3), "{errors}");
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().into())
}

/// The setup of a test's daemons. Strings are lines of their configuration files.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// For the outer addresses and for the inner addresses: true if they are IPv6.
    pub(crate) v6: [bool; 2],
    /// Names and proposals of the first gateway's children, all for the same addresses. The second gateway has the first child with
    /// all proposals, because a responder selects by address.
    pub(crate) children: Vec<(String, String)>,
    /// Lines in `charon { }`.
    pub(crate) charon: &'static str,
    /// Lines of the first gateway: in the connection, and in each child.
    pub(crate) first: [&'static str; 2],
    /// Lines of the second gateway: in the connection, and in each child.
    pub(crate) second: [&'static str; 2],
    /// Lines at the end of the file.
    pub(crate) sections: &'static str,
    /// Traffic selectors of the first gateway and of the second. `None` stands for the gateways' own inner addresses.
    pub(crate) traffic_selectors: Option<[&'static str; 2]>,
    /// Destinations that the data paths protect in any case.
    pub(crate) protect: Vec<&'static str>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            v6: [false, false],
            children: vec![("net".to_owned(), "aes128gcm16".to_owned())],
            charon: "install_routes = no",
            first: ["", ""],
            second: ["", ""],
            sections: "",
            traffic_selectors: None,
            protect: Vec::new(),
        }
    }
}

/// A gateway. Dropping it ends its processes.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) kind: Kind,
    /// The number of the gateway. 1 is the second gateway, which uses the second part of a plan; 0 and higher numbers use the first part.
    number: usize,
    pub(crate) namespace: Namespace,
    pub(crate) folder: PathBuf,
    protect: Vec<&'static str>,
    data_path: Option<Child>,
    daemon: Option<Child>,
}

impl Gateway {
    pub(crate) fn new(number: usize, kind: Kind) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("gantry-daemons-{}-{count}", std::process::id()));
        fs::create_dir_all(folder.join("esp")).unwrap();
        let namespace = Namespace::new();
        namespace.ip(&format!("address add {}/32 dev lo", inner(number, false)));
        namespace.ip(&format!("address add {}/128 dev lo nodad", inner(number, true)));
        Self { kind, number, namespace, folder, protect: Vec::new(), data_path: None, daemon: None }
    }

    /// Adds the gateway's outer addresses to the device of the link, `wire`.
    pub(crate) fn connect(&self) {
        self.namespace.ip(&format!("address add {}/24 dev wire", outer(self.number, false)));
        self.namespace.ip(&format!("address add {}/64 dev wire nodad", outer(self.number, true)));
    }

    /// Returns the gateway's address inside the tunnel.
    pub(crate) fn inner(&self, is_v6: bool) -> IpAddr {
        inner(self.number, is_v6)
    }

    /// Starts the daemon, after the data path if this gateway uses Gantry's ESP. Waits until both answer.
    pub(crate) fn start(&mut self) {
        if self.kind.esp == Esp::Gantry {
            self.start_data_path();
        }
        self.start_daemon();
    }

    pub(crate) fn start_data_path(&mut self) {
        self.data_path = Some(data_path::start(&self.namespace, &self.folder.join("esp"), &self.protect));
        // The queue then has room for all packets that arrive while the data path has no CPU.
        self.namespace.ip("link set gantry0 txqueuelen 20000");
    }

    pub(crate) fn start_daemon(&mut self) {
        let root = if self.kind.debian == 13 { fresh_debian(13, "ike").expect("a Debian 13") } else { "/".into() };
        let _ = fs::remove_file(self.folder.join("vici"));
        self.spawn_daemon(&root, &format!("env STRONGSWAN_CONF={}/strongswan.conf {CHARON}", self.folder.display()));
        wait_until("charon answers", || self.folder.join("vici").exists() && self.try_swanctl("--stats").0);
        let folder = self.folder.display();
        self.swanctl(&format!("--load-all --file {folder}/swanctl.conf"));
    }

    /// Starts the gateway's daemon with `root` as its file system, over the data path if the gateway uses Gantry's ESP.
    pub(crate) fn spawn_daemon(&mut self, root: &Path, program: &str) {
        let log = File::options().create(true).append(true).open(self.folder.join("said")).unwrap();
        let mut command = Command::new("unshare");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/daemons/daemon.sh");
        command.args(["-m", "sh"]).args([&script, root, &self.folder]).arg("env");
        if self.kind.esp == Esp::Gantry {
            // Another Debian does not see cargo's target folder.
            let library = self.folder.join("libgantry_xfrm.so");
            fs::copy(std::env::current_exe().unwrap().with_file_name("libgantry_xfrm.so"), &library).unwrap();
            command.arg(format!("LD_PRELOAD={}", library.display()));
            command.arg(format!("GANTRY_XFRM={}/esp/xfrm", self.folder.display()));
        }
        command.args(program.split_whitespace()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemon = Some(self.namespace.enter(|| command.spawn()).unwrap());
    }

    /// Runs a program in the daemon's namespaces. Returns whether it succeeded, and its output.
    pub(crate) fn run_inside(&self, root: &Path, program: &str) -> (bool, String) {
        let daemon = self.daemon.as_ref().expect("there is a daemon").id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &daemon, "-m", "-n", "chroot"]).arg(root).args(program.split_whitespace());
        output_of(&mut command)
    }

    pub(crate) fn kill_daemon(&mut self) {
        end(&mut self.daemon);
    }

    pub(crate) fn kill_data_path(&mut self) {
        end(&mut self.data_path);
    }

    /// Sends the daemon a command. Returns the output.
    #[track_caller]
    pub(crate) fn swanctl(&self, arguments: &str) -> String {
        let (succeeds, text) = self.try_swanctl(arguments);
        assert!(succeeds, "swanctl {arguments}: {text}\n{}", self.log());
        text
    }

    /// Sends the daemon a command that may fail.
    pub(crate) fn try_swanctl(&self, arguments: &str) -> (bool, String) {
        let mut command = Command::new("swanctl");
        command.args(arguments.split_whitespace()).arg("--uri").arg(format!("unix://{}/vici", self.folder.display()));
        output_of(&mut command)
    }

    pub(crate) fn status(&self) -> Value {
        data_path::status(&self.folder.join("esp")).expect("the data path answers")
    }

    /// Returns the SPIs of the SAs in a direction: `in` or `out`.
    pub(crate) fn spis(&self, direction: &str) -> Vec<String> {
        let status = self.status();
        let sas = status["sas"].as_array().unwrap().iter().filter(|sa| sa["direction"] == direction);
        sas.map(|sa| sa["spi"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the logs of the daemon and the data path.
    pub(crate) fn log(&self) -> String {
        ["said", "charon.log", "esp/log"]
            .map(|name| fs::read_to_string(self.folder.join(name)).unwrap_or_default())
            .concat()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if thread::panicking() {
            let status = data_path::status(&self.folder.join("esp"));
            let text = format!("== gateway {}, {:?}: {}\n{status:?}\n", self.number + 1, self.kind, self.log());
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        end(&mut self.daemon);
        end(&mut self.data_path);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns whether a program succeeds, and its whole output.
fn output_of(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("the program is there");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), text)
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Two gateways, the ends of a tunnel.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) a: Gateway,
    pub(crate) b: Gateway,
    is_v6: bool,
}

impl Pair {
    /// Creates two gateways with one link, and starts their processes.
    pub(crate) fn new(kinds: [Kind; 2], plan: &Plan) -> Self {
        let mut pair = Self::linked(kinds, plan);
        pair.start();
        pair
    }

    /// Creates two gateways with one link and no processes.
    pub(crate) fn linked(kinds: [Kind; 2], plan: &Plan) -> Self {
        let (mut a, mut b) = (Gateway::new(0, kinds[0]), Gateway::new(1, kinds[1]));
        a.namespace.join("wire", &b.namespace, "wire");
        for gateway in [&mut a, &mut b] {
            gateway.connect();
            gateway.protect.clone_from(&plan.protect);
            let peer = outer(1 - gateway.number, plan.v6[0]).to_string();
            configure(gateway, plan, &peer);
        }
        Self { a, b, is_v6: plan.v6[1] }
    }

    pub(crate) fn start(&mut self) {
        self.a.start();
        self.b.start();
    }

    /// Makes the first gateway bring up a child.
    pub(crate) fn initiate(&self, child: &str) {
        self.a.swanctl(&format!("--initiate --timeout 60 --child {child}"));
    }

    /// Returns both gateways with their inner addresses.
    pub(crate) fn ends(&self) -> [(&Namespace, IpAddr); 2] {
        [&self.a, &self.b].map(|gateway| (&gateway.namespace, gateway.inner(self.is_v6)))
    }

    /// Starts streams from the first gateway to the second, and back.
    pub(crate) fn streams(&self) -> [Stream; 2] {
        let [a, b] = self.ends();
        [Stream::start(a, b), Stream::start(b, a)]
    }

    /// Captures on the wire between the gateways. On a device with Linux' ESP, a decrypted packet would appear a second time.
    pub(crate) fn capture(&self) -> Wire {
        let end = if self.a.kind.esp == Esp::Kernel { &self.b } else { &self.a };
        Wire::capture(&end.namespace, "wire")
    }
}

pub(crate) fn outer(number: usize, is_v6: bool) -> IpAddr {
    let text = if is_v6 { format!("fd01::{}", number + 1) } else { format!("10.1.0.{}", number + 1) };
    text.parse().unwrap()
}

fn inner(number: usize, is_v6: bool) -> IpAddr {
    let text = if is_v6 { format!("fd02::{}", number + 1) } else { format!("10.2.0.{}", number + 1) };
    text.parse().unwrap()
}

/// Stands for a peer of any address and name.
pub(crate) const ANY: &str = "%any";

/// Writes the daemon's configuration files.
pub(crate) fn configure(gateway: &Gateway, plan: &Plan, peer: &str) {
    let Gateway { kind, number, folder, .. } = gateway;
    let folder = folder.display();
    // The kernel consults policies only for packets that have a route.
    let charon = if kind.esp == Esp::Kernel { "install_routes = yes" } else { plan.charon };
    // The peer of the second gateway is the first gateway; the peer of every other gateway is the second gateway.
    let (is_second, other) = (*number == 1, usize::from(*number != 1));
    let [own_connection, own_child] = if is_second { plan.second } else { plan.first };
    let esp = if kind.esp == Esp::Libipsec { "kernel-libipsec" } else { "" };
    let text = format!(
        "charon {{
            load = random nonce openssl kdf {esp} kernel-netlink socket-default vici updown
            filelog {{ log {{ path = {folder}/charon.log
                default = 1
                flush_line = yes }} }}
            plugins {{ vici {{ socket = unix://{folder}/vici }} }}
            {charon}
        }}\n"
    );
    write(gateway, "strongswan.conf", &text);
    let traffic_selector = |number: usize| match plan.traffic_selectors {
        Some(selectors) => selectors[usize::from(number == 1)].to_owned(),
        None => format!("{}/{}", inner(number, plan.v6[1]), if plan.v6[1] { 128 } else { 32 }),
    };
    let (ours, theirs) = (traffic_selector(*number), traffic_selector(other));
    let mut named = plan.children.clone();
    if is_second {
        let all: Vec<_> = named.iter().map(|(_, proposal)| proposal.clone()).collect();
        named = vec![(named[0].0.clone(), all.join(","))];
    }
    let children = named.iter().map(|(name, proposal)| {
        format!(
            "{name} {{ local_ts = {ours}
                remote_ts = {theirs}
                esp_proposals = {proposal}
                {own_child} }}\n"
        )
    });
    let text = format!(
        "connections {{ net {{ version = 2
            local_addrs = {}
            remote_addrs = {peer}
            encap = yes
            proposals = aes256-sha256-x25519
            {own_connection}
            local {{ auth = psk
                id = gateway{number} }}
            remote {{ auth = psk
                id = {} }}
            children {{ {} }} }} }}
        secrets {{ ike {{ secret = \"of both\" }} }}
        {}\n",
        outer(*number, plan.v6[0]),
        if peer == ANY { ANY.to_owned() } else { format!("gateway{other}") },
        children.collect::<String>(),
        plan.sections
    );
    write(gateway, "swanctl.conf", &text);
}

fn write(gateway: &Gateway, name: &str, text: &str) {
    fs::write(gateway.folder.join(name), text).unwrap();
}
