//! Routes and rules by which packets get into the tunnel, and never past it (rtnetlink(7)).
//!
//! Every packet that a policy is for has a route in a table of the data path's own, twice: into the TUN device, and behind that to
//! nowhere. When the device is gone, with the process or without, the second one remains: nothing leaves in clear. A rule leads everybody
//! into the table but those whose packets have the mark of ESP and IKE themselves. It comes before the table 220 of charon.
//!
//! Routes go by destination alone, because a socket without an address has no source yet when its route is looked for. A policy that lets
//! some packets pass as they are is a rule of its own, before the table, with all that its selector says.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use gantry_abi_xfrm::private::EXEMPT_MARK;
use gantry_abi_xfrm::{Prefix, Selector};
use nix::sys::socket::{self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};

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
    socket: OwnedFd,
    /// Of the TUN device.
    interface: u32,
    installed: Steering,
    has_v6: bool,
}

impl Routes {
    /// Brings the device up, and puts the rules in force. Routes that an earlier data path left stay until others are installed.
    pub(crate) fn new(interface: &str, mtu: u32) -> io::Result<Self> {
        let socket = connect()?;
        let interface = nix::net::if_::if_nametoindex(interface)?;
        let has_v6 = fs::exists("/proc/net/if_inet6").unwrap_or(false);
        let routes = Self { socket, interface, installed: Steering::default(), has_v6 };
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
        }
        Ok(routes)
    }

    fn families(&self) -> impl Iterator<Item = u8> + use<> {
        FAMILIES.into_iter().take(1 + usize::from(self.has_v6))
    }

    /// Changes what is installed to `wanted`: first what is new, so that no packet finds neither.
    pub(crate) fn install(&mut self, wanted: Steering) -> io::Result<()> {
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
        for (prefix, source) in self.installed.tunnel.iter().filter(|(prefix, _)| !wanted.tunnel.contains_key(prefix)) {
            for route in [Route::tunnel(*prefix, *source, self.interface), Route::nowhere(*prefix)] {
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
        ask(&self.socket, message, as_good)
    }
}

/// Takes all rules and routes away that a data path has left, and says how many there were.
///
/// # Errors
/// What the kernel says.
pub fn clear() -> io::Result<usize> {
    let socket = connect()?;
    let mut count = 0;
    for family in FAMILIES {
        count +=
            take_away(&socket, family, RULE, |body| matches!(priority(body), Some(PASS..=BEHIND)) && is_rule(body))?;
        count += take_away(&socket, family, ROUTE, |body| number(body, RTA_TABLE) == Some(TABLE))?;
    }
    Ok(count)
}

/// Deletes rules or routes of a family, and says how many there were.
fn take_away(
    socket: &OwnedFd,
    family: u8,
    (get, delete): (u16, u16),
    is_one: impl Fn(&[u8]) -> bool,
) -> io::Result<usize> {
    let mut all = dump(socket, get, family)?;
    all.retain(|body| is_one(body));
    for body in &all {
        let mut message = Message::new(delete, 0);
        message.0.extend_from_slice(body);
        ask(socket, &message.finish(), &[libc::ESRCH, libc::ENOENT])?;
    }
    Ok(all.len())
}

fn priority(rule: &[u8]) -> Option<u32> {
    number(rule, FRA_PRIORITY)
}

/// Whether a rule of one of our priorities is one of ours: it leads to our table, or is one that the table's are between.
fn is_rule(body: &[u8]) -> bool {
    match body[7] {
        TO_TABLE => number(body, FRA_TABLE) == Some(TABLE),
        GOTO => number(body, FRA_GOTO) == Some(BEHIND),
        action => action == NOTHING,
    }
}

// linux/rtnetlink.h, linux/fib_rules.h, linux/netlink.h
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
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const REPLACE: u16 = 0x100;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;
const ERROR: u16 = 2;
const DONE: u16 = 3;
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
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];
const IFLA_MTU: u16 = 4;

/// A message that is being written.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | ACK | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, content: &[u8]) -> Self {
        self.0.extend((4 + content.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(self, kind: u16, number: u32) -> Self {
        self.attribute(kind, &number.to_ne_bytes())
    }

    fn address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// Brings a device up (`struct ifinfomsg`).
fn up(interface: u32, mtu: u32) -> Vec<u8> {
    let mut message = Message::new(RTM_NEWLINK, 0);
    message.0.extend([0; 4]);
    message.0.extend(interface.to_ne_bytes());
    let flag = libc::IFF_UP as u32;
    message.0.extend([flag.to_ne_bytes(), flag.to_ne_bytes()].concat());
    message.number(IFLA_MTU, mtu).finish()
}

/// Keeps a device from making up an address of its own, which its neighbours would be told of: it has none.
fn without_addresses(interface: u32) -> Vec<u8> {
    const IFLA_AF_SPEC: u16 = 26;
    const ADDR_GEN_MODE: u16 = 8;
    const NONE: u8 = 1;
    let mut message = Message::new(RTM_NEWLINK, 0);
    message.0.extend([0; 4]);
    message.0.extend(interface.to_ne_bytes());
    message.0.extend([0; 8]);
    let mode = Message(Vec::new()).attribute(ADDR_GEN_MODE, &[NONE]);
    let family = Message(Vec::new()).attribute(libc::AF_INET6 as u16, &mode.0);
    message.attribute(IFLA_AF_SPEC, &family.0).finish()
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
        let mut message = Message::new(kind, flags);
        message.0.extend([family(address), length, 0, 0, 0, STATIC, 0, self.kind]);
        message.0.extend([0; 4]);
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
        let mut message = Message::new(kind, flags);
        message.0.extend([self.family, length(&self.destination), length(&self.source), 0, 0, 0, 0, self.action]);
        message.0.extend(self.flags.to_ne_bytes());
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

fn connect() -> io::Result<OwnedFd> {
    let protocol = SockProtocol::NetlinkRoute;
    let socket = socket::socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    socket::connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(socket)
}

fn ask(socket: &OwnedFd, message: &[u8], as_good: &[i32]) -> io::Result<()> {
    socket::send(socket.as_raw_fd(), message, MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let length = socket::recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match answer[..length].get(16..20).and_then(|errno| errno.first_chunk()) {
        Some(errno) => match i32::from_ne_bytes(*errno).wrapping_neg() {
            0 => Ok(()),
            errno if as_good.contains(&errno) => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        },
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The bodies of all rules or routes of a family: structure and attributes.
fn dump(socket: &OwnedFd, kind: u16, family: u8) -> io::Result<Vec<Vec<u8>>> {
    let mut message = Message::new(kind, DUMP);
    message.0.extend([family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    socket::send(socket.as_raw_fd(), &message.finish(), MsgFlags::empty())?;
    let mut bodies = Vec::new();
    let mut answer = vec![0; 1 << 16];
    loop {
        let length = socket::recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let mut rest = &answer[..length];
        while let Some(header) = rest.first_chunk::<16>() {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let Some(message) = rest.get(..length).filter(|_| length >= 16) else { break };
            if kind == DONE {
                return Ok(bodies);
            }
            if kind == ERROR {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if length >= 28 {
                bodies.push(message[16..].to_vec());
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// An attribute of 32 bits of a rule or route, whose structures both have 12 bytes.
fn number(body: &[u8], wanted: u16) -> Option<u32> {
    let mut rest = body.get(12..)?;
    while let Some(header) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        if kind == wanted {
            return rest.get(4..8)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}
