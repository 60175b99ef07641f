//! The chains of the table: some steer packets into the tunnel's device, others stop packets that bypass the tunnel, in either direction.

use gantry_abi_xfrm::Direction;

use super::Table;
use super::rules::{
    ACCEPT, AT_LEAST, AT_MOST, DELTABLE, DROP, EQUAL, IIFNAME, MARK, NEWTABLE, OIFNAME, Rule, TABLE, TABLE_NAME,
    TRANSPORT, base_chain, message, plain_chain,
};
use super::shape::Shape;
use crate::guard::{ARRIVED_MARK, EXEMPT_MARK, LINK_LOCAL_NETWORKS, MARKS_MASK, RETURNING_MARK, STEERED_MARK};
use crate::netlink::CREATE;
use crate::packet::ip::{ICMPV6, UDP};

/// The attribute for a table's flags, and two flags: only the owner's socket may change the table; the table outlives that socket.
const TABLE_FLAGS: u16 = 2;
const OWNER: u32 = 2;
const PERSIST: u32 = 4;

// Hooks of linux/netfilter.h.
const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;
/// Priorities of chains among those of linux/netfilter_ipv4.h: before all filters, after DNAT, before SNAT, and after all filters.
const PRIORITY_FIRST: i32 = -300;
const PRIORITY_AFTER_DNAT: i32 = -90;
const PRIORITY_BEFORE_SNAT: i32 = 0;
const PRIORITY_LAST: i32 = 300;

impl Table {
    /// Returns the messages that replace any table of this name. The first one creates a missing table, because the deletion of a missing
    /// table would fail.
    pub(super) fn messages(&self, is_owned: bool) -> Vec<Vec<u8>> {
        let table = |kind, flags| message(kind, flags).text(TABLE_NAME, TABLE);
        let new = table(NEWTABLE, CREATE);
        let new = if is_owned { new.number_be(TABLE_FLAGS, OWNER | PERSIST) } else { new };
        let mut all = vec![table(NEWTABLE, CREATE).finish(), table(DELTABLE, 0).finish(), new.finish()];
        let mut ids = 1..;
        for ((shape, keys), id) in self.protected.iter().zip(&mut ids) {
            all.extend(shape.set_messages(&protected_name(shape), keys.iter().map(Vec::as_slice), id));
        }
        all.extend(self.layers.iter().flat_map(|layers| layers.set_messages(&mut ids)));
        for (name, rules) in [
            (STEER_CHAIN, steer_rules(&self.tun_name)),
            (PASS_CHAIN, self.pass_rules()),
            (IN_CLEAR_CHAIN, in_clear_rules(self.esp_port)),
        ] {
            all.push(plain_chain(name));
            all.extend(rules.into_iter().map(|rule| rule.append_to(name)));
        }
        let base = [
            ("output", "route", OUTPUT, PRIORITY_LAST, self.output_rules()),
            ("arriving", "filter", PREROUTING, PRIORITY_AFTER_DNAT, self.prerouting_rules()),
            ("received", "filter", INPUT, PRIORITY_FIRST, self.received_rules(Direction::In)),
            ("forwarded", "filter", FORWARD, PRIORITY_FIRST, self.received_rules(Direction::Forward)),
            ("leaving", "filter", POSTROUTING, PRIORITY_BEFORE_SNAT, self.leaving_rules()),
            ("translated", "filter", POSTROUTING, PRIORITY_LAST, self.leaving_rules()),
        ];
        for (name, kind, hook, priority, rules) in base {
            all.push(base_chain(name, kind, hook, priority));
            all.extend(rules.into_iter().map(|rule| rule.append_to(name)));
        }
        all
    }

    /// Steers packets of this host. The kernel has already routed them once, before they got a mark here. Packets of unbound sockets got
    /// their source address then.
    fn output_rules(&self) -> Vec<Rule> {
        let mut all = vec![Rule::new().device(OIFNAME, "lo").verdict(ACCEPT), exempt_rule(), clear_marks_rule()];
        all.extend(neighbour_rules());
        all.extend(self.steering_rules(true));
        // Other packets to protected networks stay in the tunnel's device, which refuses them.
        all.extend(self.to_protected_rules().map(|rule| rule.verdict(ACCEPT)));
        all.push(Rule::new().go_to(PASS_CHAIN));
        all
    }

    /// Steers packets that may have to be forwarded, before they are routed.
    fn prerouting_rules(&self) -> Vec<Rule> {
        let mut all = vec![Rule::new().device(IIFNAME, "lo").verdict(ACCEPT), clear_marks_rule()];
        // By this mark, the reverse-path filter of IPv4 finds the source of such a packet behind the tunnel's device.
        all.push(Rule::new().family(0).device(IIFNAME, &self.tun_name).set_mark(ARRIVED_MARK));
        all.push(Rule::new().not_unicast().verdict(ACCEPT));
        all.extend(neighbour_rules());
        all.extend(self.steering_rules(false));
        all
    }

    fn steering_rules(&self, looks_at_interface: bool) -> Vec<Rule> {
        let layers = &self.layers[Direction::Out as usize];
        layers.rules(looks_at_interface, |rule, passes| rule.go_to(if passes { PASS_CHAIN } else { STEER_CHAIN }))
    }

    /// Drops packets that arrive in clear although a policy protects them (RFC 4301, 5.2; `xfrm_policy_check` of Linux).
    fn received_rules(&self, direction: Direction) -> Vec<Rule> {
        let mut all = vec![clear_marks_rule()];
        all.extend(self.exempt_device_rules(IIFNAME));
        let is_received = direction == Direction::In;
        let end = |rule: Rule, passes: bool| {
            if is_received && !passes { rule.go_to(IN_CLEAR_CHAIN) } else { accept_or_drop(rule, passes) }
        };
        // Packets to this host have no outgoing device. So a policy with an interface never matches them, as in Linux.
        all.extend(self.layers[direction as usize].rules(true, end));
        all
    }

    /// Drops packets that leave by a device other than the tunnel's although they belong in the tunnel.
    fn leaving_rules(&self) -> Vec<Rule> {
        let mut all: Vec<Rule> = self.exempt_device_rules(OIFNAME).into();
        all.push(exempt_rule());
        all.extend(neighbour_rules());
        all.extend(self.layers[Direction::Out as usize].rules(true, accept_or_drop));
        all.extend(self.to_protected_rules().map(|rule| accept_or_drop(rule, false)));
        all
    }

    /// Marks packets that may pass unprotected, so that they skip the routes into the tunnel. The mark is for packets that such a route
    /// would catch: packets already routed to the tunnel's device, and packets to protected networks.
    fn pass_rules(&self) -> Vec<Rule> {
        let mut all = vec![Rule::new().device(OIFNAME, &self.tun_name).set_mark(EXEMPT_MARK)];
        all.extend(self.to_protected_rules().map(|rule| rule.set_mark(EXEMPT_MARK)));
        all
    }

    fn to_protected_rules(&self) -> impl Iterator<Item = Rule> {
        self.protected.keys().flat_map(|shape| shape.rules(&protected_name(shape), false))
    }

    /// Accepts packets of the loopback device and of the tunnel's device.
    fn exempt_device_rules(&self, key: u32) -> [Rule; 2] {
        ["lo", &*self.tun_name].map(|name| Rule::new().device(key, name).verdict(ACCEPT))
    }
}

/// Adds the effect to a rule: its packets are accepted if `passes`; if not, they are counted and dropped.
fn accept_or_drop(rule: Rule, passes: bool) -> Rule {
    if passes { rule.verdict(ACCEPT) } else { rule.count().verdict(DROP) }
}

/// The chains for packets that belong in the tunnel, for packets that do not, and for packets that arrived in clear although a policy
/// protects them.
const STEER_CHAIN: &str = "steer";
const PASS_CHAIN: &str = "pass";
const IN_CLEAR_CHAIN: &str = "in_clear";

/// Marks packets for the tunnel's device. Packets that also arrived through the tunnel get a mark of their own.
fn steer_rules(tun_name: &str) -> Vec<Rule> {
    let returning = Rule::new().device(IIFNAME, tun_name).set_mark(RETURNING_MARK).verdict(ACCEPT);
    vec![returning, Rule::new().set_mark(STEERED_MARK)]
}

/// Drops packets to this host, except packets of ESP and IKE, and packets to link-local networks and of neighbour discovery.
fn in_clear_rules(esp_port: u16) -> Vec<Rule> {
    const ESP: u8 = 50;
    const IKE: u16 = 500;
    let to = |port: u16| Rule::new().protocol(UDP).payload(TRANSPORT, 2, 2).compare(EQUAL, &port.to_be_bytes());
    // ESP in UDP may be fragmented. IPv4 reassembles packets before this hook, IPv6 after it, and later fragments have no ports.
    let fragment = Rule::new().family(1).protocol(UDP).later_fragment(1);
    let accepted = [Rule::new().protocol(ESP), to(IKE), to(esp_port), fragment].map(|rule| rule.verdict(ACCEPT));
    accepted.into_iter().chain(neighbour_rules()).chain([accept_or_drop(Rule::new(), false)]).collect()
}

/// Accepts packets of the data path and of IKE.
fn exempt_rule() -> Rule {
    Rule::new().meta(MARK).compare(EQUAL, &EXEMPT_MARK.to_ne_bytes()).verdict(ACCEPT)
}

/// Clears our marks. Rules of other programs may have copied such a mark from an earlier packet (CONNMARK). Rules that follow may not know
/// our marks.
fn clear_marks_rule() -> Rule {
    let ours = Rule::new().meta(MARK).mask(&MARKS_MASK.to_ne_bytes()).compare(EQUAL, &EXEMPT_MARK.to_ne_bytes());
    ours.set_mark(0)
}

/// Accepts packets to neighbours: link-local networks, and neighbour discovery (RFC 4861).
fn neighbour_rules() -> Vec<Rule> {
    let networks = LINK_LOCAL_NETWORKS.iter().map(|network| {
        let family = usize::from(network.address.is_ipv6());
        Rule::new().family(family).destination(network).verdict(ACCEPT)
    });
    let discovery = Rule::new().family(1).protocol(ICMPV6).payload(TRANSPORT, 0, 1);
    let discovery = discovery.compare(AT_LEAST, &[133]).compare(AT_MOST, &[137]).verdict(ACCEPT);
    networks.chain([discovery]).collect()
}

fn protected_name(shape: &Shape) -> String {
    format!("protected_{}", shape.name())
}
