//! Routes and rules by which packets get into the tunnel, and never past it (rtnetlink(7)).
//!
//! Each destination of a policy has two routes in a table of the data path's own: into the TUN device, and behind that to nowhere. When the
//! device is gone, with the process or without, the second one remains: nothing leaves in clear. A rule leads all packets into the table,
//! except those with the mark of ESP and IKE themselves. It comes before the table 220 of charon.
//!
//! Routes go by destination alone, because a socket without an address has no source yet when its route is looked for. A policy that lets
//! some packets pass as they are is a rule of its own, before the table, with all that its selector says.
//!
//! A socket that is bound to a device takes routes of that device only. In IPv6 a third route stops it: its nexthop is a blackhole, which counts
//! for every device. In IPv4 the kernel sends in spite of its routes, and the [`Guard`] stops the packets.

mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use gantry_abi_xfrm::Selector;
use gantry_abi_xfrm::private::EXEMPT_MARK;
use libc::c_int;

use crate::guard::{self, Guard, LINK};
use crate::netlink::{self, ACK, CREATE, EXCLUSIVE, Message, REPLACE, Socket};
use crate::own::Own;
use crate::sys::set_option;
use messages::*;

/// The table of routes, and the priorities of the rules: those of policies that let packets pass, that of the table, and the place behind it.
pub(crate) const TABLE: u32 = 4500;
const PASS: u32 = 198;
const TUNNEL: u32 = 199;
const BEHIND: u32 = 200;
/// The metric of routes to nowhere: behind all others.
const LAST: u32 = 0xFFFF_FFF0;
const FIRST: u32 = 16;
/// The nexthop that leads to nowhere.
const NEXTHOP: u32 = EXEMPT_MARK;

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
    port: u32,
    /// Of the TUN device.
    interface: u32,
    installed: Steering,
    /// Destinations with a route to nowhere that an earlier data path left.
    left: BTreeSet<(IpAddr, u8)>,
    has_v6: bool,
    /// Whether the kernel has nexthops, if it has IPv6.
    nexthop: io::Result<()>,
    /// Another program took routes or rules away, and they could not be put back yet.
    are_lost: bool,
    guard: Guard,
}

/// Sockets that receive the changes of other programs.
#[derive(Debug)]
pub(crate) struct Changes {
    guard: guard::Changes,
    routes: Socket,
}

impl Changes {
    /// Opens the sockets. Call it before there are routes, so that no change is missed.
    pub(crate) fn listen() -> io::Result<Self> {
        /// RTNLGRP_LINK, IPV4_ROUTE, IPV4_RULE, IPV6_ROUTE, IPV6_RULE.
        const GROUPS: [c_int; 5] = [1, 7, 8, 11, 19];
        const NEXTHOPS: c_int = 32;
        let routes = Socket::listen(libc::NETLINK_ROUTE, &GROUPS)?;
        // Kernels before 5.3 have no nexthops.
        let _ = set_option(&routes, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, NEXTHOPS);
        Ok(Self { guard: Guard::changes(), routes })
    }

    /// The sockets, which are readable after a change.
    pub(crate) fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let guard::Changes { firewall, policies } = &self.guard;
        [firewall.as_ref(), policies.as_ref(), Some(&self.routes)].into_iter().flatten().map(Socket::as_fd)
    }
}

/// The guards that are in force against sockets that are bound to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guards {
    /// The table of nf_tables.
    pub(crate) firewall: bool,
    /// Policies of the kernel, in IPv4.
    pub(crate) policies: bool,
    /// Routes that count for every device, in IPv6.
    pub(crate) routes: bool,
}

impl Guards {
    /// Whether each family has one.
    pub(crate) fn hold(self) -> bool {
        self.firewall || self.policies && self.routes
    }
}

impl Routes {
    /// Brings the device up, and puts the rules in force. Routes that an earlier data path left stay until others are installed.
    pub(crate) fn new(interface: &str, mtu: u32) -> io::Result<Self> {
        let socket = Socket::connect(libc::NETLINK_ROUTE)?;
        let port = socket.port()?;
        let index = nix::net::if_::if_nametoindex(interface)?;
        let guard = Guard::new(interface, index);
        let has_v6 = fs::exists("/proc/net/if_inet6").unwrap_or(false);
        let mut routes = Self {
            socket,
            port,
            interface: index,
            installed: Steering::default(),
            left: BTreeSet::new(),
            has_v6,
            nexthop: Ok(()),
            are_lost: false,
            guard,
        };
        if has_v6 {
            // IPv6 may be off on this device alone.
            let _ = routes.ask(&without_addresses(index));
            routes.nexthop = routes.put_nexthop();
        }
        routes.ask(&up(index, mtu))?;
        for family in routes.families() {
            // The policies to come may protect packets that an earlier data path let pass.
            take_away(&routes.socket, family, RULE, |body| is_rule(body, PASS..=PASS))?;
            let all = routes.socket.dump(RTM_GETROUTE, &of_family(family))?;
            routes.left.extend(all.iter().filter_map(|route| destination_of_ours(route)));
        }
        routes.put_rules()?;
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
                self.put(*prefix, *source)?;
            }
        }
        for selector in wanted.pass.iter().filter(|selector| !self.installed.pass.contains(selector)) {
            self.put_rule(&pass_rule(selector))?;
        }
        for prefix in gone {
            let source = self.installed.tunnel[&prefix];
            let all =
                [Route::tunnel(prefix, source, self.interface), Route::nowhere(prefix), Route::everywhere(prefix)];
            for route in all.into_iter().take(if self.is_everywhere(prefix) { 3 } else { 2 }) {
                self.ask_for(&route.message(RTM_DELROUTE, 0), &[libc::ESRCH])?;
            }
        }
        self.installed = wanted;
        Ok(())
    }

    /// Puts everything back that other programs have changed since the last call. Returns whether this host's addresses may have changed, too.
    pub(crate) fn restore(&mut self, changes: &Changes) -> (bool, io::Result<()>) {
        // Guards come first: routes are many.
        let guard = self.guard.restore(&changes.guard);
        let mut addresses = false;
        let is_changed = changes.routes.any(|datagram| {
            netlink::messages(datagram).filter(|(_, port, _)| *port != self.port).fold(
                false,
                |is_ours, (kind, _, body)| {
                    let is_route_or_gone = kind == RTM_NEWROUTE || kind == RTM_DELROUTE;
                    addresses |= is_route_or_gone && is_of_host(body);
                    is_ours
                        || match kind {
                            RTM_NEWROUTE | RTM_DELROUTE => is_route(body),
                            RTM_DELRULE => is_rule(body, PASS..=BEHIND),
                            RTM_DELNEXTHOP => is_nexthop(body),
                            RTM_NEWLINK => is_device(body, self.interface),
                            _ => false,
                        }
                },
            )
        });
        let mut routes = Ok(());
        if is_changed || self.are_lost {
            routes = self.put_all();
            self.are_lost = routes.is_err();
        }
        (addresses || is_changed, guard.and(routes))
    }

    /// The guards that are in force.
    pub(crate) fn guards(&self) -> Guards {
        let (firewall, policies) = self.guard.hold();
        Guards { firewall, policies, routes: self.nexthop.is_ok() && !self.are_lost }
    }

    /// One sentence for each guard that the kernel lacks.
    pub(crate) fn unguarded(&self) -> Vec<String> {
        let (firewall, policies) = self.guard.missing();
        let say = |what: &str, instead: &str, error: Option<&io::Error>| {
            error.map(|error| format!("the kernel has no {what} ({error}): {instead}"))
        };
        let firewall_text = "policies and routes alone stop sockets that are bound to a network device";
        let other = |family: &str| match firewall {
            None => format!("in {family} the firewall alone stops sockets that are bound to a network device"),
            Some(_) => format!("in {family} a socket that is bound to a network device sends past the tunnel"),
        };
        [
            say("nf_tables", firewall_text, firewall),
            say("policies of IPsec", &other("IPv4"), policies),
            say("nexthops", &other("IPv6"), self.nexthop.as_ref().err()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The addresses of this host.
    pub(crate) fn own(&self) -> io::Result<Own> {
        Ok(Own::new(self.families().map(this_host).collect::<io::Result<Vec<_>>>()?.into_iter().flatten()))
    }

    fn is_everywhere(&self, (address, _): (IpAddr, u8)) -> bool {
        address.is_ipv6() && self.nexthop.is_ok()
    }

    fn put_all(&self) -> io::Result<()> {
        if self.has_v6 && self.nexthop.is_ok() {
            self.put_nexthop()?;
        }
        self.put_rules()?;
        self.installed.pass.iter().try_for_each(|selector| self.put_rule(&pass_rule(selector)))?;
        self.left.iter().try_for_each(|prefix| self.put_nowhere(*prefix))?;
        self.installed.tunnel.iter().try_for_each(|(prefix, source)| self.put(*prefix, *source))
    }

    fn put_nexthop(&self) -> io::Result<()> {
        self.ask_for(&nexthop(RTM_NEWNEXTHOP, CREATE | EXCLUSIVE), &[libc::EEXIST])
    }

    fn put_rules(&self) -> io::Result<()> {
        for family in self.families() {
            // The rule that leads into the table comes last, so that packets past it are stopped at no moment.
            self.put_rule(&behind_rule(family))?;
            let link = LINK.iter().filter(|network| network.address.is_ipv6() && family != FAMILIES[0]);
            link.map(|network| link_rule(*network)).try_for_each(|rule| self.put_rule(&rule))?;
            self.put_rule(&tunnel_rule(family))?;
        }
        Ok(())
    }

    fn put_rule(&self, rule: &Rule) -> io::Result<()> {
        self.ask_for(&rule.message(RTM_NEWRULE, CREATE | EXCLUSIVE), &[libc::EEXIST])
    }

    /// Adds the routes to a destination, those to nowhere first, so that it is protected at once.
    fn put(&self, prefix: (IpAddr, u8), source: Option<IpAddr>) -> io::Result<()> {
        self.put_nowhere(prefix)?;
        self.ask(&Route::tunnel(prefix, source, self.interface).message(RTM_NEWROUTE, CREATE | REPLACE))
    }

    fn put_nowhere(&self, prefix: (IpAddr, u8)) -> io::Result<()> {
        self.ask(&Route::nowhere(prefix).message(RTM_NEWROUTE, CREATE | REPLACE))?;
        if self.is_everywhere(prefix) {
            self.ask(&Route::everywhere(prefix).message(RTM_NEWROUTE, CREATE | REPLACE))?;
        }
        Ok(())
    }

    fn ask(&self, message: &[u8]) -> io::Result<()> {
        self.ask_for(message, &[])
    }

    /// Sends a request to the kernel. The errors `as_good` count as success.
    fn ask_for(&self, message: &[u8], as_good: &[i32]) -> io::Result<()> {
        self.socket.ask(message, as_good)
    }
}

/// The destinations of a family's routes to this host.
fn this_host(family: u8) -> io::Result<Vec<(IpAddr, u8)>> {
    const NETLINK_GET_STRICT_CHK: c_int = 12;
    let socket = Socket::connect(libc::NETLINK_ROUTE)?;
    // Without this option the kernel lists all tables.
    let _ = set_option(&socket, libc::SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
    let all = socket.dump(RTM_GETROUTE, &of_this_host(family))?;
    Ok(all.iter().filter_map(|route| destination_of_host(route)).collect())
}

/// Deletes all rules, routes, tables and policies that a data path has left. Returns how many rules, routes and tables there were.
///
/// # Errors
/// Those of the kernel; EPERM while a data path owns the firewall's table.
pub fn clear() -> io::Result<usize> {
    let socket = Socket::connect(libc::NETLINK_ROUTE)?;
    let mut count = guard::clear()?;
    // The kernel deletes routes with their nexthop.
    let none = [libc::ENOENT, libc::EOPNOTSUPP, libc::EAFNOSUPPORT];
    socket.ask(&nexthop(RTM_DELNEXTHOP, 0), &none)?;
    for family in FAMILIES {
        count += take_away(&socket, family, RULE, |body| is_rule(body, PASS..=BEHIND))?;
        count += take_away(&socket, family, ROUTE, is_route)?;
    }
    Ok(count)
}

/// Deletes rules or routes of a family. Returns how many there were.
fn take_away(
    socket: &Socket,
    family: u8,
    (get, delete): (u16, u16),
    is_one: impl Fn(&[u8]) -> bool,
) -> io::Result<usize> {
    let mut all = socket.dump(get, &of_family(family))?;
    all.retain(|body| is_one(body));
    for body in &all {
        socket.ask(&Message::new(delete, ACK).structure(body).finish(), &[libc::ESRCH, libc::ENOENT])?;
    }
    Ok(all.len())
}
