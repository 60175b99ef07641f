//! strongSwan's daemon under the library takes the server for the kernel, and stays idle when the server disappears.

mod lab;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use gantry_abi_xfrm::constants::group;
use gantry_abi_xfrm::preload::PreloadMessage;
use gantry_abi_xfrm::*;
use gantry_lab::wait_until;
use lab::{Lab, Running, Server, is_possible};

/// The configuration of a daemon with a minimum of plugins.
const CONFIGURATION: &str = "charon {
    load = random nonce openssl kernel-netlink socket-default vici updown
    install_routes = no
    install_virtual_ip = no
    plugins { vici { socket = unix://FOLDER/vici } }
    filelog { log { path = FOLDER/log
        default = 1
        knl = 2
        flush_line = yes } }
}
swanctl { load = }
";
/// A connection whose policies make the daemon begin IKE at the first packet.
const CONNECTION: &str = "connections { trapped {
    version = 2
    local_addrs = 192.0.2.1
    remote_addrs = 192.0.2.2
    local { auth = psk }
    remote { auth = psk }
    children { child {
        local_ts = 10.1.0.0/16
        remote_ts = 10.2.0.0/16
        esp_proposals = aes128gcm16
        start_action = trap
    } }
} }
secrets { ike { secret = \"secret\" } }
";

#[test]
fn charon_works_with_the_server_instead_of_the_kernel() {
    if !is_possible(&["charon", "swanctl", "ip", "unshare", "root"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    server.state.lock().unwrap().shared_ports = vec![4500];
    let daemon = Daemon::new(&lab);
    let wanted = 1 << (group::ACQUIRE - 1) | 1 << (group::EXPIRE - 1) | 1 << (group::MAPPING - 1);
    wait_until("the daemon joins its groups", || server.groups() & wanted == wanted);
    let bound = |address: &str, shared| {
        let address = address.parse().unwrap();
        let state = server.state.lock().unwrap();
        state.private_messages.contains(&PreloadMessage::Binding(address))
            && state.private_messages.contains(&PreloadMessage::Bound(address, 0)) == shared
    };
    wait_until("the daemon binds its ports", || bound("0.0.0.0:4500", true) && bound("[::]:4500", true));
    assert!(bound("0.0.0.0:500", false) && bound("[::]:500", false));

    // The daemon has installed the policies of the trap.
    daemon.swanctl("--load-all");
    wait_until("the daemon installs its policies", || server.state.lock().unwrap().policies.len() >= 3);
    let policies = server.state.lock().unwrap().policies.clone();
    for direction in [Direction::In, Direction::Out, Direction::Forward] {
        let policy = policies.iter().find(|policy| policy.direction == direction).unwrap();
        let [template] = policy.templates[..] else { panic!("{policy:?}") };
        assert_eq!((template.id.protocol, template.mode), (50, Mode::Tunnel));
        assert_eq!((policy.action, policy.selector.destination.length), (Action::Allow, 16));
    }

    // Simulates a packet that matches these policies.
    let policy = policies.iter().find(|policy| policy.direction == Direction::Out).unwrap().clone();
    let template = policy.templates[0];
    server.send_event(&Message::Acquire(
        Acquire {
            id: template.id,
            source: template.source,
            selector: policy.selector,
            policy,
            authentications: 0,
            ciphers: 0,
            compressions: 0,
            sequence: 7,
        }
        .into(),
    ));
    wait_until("IKE begins", || daemon.log().contains("initiating IKE_SA trapped[1] to 192.0.2.2"));

    // The server disappears. The daemon must not busy-wait.
    let log_before = daemon.log();
    drop(server);
    thread::sleep(Duration::from_millis(500));
    let ticks_before = daemon.cpu_ticks();
    thread::sleep(Duration::from_secs(2));
    let spent_ticks = daemon.cpu_ticks() - ticks_before;
    let new_log = daemon.log()[log_before.len()..].to_owned();
    assert!(spent_ticks < 50, "{spent_ticks} ticks of 200: {new_log}");
    // The daemon's event socket reports once that events may be lost.
    assert_eq!(new_log.matches("No buffer space available").count(), 1, "{new_log}");

    // Another server starts, and gets the daemon's next requests and groups.
    let server = Server::new(&lab);
    server.state.lock().unwrap().shared_ports = vec![4500];
    fs::write(lab.path("swanctl.conf"), CONNECTION.replace("10.2.0.0/16", "10.3.0.0/16")).unwrap();
    daemon.swanctl("--load-all");
    let third = Prefix { address: [10, 3, 0, 0].into(), length: 16 };
    wait_until("the daemon installs its policies again", || {
        server.state.lock().unwrap().policies.iter().any(|policy| policy.selector.destination == third)
    });
    wait_until("the daemon joins its groups", || server.groups() & wanted == wanted);
    for received in &server.state.lock().unwrap().received {
        assert!(received.is_ok(), "{received:?}");
    }
}

struct Daemon<'a> {
    lab: &'a Lab,
    running: Running,
}

impl<'a> Daemon<'a> {
    fn new(lab: &'a Lab) -> Self {
        let folder = lab.path("");
        let configuration = CONFIGURATION.replace("FOLDER", folder.to_str().unwrap().trim_end_matches('/'));
        fs::write(lab.path("strongswan.conf"), configuration).unwrap();
        fs::write(lab.path("swanctl.conf"), CONNECTION).unwrap();
        // The daemon gets its own /run, for its PID file, and its own network. `unshare` and the shell exec the daemon,
        // so that the test knows its PID.
        let line = "exec unshare -nm sh -c 'mount -t tmpfs none /run && ip link set lo up && ip link add v type veth peer name w && ip link set w up && \
             ip address add 192.0.2.1/24 dev v && ip link set v up && STRONGSWAN_CONF=$PWD/strongswan.conf exec /usr/lib/ipsec/charon' \
             > output 2>&1";
        Self { lab, running: lab.start(line) }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.lab.path("log")).unwrap_or_default()
    }

    fn swanctl(&self, command: &str) {
        let output = Command::new("swanctl")
            .args([command, "--file", "swanctl.conf", "--uri", &format!("unix://{}", self.lab.path("vici").display())])
            .env("STRONGSWAN_CONF", self.lab.path("strongswan.conf"))
            .current_dir(self.lab.path(""))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}{}", lab::text(&output), self.log());
    }

    /// Returns the CPU time used by the daemon, in ticks of 10 ms.
    fn cpu_ticks(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.running.0.id())).unwrap();
        let fields: Vec<_> = status.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}{}", fs::read_to_string(self.lab.path("output")).unwrap_or_default(), self.log());
        }
    }
}
