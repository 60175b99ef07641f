//! Linux' own ESP at the other end, in a guest, under charon at both: each opens what the other has sealed.

#[path = "daemons/data_path.rs"]
mod data_path;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "daemons/gateway.rs"]
mod gateway;
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

use gateway::{Esp, Kind, OURS, Plan, is_possible};
use suites::{SUITES, every_child_passes_packets, of_suites};

/// Linux' ESP under the charon of this machine.
const LINUX: Kind = Kind { esp: Esp::Kernel, debian: 12 };

gantry_lab::in_guest! {
    ["--timeout", "580", "--modules", "tun veth esp4 esp6 xfrm_user gcm ccm ctr cbc authenc authencesn echainiv seqiv chacha20poly1305 sha512_generic"]
    fn linux_and_we_open_what_the_other_sealed_in_every_suite() {
        let (plan, algorithms) = of_suites(&SUITES, &["-noesn", "-esn"]);
        if is_possible(&[OURS]) {
            every_child_passes_packets([OURS, LINUX], &plan, &algorithms);
            every_child_passes_packets([LINUX, OURS], &plan, &algorithms);
        }
    }

    fn linux_is_a_peer_over_either_family_of_addresses() {
        let (plan, algorithms) = of_suites(&SUITES[..1], &["-esn"]);
        for v6 in [[false, true], [true, false], [true, true]] {
            if is_possible(&[OURS]) {
                every_child_passes_packets([OURS, LINUX], &Plan { v6, ..plan.clone() }, &algorithms);
            }
        }
    }
}
