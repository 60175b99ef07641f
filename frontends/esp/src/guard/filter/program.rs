//! The program of the filter: classic BPF that drops the packets of policies.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gantry_abi_xfrm::{Port, Prefix, Selector};

use crate::bpf::{
    AND, Instruction, JUMP, JUMP_IF_ABOVE, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, JUMP_IF_SET, LOAD, LOAD_BYTE, LOAD_BYTE_AT,
    LOAD_HALF, LOAD_HALF_AT, LOAD_INDEX, LOAD_IPV4_LENGTH, RETURN, instruction,
};
use crate::guard::{EXEMPT_MARK, LINK_LOCAL_NETWORKS, SteeredPolicy};
use crate::packet::ip::{DCCP, ICMP, ICMPV6, SCTP, TCP, UDP, UDP_LITE};
use crate::table::PolicyOrder;

/// Maximum number of instructions of a program (BPF_MAXINSNS).
const MAX_INSTRUCTIONS: usize = 4096;
/// Verdicts of a filter (linux/pkt_cls.h): leave the decision to the next filter, and drop the packet.
const VERDICT_NEXT: u32 = u32::MAX;
const VERDICT_DROP: u32 = 2;
/// Offsets of linux/filter.h, from which a program loads: the network header, the link header, and the kernel's data about the packet.
const NETWORK_HEADER: u32 = 0xFFF0_0000;
const LINK_HEADER: u32 = 0xFFE0_0000;
const PROTOCOL: u32 = 0xFFFF_F000;
const INTERFACE: u32 = PROTOCOL + 8;
const MARK: u32 = PROTOCOL + 20;
/// Types of Ethernet frames.
const ETHER_TYPES: [u32; 2] = [0x0800, 0x86DD];
/// Extension headers of IPv6, after which the program does not look for ports.
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];

/// Builds the program for a device, whose Ethernet address is `ethernet_address`, and for the policies of IPv4 and IPv6. Omits the last
/// policies if the program would exceed the maximum length.
pub(super) fn program(
    ethernet_address: Option<[u8; 6]>,
    policies: &[BTreeMap<PolicyOrder, SteeredPolicy>; 2],
) -> Vec<Instruction> {
    let mut all = Vec::new();
    pass_unless(&mut all, LOAD, MARK, EXEMPT_MARK, false);
    if let Some([a, b, c, d, e, f]) = ethernet_address {
        // Frames with another source come from bridges and other network namespaces.
        pass_unless(&mut all, LOAD, LINK_HEADER + 6, u32::from_be_bytes([a, b, c, d]), true);
        pass_unless(&mut all, LOAD_HALF, LINK_HEADER + 10, u16::from_be_bytes([e, f]).into(), true);
    }
    let families = [false, true].map(|is_v6| {
        let mut section: Vec<_> = LINK_LOCAL_NETWORKS
            .iter()
            .filter(|link| link.address.is_ipv6() == is_v6)
            .flat_map(pass_neighbours)
            .collect();
        if is_v6 {
            section.extend(pass_neighbour_discovery());
        }
        for policy in policies[usize::from(is_v6)].values() {
            let Some(instructions) = policy_instructions(policy) else {
                // A later policy of a tunnel could stop these packets.
                if policy.passes {
                    break;
                }
                continue;
            };
            if section.len() + instructions.len() > MAX_INSTRUCTIONS / 2 - 16 {
                break;
            }
            section.extend(instructions);
        }
        section.push(return_verdict(VERDICT_NEXT));
        section
    });
    let [v4, v6] = families;
    all.push(instruction(LOAD, 0, 0, PROTOCOL));
    all.push(instruction(JUMP_IF_EQUAL, 2, 0, ETHER_TYPES[0]));
    all.push(instruction(JUMP_IF_EQUAL, 2, 0, ETHER_TYPES[1]));
    all.push(return_verdict(VERDICT_NEXT));
    all.push(instruction(JUMP, 0, 0, 1));
    all.push(instruction(JUMP, 0, 0, v4.len() as u32));
    all.extend(v4);
    all.extend(v6);
    all
}

fn return_verdict(verdict: u32) -> Instruction {
    instruction(RETURN, 0, 0, verdict)
}

/// Lets the packet pass, which ends the program, if the loaded value differs from `value` (`must_equal` is true) or equals it (false).
fn pass_unless(all: &mut Vec<Instruction>, load: u16, from: u32, value: u32, must_equal: bool) {
    let (jt, jf) = if must_equal { (1, 0) } else { (0, 1) };
    all.extend([
        instruction(load, 0, 0, from),
        instruction(JUMP_IF_EQUAL, jt, jf, value),
        return_verdict(VERDICT_NEXT),
    ]);
}

/// Lets packets to a network of neighbours pass.
fn pass_neighbours(network: &Prefix) -> Vec<Instruction> {
    join_checks(address_checks(network, true), VERDICT_NEXT)
}

/// Lets neighbour discovery pass.
fn pass_neighbour_discovery() -> Vec<Instruction> {
    let all = vec![
        Check::load(LOAD_BYTE, NETWORK_HEADER + 6, None, JUMP_IF_EQUAL, ICMPV6.into(), true),
        Check::load(LOAD_BYTE, NETWORK_HEADER + 40, None, JUMP_IF_AT_LEAST, 133, true),
        Check::load(LOAD_BYTE, NETWORK_HEADER + 40, None, JUMP_IF_ABOVE, 137, false),
    ];
    join_checks(all, VERDICT_NEXT)
}

/// A comparison of a part of the packet. A packet that fails it does not match.
struct Check {
    loads: Vec<Instruction>,
    jump: u16,
    value: u32,
    /// True if the comparison succeeds when the condition of `jump` is met, false if it succeeds when the condition is not met.
    succeeds_if_true: bool,
    /// True if a packet that fails the comparison counts as a match.
    matches_on_failure: bool,
}

impl Check {
    fn load(load: u16, from: u32, mask: Option<u32>, jump: u16, value: u32, succeeds_if_true: bool) -> Self {
        let mut loads = vec![instruction(load, 0, 0, from)];
        loads.extend(mask.map(|mask| instruction(AND, 0, 0, mask)));
        Self { loads, jump, value, succeeds_if_true, matches_on_failure: false }
    }
}

/// Joins comparisons. A packet that passes all of them gets the verdict; other packets continue with the instruction after the verdict.
fn join_checks(checks: Vec<Check>, verdict: u32) -> Vec<Instruction> {
    let total = checks.iter().map(|check| check.loads.len() + 1).sum::<usize>();
    let mut all = Vec::with_capacity(total + 1);
    for Check { loads, jump, value, succeeds_if_true, matches_on_failure } in checks {
        all.extend(loads);
        // The verdict follows all comparisons, and the next policy follows the verdict.
        let other = (total - all.len() - 1 + usize::from(!matches_on_failure)) as u8;
        let (jt, jf) = if succeeds_if_true { (0, other) } else { (other, 0) };
        all.push(instruction(jump, jt, jf, value));
    }
    all.push(return_verdict(verdict));
    all
}

/// Returns the instructions for a policy; `None` if the program cannot recognize its packets.
fn policy_instructions(policy: &SteeredPolicy) -> Option<Vec<Instruction>> {
    let Selector { source, destination, source_port, destination_port, protocol, interface_index, .. } =
        policy.selector;
    let mut checks = Vec::new();
    if interface_index != 0 {
        checks.push(Check::load(LOAD, INTERFACE, None, JUMP_IF_EQUAL, interface_index.cast_unsigned(), true));
    }
    checks.extend(address_checks(&source, false));
    checks.extend(address_checks(&destination, true));
    let is_v6 = destination.address.is_ipv6();
    if protocol != 0 {
        let at = NETWORK_HEADER + if is_v6 { 6 } else { 9 };
        if is_v6 && policy.passes {
            // Any protocol may follow an extension header.
            for extension in EXTENSIONS {
                let mut check = Check::load(LOAD_BYTE, at, None, JUMP_IF_EQUAL, extension.into(), false);
                check.matches_on_failure = true;
                checks.push(check);
            }
        }
        checks.push(Check::load(LOAD_BYTE, at, None, JUMP_IF_EQUAL, protocol.into(), true));
    }
    if source_port.mask | destination_port.mask != 0 {
        let is_icmp = [ICMP, ICMPV6].contains(&protocol);
        if !is_icmp && ![TCP, UDP, UDP_LITE, SCTP, DCCP].contains(&protocol) {
            return None;
        }
        if !is_v6 {
            // The ports of a later fragment are unknown.
            let mut check = Check::load(LOAD_HALF, NETWORK_HEADER + 6, None, JUMP_IF_SET, 0x1FFF, false);
            check.matches_on_failure = policy.passes;
            checks.push(check);
        }
        for (at, Port { value, mask }) in (0..).zip([source_port, destination_port]).filter(|(_, port)| port.mask != 0)
        {
            let (load, at) = if is_icmp { (LOAD_BYTE_AT, at) } else { (LOAD_HALF_AT, 2 * at) };
            let (mask, value) = (u32::from(mask), u32::from(value & mask));
            let length = if is_v6 {
                instruction(LOAD_INDEX, 0, 0, 40)
            } else {
                instruction(LOAD_IPV4_LENGTH, 0, 0, NETWORK_HEADER)
            };
            let loads = vec![length, instruction(load, 0, 0, NETWORK_HEADER + at), instruction(AND, 0, 0, mask)];
            checks.push(Check { loads, jump: JUMP_IF_EQUAL, value, succeeds_if_true: true, matches_on_failure: false });
        }
    }
    Some(join_checks(checks, if policy.passes { VERDICT_NEXT } else { VERDICT_DROP }))
}

/// Compares source or destination with a network.
fn address_checks(network: &Prefix, is_destination: bool) -> Vec<Check> {
    let (words, at): (Vec<u32>, u32) = match network.address {
        IpAddr::V4(address) => (vec![address.to_bits()], if is_destination { 16 } else { 12 }),
        IpAddr::V6(address) => {
            let word = |at: u32| (address.to_bits() >> (96 - 32 * at)) as u32;
            ((0..4).map(word).collect(), if is_destination { 24 } else { 8 })
        }
    };
    let bits = (0..).step_by(32).map(|before| u32::from(network.length).saturating_sub(before).min(32));
    let check = |((word, bits), at): ((u32, u32), u32)| {
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        (bits > 0).then(|| {
            let applied_mask = (bits < 32).then_some(mask);
            Check::load(LOAD, NETWORK_HEADER + at, applied_mask, JUMP_IF_EQUAL, word & mask, true)
        })
    };
    words.into_iter().zip(bits).zip((at..).step_by(4)).filter_map(check).collect()
}
