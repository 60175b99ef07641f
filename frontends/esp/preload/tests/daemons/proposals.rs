//! Tests every suite that charon proposes, every daemon and peer, and every address family.

use crate::gateway::{GANTRY_12, GANTRY_13, LIBIPSEC_12, LIBIPSEC_13, Plan, is_possible};
use crate::suites::{SUITES, every_child_passes_packets, suite_plan};

#[test]
#[ignore = "needs root and network namespaces"]
fn every_suite_is_negotiated_and_passes_packets() {
    if is_possible(&[GANTRY_12]) {
        let (plan, algorithms) = suite_plan(&SUITES, &["-noesn", "-esn"]);
        every_child_passes_packets([GANTRY_12, GANTRY_12], &plan, &algorithms);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn charon_5_9_and_6_0_interoperate_in_either_role() {
    for kinds in [[GANTRY_12, GANTRY_13], [GANTRY_13, GANTRY_12], [GANTRY_13, GANTRY_13]] {
        if is_possible(&kinds) {
            let (plan, algorithms) = suite_plan(&SUITES, &["-esn"]);
            every_child_passes_packets(kinds, &plan, &algorithms);
        }
    }
}

/// kernel-libipsec supports neither extended sequence numbers nor AES-CTR and AES-GMAC.
#[test]
#[ignore = "needs root and network namespaces"]
fn strongswans_own_esp_interoperates_in_either_role() {
    let supported: Vec<_> =
        SUITES.into_iter().filter(|(proposal, _)| !proposal.contains("ctr") && !proposal.contains("gmac")).collect();
    for kinds in [
        [GANTRY_12, LIBIPSEC_12],
        [LIBIPSEC_12, GANTRY_12],
        [GANTRY_13, LIBIPSEC_13],
        [LIBIPSEC_13, GANTRY_13],
        [GANTRY_12, LIBIPSEC_13],
    ] {
        if is_possible(&kinds) {
            let (plan, algorithms) = suite_plan(&supported, &["-noesn"]);
            every_child_passes_packets(kinds, &plan, &algorithms);
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn either_address_family_works_inside_and_outside() {
    for (kinds, v6) in [GANTRY_12, GANTRY_13].into_iter().flat_map(|kind| {
        [[false, true], [true, false], [true, true]].into_iter().map(move |v6| ([kind, GANTRY_12], v6))
    }) {
        if is_possible(&kinds) {
            let (plan, algorithms) = suite_plan(&SUITES[..1], &[""]);
            every_child_passes_packets(kinds, &Plan { v6, ..plan }, &algorithms);
        }
    }
}
