//! Messages of rtnetlink about rules, routes, nexthops and devices: builds requests, and parses answers and notifications.

use std::net::IpAddr;

use gantry_abi_xfrm::{Family, Prefix, Selector};

use super::{
    AFTER_TABLES_PRIORITY, NEXTHOP_ID, PASS_PRIORITY, PROTECTED_TABLE, TABLES, TUNNEL_METRIC, UNREACHABLE_METRIC,
};
use crate::netlink::{ACK, Message, attribute};

// linux/rtnetlink.h, linux/fib_rules.h, linux/nexthop.h
pub(super) const RTM_NEWLINK: u16 = 16;
pub(super) const RTM_GETLINK: u16 = 18;
pub(super) const RTM_NEWROUTE: u16 = 24;
pub(super) const RTM_DELROUTE: u16 = 25;
pub(super) const RTM_GETROUTE: u16 = 26;
pub(super) const RTM_NEWRULE: u16 = 32;
pub(super) const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
pub(super) const RTM_DELQDISC: u16 = 37;
pub(super) const RTM_DELTFILTER: u16 = 45;
pub(super) const RTM_NEWNEXTHOP: u16 = 104;
pub(super) const RTM_DELNEXTHOP: u16 = 105;
const NHA_ID: u16 = 1;
const NHA_BLACKHOLE: u16 = 4;
/// Pairs of requests: list, and delete.
pub(super) const ROUTE_REQUESTS: (u16, u16) = (RTM_GETROUTE, RTM_DELROUTE);
pub(super) const RULE_REQUESTS: (u16, u16) = (RTM_GETRULE, RTM_DELRULE);
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_TABLE: u16 = 15;
const RTA_NH_ID: u16 = 30;
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const ACTION_TABLE: u8 = 1;
const ACTION_GOTO: u8 = 2;
const ACTION_NOP: u8 = 3;
/// The flag that makes a rule apply to exactly the packets that it would not match without the flag.
const INVERT: u32 = 2;
const UNICAST: u8 = 1;
const BLACKHOLE: u8 = 6;
const UNREACHABLE: u8 = 7;
/// The routing table of this host's own addresses (RT_TABLE_LOCAL).
const LOCAL_TABLE: u32 = 255;
/// Origin of a route: the administrator (RTPROT_STATIC).
const STATIC_ORIGIN: u8 = 4;
const V4: u8 = libc::AF_INET as u8;
pub(super) const FAMILIES: [u8; 2] = [V4, libc::AF_INET6 as u8];
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_IFALIAS: u16 = 20;
const IFLA_AF_SPEC: u16 = 26;
/// The alias of a data path's device, by which other data paths find it.
const ALIAS: &[u8] = b"gantry esp";
/// Bytes of `struct ifinfomsg`.
pub(super) const IFINFOMSG_BYTES: usize = 16;

/// Returns the structure of a request for all rules or routes of a family.
pub(super) fn family_request(family: u8) -> [u8; 12] {
    [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// Returns the structure of a request for the routes to this host's own addresses. Without NETLINK_GET_STRICT_CHK, a socket gets
/// the routes of all tables.
pub(super) fn local_request(family: u8) -> [u8; 12] {
    [family, 0, 0, 0, LOCAL_TABLE as u8, 0, 0, 0, 0, 0, 0, 0]
}

/// Returns a 32-bit attribute of a rule or a route. The structure in front of the attributes has 12 bytes in both.
fn number_attribute(body: &[u8], kind: u16) -> Option<u32> {
    attribute(body.get(12..)?, kind)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn destination(route: &[u8]) -> Option<(IpAddr, u8)> {
    let bytes = attribute(route.get(12..)?, RTA_DST).unwrap_or_default();
    let address = match route[0] {
        V4 => IpAddr::from(bytes.first_chunk::<4>().copied().unwrap_or_default()),
        _ => IpAddr::from(bytes.first_chunk::<16>().copied().unwrap_or_default()),
    };
    Some((address, route[1]))
}

/// Returns the destination of an unreachable route of the table of protected networks.
pub(super) fn unreachable_destination(route: &[u8]) -> Option<(IpAddr, u8)> {
    destination(route)
        .filter(|_| number_attribute(route, RTA_TABLE) == Some(PROTECTED_TABLE) && route[7] == UNREACHABLE)
}

/// Returns the destination of a route to this host: a local, broadcast or anycast address.
pub(super) fn local_destination(route: &[u8]) -> Option<(IpAddr, u8)> {
    const LOCAL_BROADCAST_ANYCAST: std::ops::RangeInclusive<u8> = 2..=4;
    destination(route).filter(|_| is_local_route(route) && LOCAL_BROADCAST_ANYCAST.contains(&route[7]))
}

/// Returns whether a route is in one of our tables.
pub(super) fn is_our_route(body: &[u8]) -> bool {
    number_attribute(body, RTA_TABLE).is_some_and(|table| TABLES.contains(&table))
}

/// Returns whether a route is in the table of this host's own addresses.
pub(super) fn is_local_route(body: &[u8]) -> bool {
    number_attribute(body, RTA_TABLE) == Some(LOCAL_TABLE)
}

/// Returns whether a rule of these priorities is ours: it leads to one of our tables, or skips them.
pub(super) fn is_our_rule(body: &[u8], priorities: impl Fn(u32) -> bool) -> bool {
    let is_ours = match body.get(7) {
        Some(&ACTION_TABLE) => number_attribute(body, FRA_TABLE).is_some_and(|table| TABLES.contains(&table)),
        Some(&ACTION_GOTO) => number_attribute(body, FRA_GOTO) == Some(AFTER_TABLES_PRIORITY),
        Some(&action) => action == ACTION_NOP,
        None => false,
    };
    is_ours && number_attribute(body, FRA_PRIORITY).is_some_and(priorities)
}

/// Returns whether a nexthop is ours.
pub(super) fn is_our_nexthop(body: &[u8]) -> bool {
    body.get(8..).and_then(|attributes| attribute(attributes, NHA_ID)) == Some(&NEXTHOP_ID.to_ne_bytes())
}

/// Returns whether a message is about this device.
pub(super) fn is_device(body: &[u8], interface: u32) -> bool {
    body.get(4..8) == Some(&interface.to_ne_bytes())
}

/// Builds a request that brings the data path's device up (`struct ifinfomsg`). The reverse-path filter then looks
/// at the marks of its packets (the sysctl `src_valid_mark`).
pub(super) fn bring_up(interface: u32, mtu: u32) -> Vec<u8> {
    const IFLA_INET_CONF: u16 = 1;
    const SRC_VALID_MARK: u16 = 24;
    let flag = (libc::IFF_UP as u32).to_ne_bytes();
    let structure = [[0; 4], interface.to_ne_bytes(), flag, flag].concat();
    let settings = Message::content().nested(IFLA_INET_CONF, &Message::content().number(SRC_VALID_MARK, 1));
    let family = Message::content().nested(libc::AF_INET as u16, &settings);
    let message = Message::new(RTM_NEWLINK, ACK).structure(&structure).number(IFLA_MTU, mtu);
    message.attribute(IFLA_IFALIAS, ALIAS).nested(IFLA_AF_SPEC, &family).finish()
}

/// Returns the name of a device that belongs to a data path.
pub(super) fn data_path_device(body: &[u8]) -> Option<String> {
    let attributes = body.get(IFINFOMSG_BYTES..)?;
    let text = |kind| attribute(attributes, kind).map(|text| text.strip_suffix(&[0]).unwrap_or(text));
    let name = text(IFLA_IFNAME).filter(|_| text(IFLA_IFALIAS) == Some(ALIAS))?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Builds a request that keeps the kernel from generating an IPv6 link-local address for a device, which it would
/// announce to neighbours.
pub(super) fn disable_generated_address(interface: u32) -> Vec<u8> {
    const ADDR_GEN_MODE: u16 = 8;
    const NONE: u8 = 1;
    let structure = [[0; 4], interface.to_ne_bytes(), [0; 4], [0; 4]].concat();
    let mode = Message::content().attribute(ADDR_GEN_MODE, &[NONE]);
    let family = Message::content().nested(libc::AF_INET6 as u16, &mode);
    Message::new(RTM_NEWLINK, ACK).structure(&structure).nested(IFLA_AF_SPEC, &family).finish()
}

/// A route of one of our tables (`struct rtmsg`).
pub(super) struct Route {
    table: u32,
    destination: (IpAddr, u8),
    kind: u8,
    metric: u32,
    interface: Option<u32>,
    nexthop: Option<u32>,
    source: Option<IpAddr>,
}

impl Route {
    pub(super) fn tunnel(table: u32, destination: (IpAddr, u8), source: Option<IpAddr>, interface: u32) -> Self {
        Self {
            kind: UNICAST,
            metric: TUNNEL_METRIC,
            interface: Some(interface),
            source,
            ..Self::unreachable(table, destination)
        }
    }

    pub(super) fn unreachable(table: u32, destination: (IpAddr, u8)) -> Self {
        Self {
            table,
            destination,
            kind: UNREACHABLE,
            metric: UNREACHABLE_METRIC,
            interface: None,
            nexthop: None,
            source: None,
        }
    }

    /// Builds an IPv6 blackhole route that applies to every device, because it uses our [nexthop].
    pub(super) fn blackhole(table: u32, destination: (IpAddr, u8)) -> Self {
        Self {
            kind: BLACKHOLE,
            metric: UNREACHABLE_METRIC + 1,
            nexthop: Some(NEXTHOP_ID),
            ..Self::unreachable(table, destination)
        }
    }

    pub(super) fn message(&self, kind: u16, flags: u16) -> Vec<u8> {
        let (address, length) = self.destination;
        let structure = [family(address), length, 0, 0, 0, STATIC_ORIGIN, 0, self.kind, 0, 0, 0, 0];
        let message = Message::new(kind, ACK | flags).structure(&structure);
        let message = message.number(RTA_TABLE, self.table).number(RTA_PRIORITY, self.metric);
        let message = if length > 0 { message.address(RTA_DST, address) } else { message };
        let message = self.nexthop.into_iter().fold(message, |message, id| message.number(RTA_NH_ID, id));
        let message = self.interface.into_iter().fold(message, |message, index| message.number(RTA_OIF, index));
        self.source.into_iter().fold(message, |message, source| message.address(RTA_PREFSRC, source)).finish()
    }
}

/// A rule (`struct fib_rule_hdr`).
pub(super) struct Rule {
    family: u8,
    action: u8,
    flags: u32,
    priority: u32,
    source: Option<Prefix>,
    destination: Option<Prefix>,
    attributes: Vec<(u16, Vec<u8>)>,
}

impl Rule {
    fn new(family: u8, priority: u32, action: u8) -> Self {
        Self { family, action, flags: 0, priority, source: None, destination: None, attributes: Vec::new() }
    }

    /// Builds a rule that leads into a table.
    pub(super) fn look_up(family: u8, priority: u32, table: u32) -> Self {
        Self::new(family, priority, ACTION_TABLE).number(FRA_TABLE, table)
    }

    /// Builds a rule that leads past our tables.
    pub(super) fn skip(family: u8, priority: u32) -> Self {
        Self::new(family, priority, ACTION_GOTO).number(FRA_GOTO, AFTER_TABLES_PRIORITY)
    }

    /// Builds the rule that is the target of rules that skip our tables.
    pub(super) fn target(family: u8) -> Self {
        Self::new(family, AFTER_TABLES_PRIORITY, ACTION_NOP)
    }

    /// Matches packets with this mark.
    pub(super) fn marked(self, mark: u32) -> Self {
        self.number(FRA_FWMARK, mark).number(FRA_FWMASK, u32::MAX)
    }

    /// Matches packets with any mark except this one.
    pub(super) fn not_marked(self, mark: u32) -> Self {
        Self { flags: INVERT, ..self.marked(mark) }
    }

    /// Matches packets that arrive by a device; packets of this host come from `lo`.
    pub(super) fn arriving_by(mut self, name: &str) -> Self {
        self.attributes.push((FRA_IIFNAME, [name.as_bytes(), &[0]].concat()));
        self
    }

    /// Matches packets from a network.
    pub(super) fn from(self, source: Prefix) -> Self {
        Self { source: Some(source), ..self }
    }

    fn number(mut self, kind: u16, number: u32) -> Self {
        self.attributes.push((kind, number.to_ne_bytes().to_vec()));
        self
    }

    pub(super) fn message(&self, kind: u16, flags: u16) -> Vec<u8> {
        let length = |prefix: &Option<Prefix>| prefix.map_or(0, |prefix| prefix.length);
        let structure = [self.family, length(&self.destination), length(&self.source), 0, 0, 0, 0, self.action];
        let message = Message::new(kind, ACK | flags).structure(&structure).structure(&self.flags.to_ne_bytes());
        let mut message = message.number(FRA_PRIORITY, self.priority);
        for (attribute, prefix) in [(FRA_DST, self.destination), (FRA_SRC, self.source)] {
            message = match prefix.filter(|prefix| prefix.length > 0) {
                Some(prefix) => message.address(attribute, prefix.address),
                None => message,
            };
        }
        self.attributes.iter().fold(message, |message, (kind, content)| message.attribute(*kind, content)).finish()
    }
}

pub(super) fn pass_rule(selector: &Selector) -> Rule {
    let mut rule = Rule::skip(family(selector.source.address), PASS_PRIORITY);
    if selector.protocol != 0 {
        rule.attributes.push((FRA_IP_PROTO, vec![selector.protocol]));
    }
    for (kind, port) in [(FRA_SPORT_RANGE, selector.source_port), (FRA_DPORT_RANGE, selector.destination_port)] {
        if port.mask != 0 {
            // A mask of the upper bits is a range.
            let (first, last) = (port.value & port.mask, port.value | !port.mask);
            rule.attributes.push((kind, [first.to_ne_bytes(), last.to_ne_bytes()].concat()));
        }
    }
    Rule { source: Some(selector.source), destination: Some(selector.destination), ..rule }
}

/// Builds a rule that leads packets to neighbours past the table of protected networks, whose IPv6 routes would stop them on every
/// device.
pub(super) fn link_local_rule(network: Prefix) -> Rule {
    pass_rule(&Selector { destination: network, ..Selector::any(Family::of(network.address)) })
}

/// Builds a request about the IPv6 blackhole nexthop (`struct nhmsg`).
pub(super) fn nexthop(kind: u16, flags: u16) -> Vec<u8> {
    let is_new = kind == RTM_NEWNEXTHOP;
    // The kernel accepts an origin for new nexthops only.
    let structure = [FAMILIES[1], 0, if is_new { STATIC_ORIGIN } else { 0 }, 0, 0, 0, 0, 0];
    let message = Message::new(kind, ACK | flags).structure(&structure).number(NHA_ID, NEXTHOP_ID);
    if is_new { message.attribute(NHA_BLACKHOLE, &[]) } else { message }.finish()
}

fn family(address: IpAddr) -> u8 {
    FAMILIES[usize::from(address.is_ipv6())]
}
