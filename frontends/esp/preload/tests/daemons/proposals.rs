//! Every suite that charon proposes, daemon, peer and family of addresses.

use crate::gateway::{NEWER, OURS, Plan, THEIRS, THEIRS_NEWER, is_possible};
use crate::suites::{SUITES, every_child_passes_packets, of_suites};

#[test]
#[ignore = "as root, in network namespaces"]
fn every_suite_is_negotiated_and_passes_packets() {
    if is_possible(&[OURS]) {
        let (plan, algorithms) = of_suites(&SUITES, &["-noesn", "-esn"]);
        every_child_passes_packets([OURS, OURS], &plan, &algorithms);
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn charon_5_9_and_6_0_meet_in_either_order() {
    for kinds in [[OURS, NEWER], [NEWER, OURS], [NEWER, NEWER]] {
        if is_possible(&kinds) {
            let (plan, algorithms) = of_suites(&SUITES, &["-esn"]);
            every_child_passes_packets(kinds, &plan, &algorithms);
        }
    }
}

/// kernel-libipsec knows no extended numbers.
#[test]
#[ignore = "as root, in network namespaces"]
fn strongswans_own_esp_is_a_peer_at_either_end() {
    let known: Vec<_> = SUITES.into_iter().filter(|(proposal, _)| !proposal.contains("ctr")).collect();
    for kinds in [[OURS, THEIRS], [THEIRS, OURS], [NEWER, THEIRS_NEWER], [THEIRS_NEWER, NEWER], [OURS, THEIRS_NEWER]] {
        if is_possible(&kinds) {
            let (plan, algorithms) = of_suites(&known, &["-noesn"]);
            every_child_passes_packets(kinds, &plan, &algorithms);
        }
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn either_family_of_addresses_is_inside_and_outside() {
    for (kinds, v6) in [OURS, NEWER]
        .into_iter()
        .flat_map(|kind| [[false, true], [true, false], [true, true]].into_iter().map(move |v6| ([kind, OURS], v6)))
    {
        if is_possible(&kinds) {
            let (plan, algorithms) = of_suites(&SUITES[..1], &[""]);
            every_child_passes_packets(kinds, &Plan { v6, ..plan }, &algorithms);
        }
    }
}
