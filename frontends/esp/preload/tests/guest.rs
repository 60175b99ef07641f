//! charon over the data path at one end and over Linux' ESP at the other, in a guest: each end opens the other's packets.
//! `daemons/l2tp.rs` has the tests of L2TP, which need the guest's PPP.

#[path = "daemons/data_path.rs"]
mod data_path;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "daemons/gateway.rs"]
mod gateway;
#[path = "daemons/l2tp.rs"]
mod l2tp;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "tunnel/namespace.rs"]
mod namespace;
#[path = "daemons/suites.rs"]
mod suites;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "daemons/traffic.rs"]
mod traffic;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "daemons/wire.rs"]
mod wire;

use gateway::{Esp, GANTRY_12, Kind, Pair, Plan, is_possible, outer};
use suites::{SUITES, every_child_passes_packets, suite_plan, transport_plan};
use traffic::{Stream, assert_all_arrived, await_packets, transfer};

/// Linux' ESP under the charon of this machine.
const LINUX: Kind = Kind { esp: Esp::Kernel, debian: 12 };

gantry_lab::in_guest! {
    ["--timeout", "580", "--modules", "tun veth esp4 esp6 xfrm_user gcm ccm ctr cbc authenc authencesn echainiv seqiv chacha20poly1305 sha512_generic"]
    fn linux_and_gantry_open_each_others_packets_in_every_suite() {
        let (plan, algorithms) = suite_plan(&SUITES, &["-noesn", "-esn"]);
        if is_possible(&[GANTRY_12]) {
            every_child_passes_packets([GANTRY_12, LINUX], &plan, &algorithms);
            every_child_passes_packets([LINUX, GANTRY_12], &plan, &algorithms);
        }
    }

    fn linux_interoperates_in_transport_mode() {
        for (kinds, is_v6, in_udp) in [
            ([GANTRY_12, LINUX], false, true), ([LINUX, GANTRY_12], false, false),
            ([LINUX, GANTRY_12], true, true), ([GANTRY_12, LINUX], true, false),
        ] {
            if is_possible(&kinds) {
                let pair = Pair::new(kinds, &transport_plan(is_v6, in_udp));
                let wire = pair.capture();
                pair.initiate("net");
                let [a, b] = [(&pair.a, 0), (&pair.b, 1)].map(|(gateway, at)| (&gateway.namespace, outer(at, is_v6)));
                let streams = [Stream::start(a, b), Stream::start(b, a)];
                await_packets(&streams, 20);
                transfer(a, b, 300_000);
                transfer(b, a, 300_000);
                assert_all_arrived(streams);
                wire.end();
            }
        }
    }

    fn linux_interoperates_without_udp() {
        let (plan, algorithms) = suite_plan(&SUITES[..1], &["-noesn"]);
        let options = ["encap = no", ""];
        for v6 in [[false, false], [true, false]] {
            if is_possible(&[GANTRY_12]) {
                let plan = Plan { v6, first: options, second: options, ..plan.clone() };
                every_child_passes_packets([GANTRY_12, LINUX], &plan, &algorithms);
            }
        }
    }

    fn linux_interoperates_over_either_address_family() {
        let (plan, algorithms) = suite_plan(&SUITES[..1], &["-esn"]);
        for v6 in [[false, true], [true, false], [true, true]] {
            if is_possible(&[GANTRY_12]) {
                every_child_passes_packets([GANTRY_12, LINUX], &Plan { v6, ..plan.clone() }, &algorithms);
            }
        }
    }
}
