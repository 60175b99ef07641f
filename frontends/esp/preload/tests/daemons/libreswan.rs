//! Tests with libreswan at both ends.

use std::fs;
use std::path::{Path, PathBuf};

use crate::gateway::{GANTRY_12, Gateway, Pair, Plan, fresh_debian, is_root, outer};
use crate::traffic::{Stream, assert_all_arrived, assert_lost_within, await_packets, while_losing};
use gantry_lab::wait_until;

const PLUTO: &str = "/usr/libexec/ipsec/pluto";
const WHACK: &str = "/usr/libexec/ipsec/whack";

/// Two gateways with libreswan of Debian 12.
struct LibreswanPair {
    root: PathBuf,
    pair: Pair,
}

impl LibreswanPair {
    /// Returns `None`, counted as skipped, if libreswan is unavailable.
    fn new() -> Option<Self> {
        let root = if is_root() { fresh_debian(12, "libreswan") } else { None };
        let Some(root) = root else {
            gantry_lab::skip(if is_root() { "fresh Debian" } else { "root" });
            return None;
        };
        let mut pair = Pair::linked([GANTRY_12, GANTRY_12], &Plan::default());
        for gateway in [&mut pair.a, &mut pair.b] {
            gateway.start_data_path();
            start(&root, gateway);
        }
        Some(Self { root, pair })
    }

    fn whack(&self, gateway: &Gateway, arguments: &str) -> String {
        whack(&self.root, gateway, arguments)
    }

    /// Brings the tunnel up from the first gateway.
    fn initiate(&self) {
        let text = self.whack(&self.pair.a, "--name net --initiate");
        assert!(text.contains("established Child SA"), "{text}");
    }
}

fn whack(root: &Path, gateway: &Gateway, arguments: &str) -> String {
    let (_, text) = gateway.run_inside(root, &format!("{WHACK} --rundir {} {arguments}", gateway.folder.display()));
    text
}

/// Starts the daemon with its files in the gateway's folder, and waits until it has loaded the connection.
fn start(root: &Path, gateway: &mut Gateway) {
    let folder = gateway.folder.clone();
    let dir = folder.display();
    let file = format!(
        "conn net
    authby=secret
    left={}
    right={}
    leftid=@gateway0
    rightid=@gateway1
    leftsubnet=10.2.0.1/32
    rightsubnet=10.2.0.2/32
    encapsulation=yes
    ikev2=insist
    ike=aes256-sha2_256-dh31
    esp=aes_gcm256
    auto=add\n",
        outer(0, false),
        outer(1, false)
    );
    fs::write(folder.join("ipsec.conf"), file).unwrap();
    fs::write(folder.join("ipsec.secrets"), "@gateway0 @gateway1 : PSK \"a secret of both gateways\"\n").unwrap();
    let script = format!(
        "mkdir -p {dir}/nss /run/pluto
        [ -e {dir}/nss/cert9.db ] || certutil -N --empty-password -d sql:{dir}/nss
        exec {PLUTO} --nofork --stderrlog --config {dir}/ipsec.conf --secretsfile {dir}/ipsec.secrets --nssdir {dir}/nss --rundir {dir}\n"
    );
    fs::write(folder.join("pluto.sh"), script).unwrap();
    gateway.spawn_daemon(root, &format!("sh {dir}/pluto.sh"));
    wait_until("pluto listens", || {
        let status = whack(root, gateway, "--status");
        status.lines().any(|line| line.contains("interface wire") && line.ends_with(":4500"))
    });
    let add = format!("/usr/libexec/ipsec/addconn --config {dir}/ipsec.conf --ctlsocket {dir}/pluto.ctl net");
    wait_until("pluto knows the connection", || {
        gateway.run_inside(root, &add);
        whack(root, gateway, "--status").contains("\"net\"")
    });
}

#[test]
#[ignore = "needs root and network namespaces"]
fn libreswan_makes_a_tunnel_and_rekeys_it_under_traffic() {
    let Some(libreswan) = LibreswanPair::new() else { return };
    let wire = libreswan.pair.capture();
    libreswan.initiate();
    let streams = libreswan.pair.streams();
    let mut losses = Vec::new();
    for (gateway, protocol) in [(&libreswan.pair.a, "ipsec"), (&libreswan.pair.b, "ipsec"), (&libreswan.pair.a, "ike")]
    {
        await_packets(&streams, 50);
        let before = libreswan.pair.a.spis("out");
        // Packets are lost, because unlike charon, the responder sends on a new SA before the initiator has installed it.
        losses.push(while_losing(&streams, || {
            let text = libreswan.whack(gateway, &format!("--name net --rekey-{protocol}"));
            if protocol == "ipsec" {
                wait_until(&format!("there is a new SA: {text}"), || {
                    let current = libreswan.pair.a.spis("out");
                    !current.is_empty() && before.iter().all(|spi| !current.contains(spi))
                });
            }
        }));
    }
    await_packets(&streams, 50);
    let tallies = assert_lost_within(streams, &losses);
    assert!(tallies.iter().all(|tally| tally.refused.is_empty()), "{tallies:?}");
    let traffic = libreswan.whack(&libreswan.pair.a, "--trafficstatus");
    assert!(
        traffic.contains("inBytes=") && !traffic.contains("inBytes=0,"),
        "pluto reads no counters of its SAs: {traffic}"
    );
    wire.end();
}

/// libreswan's trap is a policy with a template of transport mode without addresses.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_trap_of_libreswan_brings_the_tunnel_up() {
    let Some(libreswan) = LibreswanPair::new() else { return };
    let wire = libreswan.pair.capture();
    let text = libreswan.whack(&libreswan.pair.a, "--name net --route");
    assert!(!text.contains("ERROR"), "{text}");
    let [there, back] = libreswan.pair.streams();
    there.await_packets(50);
    back.await_packets(50);
    let tally = there.end();
    assert!(!tally.lost.is_empty() || !tally.refused.is_empty(), "the tunnel was up too early");
    back.end();
    wire.end();
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_killed_pluto_loses_no_packet() {
    let Some(mut libreswan) = LibreswanPair::new() else { return };
    let wire = libreswan.pair.capture();
    libreswan.initiate();
    let streams = libreswan.pair.streams();
    await_packets(&streams, 50);
    libreswan.pair.a.kill_daemon();
    await_packets(&streams, 200);
    assert_all_arrived(streams);
    let _ = fs::remove_file(libreswan.pair.a.folder.join("pluto.pid"));
    start(&libreswan.root, &mut libreswan.pair.a);
    libreswan.initiate();
    let streams = libreswan.pair.streams();
    await_packets(&streams, 50);
    for tally in streams.map(Stream::end) {
        assert!(tally.refused.is_empty(), "{tally:?}");
    }
    wire.end();
}
