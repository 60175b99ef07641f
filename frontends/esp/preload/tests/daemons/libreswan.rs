//! libreswan at both ends.

use std::fs;
use std::path::{Path, PathBuf};

use crate::gateway::{Gateway, OURS, Pair, Plan, await_that, fresh, is_root, outer};
use crate::traffic::{Stream, are_whole, pass};

/// pluto, and the program that tells it what to do.
const PLUTO: &str = "/usr/libexec/ipsec/pluto";
const WHACK: &str = "/usr/libexec/ipsec/whack";

/// Two gateways with libreswan of Debian 12.
struct Swans {
    root: PathBuf,
    pair: Pair,
}

impl Swans {
    /// `None`, counted as skipped, where it cannot be had.
    fn new() -> Option<Self> {
        let root = if is_root() { fresh(12, "libreswan") } else { None };
        let Some(root) = root else {
            gantry_lab::skip(if is_root() { "fresh Debian" } else { "root" });
            return None;
        };
        let mut pair = Pair::joined([OURS, OURS], &Plan::default());
        for gateway in [&mut pair.a, &mut pair.b] {
            gateway.start_data_path();
            start(&root, gateway);
        }
        Some(Self { root, pair })
    }

    fn whack(&self, gateway: &Gateway, arguments: &str) -> String {
        whack(&self.root, gateway, arguments)
    }

    /// The first gateway brings the tunnel up.
    fn initiate(&self) {
        let text = self.whack(&self.pair.a, "--name net --initiate");
        assert!(text.contains("established Child SA"), "{text}");
    }
}

fn whack(root: &Path, gateway: &Gateway, arguments: &str) -> String {
    let (_, text) = gateway.inside(root, &format!("{WHACK} --rundir {} {arguments}", gateway.folder.display()));
    text
}

/// Starts the daemon with its files in the gateway's folder, and waits until it knows the connection.
fn start(root: &Path, gateway: &mut Gateway) {
    let folder = gateway.folder.clone();
    let at = folder.display();
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
        "mkdir -p {at}/nss /run/pluto
        [ -e {at}/nss/cert9.db ] || certutil -N --empty-password -d sql:{at}/nss
        exec {PLUTO} --nofork --stderrlog --config {at}/ipsec.conf --secretsfile {at}/ipsec.secrets --nssdir {at}/nss --rundir {at}\n"
    );
    fs::write(folder.join("pluto.sh"), script).unwrap();
    gateway.run(root, &format!("sh {at}/pluto.sh"));
    await_that("pluto answers", || whack(root, gateway, "--status").contains("using kernel interface"));
    let add = format!("/usr/libexec/ipsec/addconn --config {at}/ipsec.conf --ctlsocket {at}/pluto.ctl net");
    await_that("pluto knows the connection", || {
        gateway.inside(root, &add);
        whack(root, gateway, "--status").contains("\"net\"")
    });
}

#[test]
#[ignore = "as root, in network namespaces"]
fn libreswan_makes_a_tunnel_and_new_keys_under_traffic() {
    let Some(swans) = Swans::new() else { return };
    let wire = swans.pair.tap();
    swans.initiate();
    let streams = swans.pair.streams();
    for (gateway, what) in [(&swans.pair.a, "ipsec"), (&swans.pair.b, "ipsec"), (&swans.pair.a, "ike")] {
        pass(&streams, 50);
        let before = swans.pair.a.spis("out");
        let text = swans.whack(gateway, &format!("--name net --rekey-{what}"));
        if what == "ipsec" {
            await_that(&format!("the SA is another: {text}"), || {
                let now = swans.pair.a.spis("out");
                !now.is_empty() && before.iter().all(|spi| !now.contains(spi))
            });
        }
    }
    pass(&streams, 50);
    // Unlike charon, the one that answers sends by a new SA before the other one has it: what is on the way just then is lost.
    for tally in streams.map(Stream::end) {
        assert!(tally.lost.len() < 50 && tally.refused.is_empty(), "{tally:?}");
    }
    let traffic = swans.whack(&swans.pair.a, "--trafficstatus");
    assert!(
        traffic.contains("inBytes=") && !traffic.contains("inBytes=0,"),
        "it reads the counters of its SAs: {traffic}"
    );
    wire.end();
}

/// Its trap is a policy whose template is of transport mode and has no addresses.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_trap_of_libreswan_brings_the_tunnel_up() {
    let Some(swans) = Swans::new() else { return };
    let wire = swans.pair.tap();
    let text = swans.whack(&swans.pair.a, "--name net --route");
    assert!(!text.contains("ERROR"), "{text}");
    let [there, back] = swans.pair.streams();
    there.pass(50);
    back.pass(50);
    let tally = there.end();
    assert!(!tally.lost.is_empty() || !tally.refused.is_empty(), "the tunnel was not there");
    back.end();
    wire.end();
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_pluto_that_is_killed_takes_no_packet_along() {
    let Some(mut swans) = Swans::new() else { return };
    let wire = swans.pair.tap();
    swans.initiate();
    let streams = swans.pair.streams();
    pass(&streams, 50);
    swans.pair.a.kill_daemon();
    pass(&streams, 200);
    are_whole(streams);
    let _ = fs::remove_file(swans.pair.a.folder.join("pluto.pid"));
    start(&swans.root, &mut swans.pair.a);
    swans.initiate();
    let streams = swans.pair.streams();
    pass(&streams, 50);
    for tally in streams.map(Stream::end) {
        assert!(tally.refused.is_empty(), "{tally:?}");
    }
    wire.end();
}
