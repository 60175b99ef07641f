//! The routes that policies need.

use std::net::IpAddr;
use std::sync::Arc;

use gantry_abi_xfrm::{Action, Direction, Family, Policy, Prefix, Selector};
use nix::ifaddrs::getifaddrs;

use crate::guard::{LINK_LOCAL_NETWORKS, SteeredPolicy};
use crate::route::{DestinationRoutes, PolicyRoute};
use crate::table::{InstalledPolicy, Policies, masked, needs_sa, passes_unprotected};

/// Returns whether a policy holds back packets to neighbours only, which the guards let pass.
pub(crate) fn protects_neighbours(policy: &Policy) -> bool {
    let destination = policy.selector.destination;
    let is_within = |link: &Prefix| {
        destination.length >= link.length
            && masked(Prefix { length: link.length, ..destination }).address == link.address
    };
    policy.direction == Direction::Out && !passes_unprotected(policy) && LINK_LOCAL_NETWORKS.iter().any(is_within)
}

/// Returns the parts of a policy that the firewall needs.
pub(crate) fn steered_policy(policy: &InstalledPolicy) -> SteeredPolicy {
    let (order, policy) = (policy.order(), &policy.policy);
    let Policy { selector, direction, .. } = *policy;
    SteeredPolicy { selector, direction, order, passes: passes_unprotected(policy) }
}

/// Returns the route that a policy gives to packets of this host; `find_own_address` finds an address of this host in a network. Policies
/// that protect all packets from one address also give sockets that address.
pub(crate) fn policy_route(
    policy: &Policy,
    find_own_address: impl Fn(&Prefix) -> Option<IpAddr>,
) -> Option<PolicyRoute> {
    let selector = &policy.selector;
    if policy.direction != Direction::Out || passes_unprotected(policy) {
        return None;
    }
    let has_one_source = selector.source.length == Family::of(selector.source.address).bits();
    let has_all_protocols_and_ports =
        selector.protocol == 0 && selector.source_port.mask | selector.destination_port.mask == 0;
    let Prefix { address, length } = masked(selector.destination);
    let source = find_own_address(&selector.source);
    let precedes = has_one_source && has_all_protocols_and_ports && policy.action == Action::Allow && source.is_some();
    Some(PolicyRoute { destination: (address, length), source, precedes })
}

fn overlaps(one: &Prefix, other: &Prefix) -> bool {
    one.contains(other.address) || other.contains(one.address)
}

/// Returns whether at least a part of a network is protected.
fn is_partly_protected(network: &Prefix, protected: &[Prefix]) -> bool {
    protected.iter().any(|other| overlaps(other, network))
}

/// Returns whether packets may match both selectors. Compares addresses only.
fn may_share_packets(one: &Selector, other: &Selector) -> bool {
    overlaps(&one.source, &other.source) && overlaps(&one.destination, &other.destination)
}

/// Returns whether the result of [`compute_destination_routes`] depends on a policy for outgoing packets, if a firewall steers packets. Few
/// policies matter, so the time to install a policy does not grow with the number of policies.
pub(crate) fn affects_destination_routes(policy: &Policy, policies: &Policies, protected: &[Prefix]) -> bool {
    if protected.is_empty() {
        return false;
    }
    let selector = &policy.selector;
    if passes_unprotected(policy) {
        return is_partly_protected(&selector.destination, protected);
    }
    // Such a policy gives a route its source, or keeps packets from passing.
    protected.contains(&masked(selector.destination))
        || policies
            .passing()
            .map(|passing| &passing.policy.selector)
            .any(|passing| is_partly_protected(&passing.destination, protected) && may_share_packets(passing, selector))
}

/// Computes the routes by destination. Packets to `protected` enter the tunnel. Unless `firewall_steers`, packets to destinations of
/// policies with SAs enter the tunnel, too. Packets of policies without SAs pass unprotected.
pub(crate) fn compute_destination_routes<'p>(
    policies: impl Iterator<Item = &'p Arc<InstalledPolicy>>,
    protected: &[Prefix],
    own_addresses: &[IpAddr],
    firewall_steers: bool,
) -> DestinationRoutes {
    let mut routes = DestinationRoutes::default();
    for Prefix { address, length } in protected {
        routes.tunnel_destinations.insert((*address, *length), None);
    }
    let mut outbound: Vec<_> = policies.map(|policy| &policy.policy).collect();
    outbound.retain(|policy| policy.direction == Direction::Out);
    outbound.sort_by_key(|policy| policy.priority);
    for (index, policy) in outbound.iter().enumerate() {
        let selector = &policy.selector;
        if passes_unprotected(policy) {
            if firewall_steers && !is_partly_protected(&selector.destination, protected) {
                continue;
            }
            // A rule would also let packets pass that an earlier policy protects or blocks. So this policy gets no rule, and packets of
            // this policy are refused.
            let is_overridden = outbound[..index].iter().any(|other| {
                let protects_or_blocks = other.action == Action::Block || needs_sa(other);
                protects_or_blocks && may_share_packets(&other.selector, selector)
            });
            if !is_overridden {
                routes.pass_selectors.push(*selector);
            }
            continue;
        }
        let source = || own_addresses.iter().copied().find(|address| selector.source.contains(*address));
        let Prefix { address, length } = masked(selector.destination);
        if !firewall_steers {
            routes.tunnel_destinations.entry((address, length)).or_default();
        }
        if let Some(entry) = routes.tunnel_destinations.get_mut(&(address, length)) {
            *entry = entry.or_else(source);
        }
    }
    routes
}

/// Returns the addresses of this host.
pub(crate) fn host_addresses() -> Vec<IpAddr> {
    let address = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|address| IpAddr::from(address.ip())))
    };
    // If the list cannot be read, it counts as empty: SAs then count as outgoing, and routes name no source.
    getifaddrs().into_iter().flatten().filter_map(|interface| address(interface.address?)).collect()
}

/// Parses a network such as `10.2.0.0/16`, or a single address.
///
/// # Errors
/// A description of the mistake.
pub fn parse_network(text: &str) -> Result<Prefix, String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| format!("{address} is not an IP address"))?;
    let max_length = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(max_length), str::parse).ok().filter(|length| *length <= max_length);
    let prefix = Prefix {
        address,
        length: length.ok_or_else(|| format!("the prefix length must be between 0 and {max_length}"))?,
    };
    let network = masked(prefix);
    if network == prefix { Ok(prefix) } else { Err(format!("did you mean {}/{}?", network.address, network.length)) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::Usage;
    use gantry_abi_xfrm::{Family, Mode, Policy, SaId, Selector, Template};
    use std::sync::atomic::AtomicU64;

    fn installed(policy: Policy) -> Arc<InstalledPolicy> {
        Arc::new(InstalledPolicy { policy, added: 0, usage: Usage::default(), last_request_ms: AtomicU64::default() })
    }

    /// Builds a policy from one network to another; with a template it protects, without one it passes.
    pub(crate) fn policy(from: &str, to: &str, priority: u32, protects: bool) -> Arc<InstalledPolicy> {
        let (source, destination) = (parse_network(from).unwrap(), parse_network(to).unwrap());
        let selector = Selector { source, destination, ..Selector::any(Family::of(source.address)) };
        let mut policy = Policy::new(selector, Direction::Out);
        policy.priority = priority;
        let id = SaId { destination: [192, 0, 2, 1].into(), spi: 0, protocol: 50 };
        let template = Template {
            id,
            source: [192, 0, 2, 2].into(),
            reqid: 1,
            mode: Mode::Tunnel,
            share: 0,
            optional: false,
            authentications: 0,
            ciphers: 0,
            compressions: 0,
        };
        policy.templates = if protects { vec![template] } else { Vec::new() };
        installed(policy)
    }

    #[test]
    fn destinations_of_policies_lead_into_the_tunnel_with_an_address_of_the_source() {
        let own_addresses = [[192, 168, 1, 5], [10, 1, 0, 7]].map(IpAddr::from);
        let routes = compute_destination_routes(
            [policy("10.1.0.0/16", "10.2.0.0/16", 1, true)].iter(),
            &[parse_network("10.9.0.0/16").unwrap()],
            &own_addresses,
            false,
        );
        let tunnel: Vec<_> = routes.tunnel_destinations.into_iter().collect();
        let route = |address: [u8; 4], source: Option<[u8; 4]>| ((IpAddr::from(address), 16), source.map(IpAddr::from));
        assert_eq!(tunnel, [route([10, 2, 0, 0], Some([10, 1, 0, 7])), route([10, 9, 0, 0], None)]);
        assert!(routes.pass_selectors.is_empty());
    }

    #[test]
    fn policies_for_neighbours_only_cannot_protect() {
        let is_refused = |to: &str, protects| protects_neighbours(&policy("0.0.0.0/0", to, 1, protects).policy.clone());
        for to in ["169.254.1.2/32", "169.254.0.0/16", "224.0.0.5/32"] {
            assert!(is_refused(to, true) && !is_refused(to, false), "{to}");
        }
        for to in ["0.0.0.0/0", "169.0.0.0/8", "224.0.1.0/24", "10.2.0.0/16"] {
            assert!(!is_refused(to, true), "{to}");
        }
        let to_router = |protects| policy("::/0", "fe80::1/128", 1, protects).policy.clone();
        assert!(protects_neighbours(&to_router(true)));
        assert!(!protects_neighbours(&Policy { direction: Direction::In, ..to_router(true) }));
        assert!(protects_neighbours(&Policy { action: Action::Block, ..to_router(false) }));
    }

    #[test]
    fn a_pass_policy_applies_only_before_overlapping_protection() {
        let all = policy("0.0.0.0/0", "0.0.0.0/0", 10, true);
        let local = |priority| policy("192.168.1.0/24", "192.168.1.0/24", priority, false);
        assert_eq!(
            compute_destination_routes([all.clone(), local(5)].iter(), &[], &[], false).pass_selectors,
            [local(5).policy.selector]
        );
        assert!(
            compute_destination_routes([all.clone(), local(20)].iter(), &[], &[], false).pass_selectors.is_empty(),
            "the policy before it covers its packets"
        );
        assert_eq!(
            compute_destination_routes(
                [local(20), policy("10.1.0.0/16", "10.2.0.0/16", 1, true)].iter(),
                &[],
                &[],
                false
            )
            .pass_selectors
            .len(),
            1
        );
    }

    #[test]
    fn policies_that_do_not_matter_change_no_route() {
        let protected = [parse_network("10.2.0.0/16").unwrap()];
        let own_addresses = [IpAddr::from([10, 1, 0, 7])];
        let mut choices = Vec::new();
        for to in ["10.2.0.0/16", "10.2.3.0/24", "10.9.0.0/16"] {
            for (from, priority) in [("10.1.0.0/16", 1), ("10.1.0.0/16", 9), ("172.16.0.0/12", 5)] {
                let [passes, protects] =
                    [false, true].map(|protects| policy(from, to, priority, protects).policy.clone());
                let blocks = Policy { action: Action::Block, ..passes.clone() };
                choices.extend([passes, protects, blocks]);
            }
        }
        let mut unimportant = 0;
        for first in &choices {
            for second in &choices {
                let mut policies = Policies::default();
                for policy in [first, second] {
                    policies.add(policy.clone(), true).unwrap();
                }
                let before = compute_destination_routes(policies.all(), &protected, &own_addresses, true);
                for third in &choices {
                    let mut policies = policies.clone();
                    let old = policies.find(&third.selector, Direction::Out).cloned();
                    policies.add(third.clone(), true).unwrap();
                    let old = old.as_ref().map(|old| &old.policy);
                    if old
                        .into_iter()
                        .chain([third])
                        .any(|policy| affects_destination_routes(policy, &policies, &protected))
                    {
                        continue;
                    }
                    unimportant += 1;
                    assert_eq!(
                        compute_destination_routes(policies.all(), &protected, &own_addresses, true),
                        before,
                        "{third:?}"
                    );
                }
            }
        }
        assert!(unimportant > 1000, "{unimportant}");
    }

    #[test]
    fn networks_are_parsed_and_mistakes_are_named() {
        assert_eq!(parse_network("10.2.0.0/16"), Ok(Prefix { address: [10, 2, 0, 0].into(), length: 16 }));
        assert_eq!(parse_network("fd00::1").map(|prefix| prefix.length), Ok(128));
        assert_eq!(parse_network("0.0.0.0/0").map(|prefix| prefix.length), Ok(0));
        assert_eq!(parse_network("10.2.0.1/16"), Err("did you mean 10.2.0.0/16?".to_owned()));
        assert!(
            parse_network("10.2.0.0/33").is_err()
                && parse_network("ten/8").is_err()
                && parse_network("10.0.0.0/").is_err()
        );
    }
}
