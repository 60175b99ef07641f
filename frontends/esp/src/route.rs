//! Routes and rules by which packets get into the tunnel, and never past it (rtnetlink(7)).
//!
//! Every packet that a policy is for has a route in a table of the data path's own, twice: into the TUN device, and behind that to
//! nowhere. When the device is gone, with the process or without, the second one remains: nothing leaves in clear. A rule leads everybody
//! into the table but those whose packets have the mark of ESP and IKE themselves. It comes before the table 220 of charon.
//!
//! Routes go by destination alone, because a socket without an address has no source yet when its route is looked for. A policy that lets
//! some packets pass as they are is a rule of its own, before the table, with all that its selector says.
//!
//! A socket that is bound to a device asks no rule: the [`Guard`] drops its packets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;

use gantry_abi_xfrm::private::EXEMPT_MARK;
use gantry_abi_xfrm::{Prefix, Selector};
use nix::sys::socket::SockProtocol;

use crate::guard::{self, Guard};
use crate::netlink::{ACK, CREATE, Message, REPLACE, Socket, attribute};

/// The table of routes, and the priorities of the rules: those of policies that let packets pass, that of the table, and the place behind it.
pub(crate) const TABLE: u32 = 4500;
const PASS: u32 = 198;
const TUNNEL: u32 = 199;
const BEHIND: u32 = 200;
/// The metric of routes to nowhere: behind all others.
const LAST: u32 = 0xFFFF_FFF0;
const FIRST: u32 = 16;

/// What packets are led into the tunnel, and which are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steering {
    /// Destinations, each with the address that sockets without one get.
    pub(crate) tunnel: BTreeMap<(IpAddr, u8), Option<IpAddr>>,
    /// What passes as it is.
    pub(crate) pass: Vec<Selector>,
}

/// The routes and rules of one data path.
#[derive(Debug)]
pub(crate) struct Routes {
    socket: Socket,
    /// Of the TUN device.
    interface: u32,
    installed: Steering,
    /// Destinations with a route to nowhere that an earlier data path left.
    left: BTreeSet<(IpAddr, u8)>,
    has_v6: bool,
    pub(crate) guard: Guard,
}

impl Routes {
    /// Brings the device up, and puts the rules in force. Routes that an earlier data path left stay until others are installed.
    pub(crate) fn new(interface: &str, mtu: u32) -> io::Result<Self> {
        let socket = Socket::connect(SockProtocol::NetlinkRoute)?;
        let guard = Guard::new(interface);
        let interface = nix::net::if_::if_nametoindex(interface)?;
        let has_v6 = fs::exists("/proc/net/if_inet6").unwrap_or(false);
        let mut routes =
            Self { socket, interface, installed: Steering::default(), left: BTreeSet::new(), has_v6, guard };
        if has_v6 {
            // IPv6 may be off on this device alone.
            let _ = routes.ask(&without_addresses(interface));
        }
        routes.ask(&up(interface, mtu))?;
        for family in routes.families() {
            // What an earlier data path let pass may be protected by the policies to come.
            take_away(&routes.socket, family, RULE, |body| priority(body) == Some(PASS) && is_rule(body))?;
            for rule in [tunnel_rule(family), behind_rule(family)] {
                routes.ask_for(&rule.message(RTM_NEWRULE, CREATE), &[libc::EEXIST])?;
            }
            let all = routes.socket.dump(RTM_GETROUTE, family)?;
            routes.left.extend(all.iter().filter_map(|route| destination_of_ours(route)));
        }
        Ok(routes)
    }

    fn families(&self) -> impl Iterator<Item = u8> + use<> {
        FAMILIES.into_iter().take(1 + usize::from(self.has_v6))
    }

    /// Changes what is installed to `wanted`: first what is new, so that no packet finds neither.
    pub(crate) fn install(&mut self, wanted: Steering) -> io::Result<()> {
        let is_gone = |prefix: &&(IpAddr, u8)| !wanted.tunnel.contains_key(*prefix);
        let gone: Vec<_> = self.installed.tunnel.keys().filter(is_gone).copied().collect();
        self.left.retain(|prefix| !gone.contains(prefix));
        self.guard.install(self.left.iter().chain(wanted.tunnel.keys()).copied(), &wanted.pass)?;
        for selector in self.installed.pass.iter().filter(|selector| !wanted.pass.contains(selector)) {
            self.ask_for(&pass_rule(selector).message(RTM_DELRULE, 0), &[libc::ENOENT])?;
        }
        for (prefix, source) in &wanted.tunnel {
            if self.installed.tunnel.get(prefix) != Some(source) {
                self.ask(&Route::nowhere(*prefix).message(RTM_NEWROUTE, CREATE | REPLACE))?;
                self.ask(&Route::tunnel(*prefix, *source, self.interface).message(RTM_NEWROUTE, CREATE | REPLACE))?;
            }
        }
        for selector in wanted.pass.iter().filter(|selector| !self.installed.pass.contains(selector)) {
            self.ask_for(&pass_rule(selector).message(RTM_NEWRULE, CREATE), &[libc::EEXIST])?;
        }
        for prefix in gone {
            let source = self.installed.tunnel[&prefix];
            for route in [Route::tunnel(prefix, source, self.interface), Route::nowhere(prefix)] {
                self.ask_for(&route.message(RTM_DELROUTE, 0), &[libc::ESRCH])?;
            }
        }
        self.installed = wanted;
        Ok(())
    }

    fn ask(&self, message: &[u8]) -> io::Result<()> {
        self.ask_for(message, &[])
    }

    /// Asks the kernel for something, which is as good if it fails with one of these errors.
    fn ask_for(&self, message: &[u8], as_good: &[i32]) -> io::Result<()> {
        self.socket.ask(message, as_good)
    }
}

/// Takes all rules and routes away that a data path has left, and says how many there were.
///
/// # Errors
/// What the kernel says.
pub fn clear() -> io::Result<usize> {
    let socket = Socket::connect(SockProtocol::NetlinkRoute)?;
    let mut count = guard::clear()?;
    for family in FAMILIES {
        count +=
            take_away(&socket, family, RULE, |body| matches!(priority(body), Some(PASS..=BEHIND)) && is_rule(body))?;
        count += take_away(&socket, family, ROUTE, |body| number(body, RTA_TABLE) == Some(TABLE))?;
    }
    Ok(count)
}

/// Deletes rules or routes of a family, and says how many there were.
fn take_away(
    socket: &Socket,
    family: u8,
    (get, delete): (u16, u16),
    is_one: impl Fn(&[u8]) -> bool,
) -> io::Result<usize> {
    let mut all = socket.dump(get, family)?;
    all.retain(|body| is_one(body));
    for body in &all {
        socket.ask(&Message::new(delete, ACK).structure(body).finish(), &[libc::ESRCH, libc::ENOENT])?;
    }
    Ok(all.len())
}

fn priority(rule: &[u8]) -> Option<u32> {
    number(rule, FRA_PRIORITY)
}

/// An attribute of 32 bits of a rule or route, whose structures both have 12 bytes.
fn number(body: &[u8], wanted: u16) -> Option<u32> {
    attribute(body.get(12..)?, wanted)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Where a route leads, if it is one to nowhere of our table.
fn destination_of_ours(route: &[u8]) -> Option<(IpAddr, u8)> {
    if number(route, RTA_TABLE) != Some(TABLE) || route[7] != UNREACHABLE {
        return None;
    }
    let bytes = attribute(&route[12..], RTA_DST).unwrap_or_default();
    let address = match route[0] {
        V4 => IpAddr::from(bytes.first_chunk::<4>().copied().unwrap_or_default()),
        _ => IpAddr::from(bytes.first_chunk::<16>().copied().unwrap_or_default()),
    };
    Some((address, route[1]))
}

/// Whether a rule of one of our priorities is one of ours: it leads to our table, or is one that the table's are between.
fn is_rule(body: &[u8]) -> bool {
    match body[7] {
        TO_TABLE => number(body, FRA_TABLE) == Some(TABLE),
        GOTO => number(body, FRA_GOTO) == Some(BEHIND),
        action => action == NOTHING,
    }
}

// linux/rtnetlink.h, linux/fib_rules.h
const RTM_NEWLINK: u16 = 16;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
/// Requests for what there is, and to delete it.
const ROUTE: (u16, u16) = (RTM_GETROUTE, RTM_DELROUTE);
const RULE: (u16, u16) = (RTM_GETRULE, RTM_DELRULE);
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_TABLE: u16 = 15;
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
/// Actions of rules.
const TO_TABLE: u8 = 1;
const GOTO: u8 = 2;
const NOTHING: u8 = 3;
/// A rule is for all that it does not match.
const INVERT: u32 = 2;
/// Kinds of routes.
const UNICAST: u8 = 1;
const UNREACHABLE: u8 = 7;
/// By whom a route was made: the administrator (RTPROT_STATIC).
const STATIC: u8 = 4;
const V4: u8 = libc::AF_INET as u8;
const FAMILIES: [u8; 2] = [V4, libc::AF_INET6 as u8];
const IFLA_MTU: u16 = 4;

/// Brings a device up (`struct ifinfomsg`).
fn up(interface: u32, mtu: u32) -> Vec<u8> {
    let flag = (libc::IFF_UP as u32).to_ne_bytes();
    let structure = [[0; 4], interface.to_ne_bytes(), flag, flag].concat();
    Message::new(RTM_NEWLINK, ACK).structure(&structure).number(IFLA_MTU, mtu).finish()
}

/// Keeps a device from making up an address of its own, which its neighbours would be told of: it has none.
fn without_addresses(interface: u32) -> Vec<u8> {
    const IFLA_AF_SPEC: u16 = 26;
    const ADDR_GEN_MODE: u16 = 8;
    const NONE: u8 = 1;
    let structure = [[0; 4], interface.to_ne_bytes(), [0; 4], [0; 4]].concat();
    let mode = Message::inside().attribute(ADDR_GEN_MODE, &[NONE]);
    let family = Message::inside().nested(libc::AF_INET6 as u16, &mode);
    Message::new(RTM_NEWLINK, ACK).structure(&structure).nested(IFLA_AF_SPEC, &family).finish()
}

/// A route of our table (`struct rtmsg`).
struct Route {
    destination: (IpAddr, u8),
    kind: u8,
    metric: u32,
    interface: Option<u32>,
    source: Option<IpAddr>,
}

impl Route {
    fn tunnel(destination: (IpAddr, u8), source: Option<IpAddr>, interface: u32) -> Self {
        Self { destination, kind: UNICAST, metric: FIRST, interface: Some(interface), source }
    }

    fn nowhere(destination: (IpAddr, u8)) -> Self {
        Self { destination, kind: UNREACHABLE, metric: LAST, interface: None, source: None }
    }

    fn message(&self, kind: u16, flags: u16) -> Vec<u8> {
        let (address, length) = self.destination;
        let structure = [family(address), length, 0, 0, 0, STATIC, 0, self.kind, 0, 0, 0, 0];
        let message = Message::new(kind, ACK | flags).structure(&structure);
        let message = message.number(RTA_TABLE, TABLE).number(RTA_PRIORITY, self.metric);
        let message = if length > 0 { message.address(RTA_DST, address) } else { message };
        let message = self.interface.into_iter().fold(message, |message, index| message.number(RTA_OIF, index));
        self.source.into_iter().fold(message, |message, source| message.address(RTA_PREFSRC, source)).finish()
    }
}

/// A rule (`struct fib_rule_hdr`).
struct Rule {
    family: u8,
    action: u8,
    flags: u32,
    priority: u32,
    source: Option<Prefix>,
    destination: Option<Prefix>,
    more: Vec<(u16, Vec<u8>)>,
}

impl Rule {
    fn message(&self, kind: u16, flags: u16) -> Vec<u8> {
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
        self.more.iter().fold(message, |message, (kind, content)| message.attribute(*kind, content)).finish()
    }
}

fn tunnel_rule(family: u8) -> Rule {
    let number = |kind, number: u32| (kind, number.to_ne_bytes().to_vec());
    let more = vec![number(FRA_TABLE, TABLE), number(FRA_FWMARK, EXEMPT_MARK), number(FRA_FWMASK, u32::MAX)];
    Rule { family, action: TO_TABLE, flags: INVERT, priority: TUNNEL, source: None, destination: None, more }
}

/// Where rules lead that go past the table.
fn behind_rule(family: u8) -> Rule {
    Rule { family, action: NOTHING, flags: 0, priority: BEHIND, source: None, destination: None, more: Vec::new() }
}

fn pass_rule(selector: &Selector) -> Rule {
    let mut more = vec![(FRA_GOTO, BEHIND.to_ne_bytes().to_vec())];
    if selector.protocol != 0 {
        more.push((FRA_IP_PROTO, vec![selector.protocol]));
    }
    for (kind, port) in [(FRA_SPORT_RANGE, selector.source_port), (FRA_DPORT_RANGE, selector.destination_port)] {
        if port.mask != 0 {
            // A mask of the upper bits is a range.
            let (first, last) = (port.value & port.mask, port.value | !port.mask);
            more.push((kind, [first.to_ne_bytes(), last.to_ne_bytes()].concat()));
        }
    }
    let (source, destination) = (Some(selector.source), Some(selector.destination));
    Rule { family: family(selector.source.address), action: GOTO, flags: 0, priority: PASS, source, destination, more }
}

fn family(address: IpAddr) -> u8 {
    FAMILIES[usize::from(address.is_ipv6())]
}
