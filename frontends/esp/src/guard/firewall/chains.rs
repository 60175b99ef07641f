//! The chains of the table: some steer packets into the tunnel's device, others stop packets that bypass the tunnel, in either direction.

use gantry_abi_xfrm::Direction;

use super::Table;
use super::rules::{
    ACCEPT, AT_LEAST, AT_MOST, DELTABLE, DROP, EQUAL, IIFNAME, MARK, NEWTABLE, OIFNAME, Rule, TABLE, TABLE_NAME,
    TRANSPORT, base_chain, message, plain_chain,
};
use super::shape::Shape;
use crate::guard::{ARRIVED, EXEMPT_MARK, LINK, MARKS, RETURNING, STEERED};
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
/// Priorities of chains, relative to the priorities in linux/netfilter_ipv4.h: before all filters, after DNAT, before SNAT, and after all
/// filters.
const FIRST: i32 = -300;
const BEHIND_DESTINATION_NAT: i32 = -90;
const BEFORE_SOURCE_NAT: i32 = 0;
const LAST: i32 = 300;

impl Table {
    /// Returns the messages that replace any table of this name.
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
        for (name, rules) in [(STEER, steer(&self.device)), (PASS, self.pass()), (IN_CLEAR, in_clear(self.esp_port))] {
            all.push(plain_chain(name));
            all.extend(rules.into_iter().map(|rule| rule.append_to(name)));
        }
        let base = [
            ("output", "route", OUTPUT, LAST, self.output()),
            ("arriving", "filter", PREROUTING, BEHIND_DESTINATION_NAT, self.arriving()),
            ("received", "filter", INPUT, FIRST, self.arrived(Direction::In)),
            ("forwarded", "filter", FORWARD, FIRST, self.arrived(Direction::Forward)),
            ("leaving", "filter", POSTROUTING, BEFORE_SOURCE_NAT, self.leaving()),
            ("translated", "filter", POSTROUTING, LAST, self.leaving()),
        ];
        for (name, kind, hook, priority, rules) in base {
            all.push(base_chain(name, kind, hook, priority));
            all.extend(rules.into_iter().map(|rule| rule.append_to(name)));
        }
        all
    }

    /// Steers packets of this host. The kernel has already routed them once, without a mark, which gave them their source address.
    fn output(&self) -> Vec<Rule> {
        let mut all = vec![Rule::new().device(OIFNAME, "lo").verdict(ACCEPT), exempt(), clear()];
        all.extend(link());
        all.extend(self.steering(true));
        // Other packets to protected networks stay in the tunnel's device, which refuses them.
        all.extend(self.to_protected().map(|rule| rule.verdict(ACCEPT)));
        all.push(Rule::new().go_to(PASS));
        all
    }

    /// Steers packets that may have to be forwarded, before they are routed.
    fn arriving(&self) -> Vec<Rule> {
        let mut all = vec![Rule::new().device(IIFNAME, "lo").verdict(ACCEPT), clear()];
        // The reverse-path filter looks up the source's device with the packet's mark.
        all.push(Rule::new().family(0).device(IIFNAME, &self.device).set_mark(ARRIVED));
        all.push(Rule::new().not_unicast().verdict(ACCEPT));
        all.extend(link());
        all.extend(self.steering(false));
        all
    }

    fn steering(&self, looks_at_interface: bool) -> Vec<Rule> {
        let layers = &self.layers[Direction::Out as usize];
        layers.rules(looks_at_interface, |rule, passes| rule.go_to(if passes { PASS } else { STEER }))
    }

    /// Drops packets that arrive in clear although a policy protects them (RFC 4301, 5.2; `xfrm_policy_check` of Linux).
    fn arrived(&self, direction: Direction) -> Vec<Rule> {
        let mut all = vec![clear()];
        all.extend(self.exempt_devices(IIFNAME));
        // Packets to this host have no outgoing device, so no such packet matches a policy with an interface, as in Linux.
        let is_received = direction == Direction::In;
        let end =
            |rule: Rule, passes: bool| if is_received && !passes { rule.go_to(IN_CLEAR) } else { end(rule, passes) };
        all.extend(self.layers[direction as usize].rules(true, end));
        all
    }

    /// Stops packets that leave by a device other than the tunnel's although they belong into the tunnel.
    fn leaving(&self) -> Vec<Rule> {
        let mut all: Vec<Rule> = self.exempt_devices(OIFNAME).into();
        all.push(exempt());
        all.extend(link());
        all.extend(self.layers[Direction::Out as usize].rules(true, end));
        all.extend(self.to_protected().map(|rule| end(rule, false)));
        all
    }

    /// Makes packets skip the routes into the tunnel: packets that got their source from such a route, and packets to protected networks.
    fn pass(&self) -> Vec<Rule> {
        let mut all = vec![Rule::new().device(OIFNAME, &self.device).set_mark(EXEMPT_MARK)];
        all.extend(self.to_protected().map(|rule| rule.set_mark(EXEMPT_MARK)));
        all
    }

    fn to_protected(&self) -> impl Iterator<Item = Rule> {
        self.protected.keys().flat_map(|shape| shape.rules(&protected_name(shape), false))
    }

    /// Accepts packets of the loopback device and of the tunnel's device.
    fn exempt_devices(&self, key: u32) -> [Rule; 2] {
        ["lo", &*self.device].map(|name| Rule::new().device(key, name).verdict(ACCEPT))
    }
}

/// Adds the effect to a rule: its packets are accepted if `passes`; if not, they are counted and dropped.
fn end(rule: Rule, passes: bool) -> Rule {
    if passes { rule.verdict(ACCEPT) } else { rule.count().verdict(DROP) }
}

/// The chains for packets that belong into the tunnel, for packets that do not, and for packets that arrived in clear although a policy
/// protects them.
const STEER: &str = "steer";
const PASS: &str = "pass";
const IN_CLEAR: &str = "in_clear";

fn steer(device: &str) -> Vec<Rule> {
    let returning = Rule::new().device(IIFNAME, device).set_mark(RETURNING).verdict(ACCEPT);
    vec![returning, Rule::new().set_mark(STEERED)]
}

/// Drops packets to this host, except packets of ESP and IKE, and packets to link-local networks and of neighbour discovery.
fn in_clear(esp_port: u16) -> Vec<Rule> {
    const ESP: u8 = 50;
    const IKE: u16 = 500;
    let to = |port: u16| Rule::new().protocol(UDP).payload(TRANSPORT, 2, 2).compare(EQUAL, &port.to_be_bytes());
    // ESP in UDP may be fragmented. In IPv4 fragments have been reassembled here.
    let fragment = Rule::new().family(1).protocol(UDP).later_fragment(1);
    let carriers = [Rule::new().protocol(ESP), to(IKE), to(esp_port), fragment].map(|rule| rule.verdict(ACCEPT));
    carriers.into_iter().chain(link()).chain([end(Rule::new(), false)]).collect()
}

/// Accepts packets of the data path and of IKE.
fn exempt() -> Rule {
    Rule::new().meta(MARK).compare(EQUAL, &EXEMPT_MARK.to_ne_bytes()).verdict(ACCEPT)
}

/// Clears our marks, which other programs' rules may have copied from an earlier packet, or may not know.
fn clear() -> Rule {
    let ours = Rule::new().meta(MARK).mask(&MARKS.to_ne_bytes()).compare(EQUAL, &EXEMPT_MARK.to_ne_bytes());
    ours.set_mark(0)
}

/// Accepts packets to neighbours: link-local networks, and neighbour discovery (RFC 4861).
fn link() -> Vec<Rule> {
    let networks = LINK.iter().map(|network| {
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
