//! L2TP over IPsec: xl2tpd and pppd at both ends. PPP packets pass through xl2tpd and a pty, or from PPP to L2TP in the kernel.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command};

use gantry_lab::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::LINUX;
use crate::gateway::{self, ANY, Esp, GANTRY_12, Gateway, Pair, Plan, configure, outer};
use crate::namespace::Namespace;
use crate::traffic::transfer;
use crate::wire::Wire;

/// The name of the PPP device at each end.
const DEVICES: [&str; 2] = ["client", "server"];
/// The client's address as the server sees it behind a NAT.
const PUBLIC: &str = "10.1.0.253";

gantry_lab::in_guest! {
    ["--timeout", "580", "--modules", "tun veth ppp_async l2tp_ppp esp4 xfrm_user gcm seqiv"]
    fn l2tp_of_the_daemon_passes_in_transport_mode() {
        if is_possible() {
            ppp_passes(&Pair::new([GANTRY_12; 2], &plan()), [false; 2]);
        }
    }

    fn l2tp_of_the_kernel_passes_in_transport_mode() {
        if is_possible() {
            ppp_passes(&Pair::new([GANTRY_12; 2], &plan()), [true; 2]);
        }
    }

    fn l2tp_passes_between_linux_and_the_data_path() {
        if is_possible() {
            ppp_passes(&Pair::new([GANTRY_12, LINUX], &plan()), [true, false]);
        }
    }

    fn a_client_of_l2tp_reaches_its_server_from_behind_a_nat() {
        if is_possible() {
            let plan = Plan { traffic_selectors: Some(["dynamic[17/1701]"; 2]), second: ["", "mode = transport"], ..plan() };
            let mut pair = Pair::linked([GANTRY_12; 2], &plan);
            configure(&pair.b, &plan, ANY);
            let _nat = translate(&pair);
            pair.start();
            ppp_passes(&pair, [false, true]);
        }
    }
}

fn is_possible() -> bool {
    let programs = [
        ("/usr/sbin/xl2tpd", "xl2tpd"),
        ("/usr/sbin/pppd", "pppd"),
        ("/usr/bin/ping", "ping"),
        ("/usr/sbin/nft", "nft"),
    ];
    let missing = programs.into_iter().find(|(path, _)| !Path::new(path).exists());
    if let Some((_, name)) = missing {
        gantry_lab::skip(name);
    }
    missing.is_none() && gateway::is_possible(&[GANTRY_12])
}

fn plan() -> Plan {
    let options = ["", "mode = transport\nstart_action = trap"];
    let inside = ["10.1.0.1/32[17/1701]", "10.1.0.2/32[17/1701]"];
    Plan { traffic_selectors: Some(inside), first: options, second: options, ..Plan::default() }
}

/// Puts a NAT between the client and the server. The NAT answers for the server's address on the client's side (proxy ARP).
fn translate(pair: &Pair) -> Namespace {
    let nat = Namespace::new();
    pair.b.namespace.ip("link delete wire");
    nat.sysctl("ipv4/ip_forward", "1");
    for (gateway, device) in [(&pair.a, "near"), (&pair.b, "far")] {
        nat.join(device, &gateway.namespace, "wire");
        gateway.connect();
    }
    nat.sysctl("ipv4/conf/near/proxy_arp", "1");
    nat.ip(&format!("route add {} dev near", outer(0, false)));
    nat.ip(&format!("address add {PUBLIC}/24 dev far"));
    for line in [
        "add table ip nat",
        "add chain ip nat out { type nat hook postrouting priority srcnat; }",
        "add rule ip nat out oifname far masquerade random",
    ] {
        let output = nat.enter(|| Command::new("nft").arg(line).output()).unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    nat
}

/// Asserts that the client's first packet of L2TP, which meets the trap, brings PPP up, and that packets of PPP pass under the first keys
/// and under new ones. `in_kernel` is true for each end whose kernel has L2TP.
fn ppp_passes(pair: &Pair, in_kernel: [bool; 2]) {
    let gateways = [&pair.a, &pair.b];
    // On a device with Linux' ESP, a decrypted packet would appear a second time, so captures at an end with Gantry.
    let with_gantry = || gateways.into_iter().filter(|gateway| gateway.kind.esp == Esp::Gantry);
    let wire = Wire::capture(&with_gantry().next_back().unwrap().namespace, "wire");
    let _server = Xl2tpd::start(&pair.b, 1, in_kernel[1]);
    let _client = Xl2tpd::start(&pair.a, 0, in_kernel[0]);
    for (place, gateway) in gateways.into_iter().enumerate() {
        let address = format!("{}    inet {} peer", DEVICES[place], inner(place));
        wait_until("PPP is up", || gateway.namespace.ip("-oneline address").contains(&address));
        assert_eq!(has_kernel_session(gateway), in_kernel[place]);
    }
    assert!(pair.a.swanctl("--list-sas").contains("TRANSPORT"));
    let [a, b] = [(&pair.a.namespace, inner(0)), (&pair.b.namespace, inner(1))];
    let count = || with_gantry().flat_map(packets).collect::<Vec<_>>();
    for keys in ["first", "new"] {
        let before = count();
        ping(&pair.a, inner(1));
        transfer(a, b, 300_000);
        transfer(b, a, 300_000);
        let passed = count();
        let has_passed = passed.iter().zip(&before).all(|(now, before)| now - before > 200);
        assert!(has_passed, "{keys} keys: {before:?}, then {passed:?}");
        let old = pair.a.spis("out");
        pair.a.swanctl("--rekey --child net");
        wait_until("new keys replace the old ones", || {
            let current = pair.a.spis("out");
            current.len() == 1 && current != old
        });
    }
    wire.end();
}

/// Returns the address of an end's PPP device.
fn inner(place: usize) -> IpAddr {
    [10, 9, 0, place as u8 + 1].into()
}

/// Returns the numbers of packets that the data path has sent and received.
fn packets(gateway: &Gateway) -> [u64; 2] {
    let counters = &gateway.status()["counters"];
    ["sent_packets", "received_packets"].map(|name| counters[name].as_u64().unwrap())
}

/// Pings with small packets, and with packets that fill the MTU of PPP.
fn ping(from: &Gateway, to: IpAddr) {
    for size in [56, 1382] {
        let mut command = Command::new("ping");
        command.args(["-c", "3", "-i", "0.2", "-M", "do", "-s", &size.to_string(), &to.to_string()]);
        let output = from.namespace.enter(|| command.output()).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Returns whether PPP's packets pass to L2TP in the kernel.
fn has_kernel_session(gateway: &Gateway) -> bool {
    let sessions = gateway.namespace.enter(|| fs::read_to_string("/proc/thread-self/net/pppol2tp")).unwrap();
    sessions.lines().any(|line| line.trim_start().starts_with("SESSION '"))
}

/// xl2tpd, and the pppd that it starts. Dropping it ends both.
struct Xl2tpd(Child);

impl Xl2tpd {
    fn start(gateway: &Gateway, place: usize, is_in_kernel: bool) -> Self {
        let folder = gateway.folder.display();
        let section = match place {
            0 => format!("[lac server]\nlns = {}\nautodial = yes\nredial = yes\nredial timeout = 1", outer(1, false)),
            _ => format!("[lns default]\nlocal ip = {}\nip range = {1}-{1}", inner(1), inner(0)),
        };
        let user_space = if is_in_kernel { "no" } else { "yes" };
        // The MTU of 1,410 bytes is that of xl2tpd's example.
        let files = [
            (
                "xl2tpd.conf",
                format!("[global]\nforce userspace = {user_space}\n{section}\npppoptfile = {folder}/ppp\n"),
            ),
            (
                "ppp",
                format!("ifname {}\nnoauth\nnoccp\nmtu 1410\nmru 1410\ndebug\nlogfile {folder}/said\n", DEVICES[place]),
            ),
            ("secrets", String::new()),
        ];
        for (name, text) in files {
            fs::write(gateway.folder.join(name), text).unwrap();
        }
        let log = fs::File::options().create(true).append(true).open(gateway.folder.join("said")).unwrap();
        let mut command = Command::new("xl2tpd");
        for (option, file) in [("-c", "xl2tpd.conf"), ("-s", "secrets"), ("-p", "pid"), ("-C", "control")] {
            command.arg(option).arg(gateway.folder.join(file));
        }
        command.arg("-D").stdout(log.try_clone().unwrap()).stderr(log);
        Self(gateway.namespace.enter(|| command.spawn()).unwrap())
    }
}

impl Drop for Xl2tpd {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}
