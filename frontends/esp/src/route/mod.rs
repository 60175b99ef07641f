//! Routes and rules that lead packets into the tunnel, and keep them from bypassing it (rtnetlink(7)).
//!
//! Each destination of a policy has two routes in a table of the data path's own: one into the TUN device, and an unreachable one of lower
//! priority. When the device disappears, the second one remains, so that no packet leaves in clear; it also outlives the process. A rule
//! leads all packets into the table, except those with the mark of ESP and IKE themselves. It precedes charon's table 220.
//!
//! Routes depend on the destination alone: a socket without an address has no source yet when its route is looked up. A policy that lets
//! packets pass unprotected becomes a rule of its own before the table, with its whole selector.
//!
//! A socket that is bound to a device uses routes of that device only. In IPv6 a third route stops it: its nexthop is a blackhole, which
//! applies to every device. In IPv4 the kernel sends in spite of its routes, and the [`Guard`] stops the packets.

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
use crate::local_addresses::LocalAddresses;
use crate::netlink::{self, ACK, CREATE, EXCLUSIVE, Message, REPLACE, Socket};
use crate::sys::set_option;
use messages::*;

/// The table of routes, and the priorities of the rules: those of policies that let packets pass, that of the table, and the position
/// behind it.
pub(crate) const TABLE: u32 = 4500;
const PASS: u32 = 198;
const TUNNEL: u32 = 199;
const BEHIND: u32 = 200;
/// The metric of unreachable routes, behind all others.
const LAST: u32 = 0xFFFF_FFF0;
const FIRST: u32 = 16;
/// The blackhole nexthop.
const NEXTHOP: u32 = EXEMPT_MARK;

/// The packets that are led into the tunnel, and those that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steering {
    /// Destinations, each with the source address for sockets that have none.
    pub(crate) tunnel: BTreeMap<(IpAddr, u8), Option<IpAddr>>,
    /// Selectors of packets that pass unprotected.
    pub(crate) pass: Vec<Selector>,
}

/// The routes and rules of one data path.
#[derive(Debug)]
pub(crate) struct Routes {
    socket: Socket,
    port: u32,
    /// Index of the TUN device.
    interface: u32,
    installed: Steering,
    /// Destinations with an unreachable route that an earlier data path left.
    leftover: BTreeSet<(IpAddr, u8)>,
    has_v6: bool,
    /// Success if the kernel supports nexthops, or has no IPv6.
    nexthop: io::Result<()>,
    /// Another program removed routes or rules, and they could not be restored yet.
    needs_restore: bool,
    guard: Guard,
}

/// Sockets that receive the changes of other programs.
#[derive(Debug)]
pub(crate) struct Changes {
    guard: guard::Changes,
    routes: Socket,
}

impl Changes {
    /// Opens the sockets. Call it before any routes are installed, so that no change is missed.
    pub(crate) fn listen() -> io::Result<Self> {
        /// RTNLGRP_LINK, IPV4_ROUTE, IPV4_RULE, IPV6_ROUTE, IPV6_RULE.
        const GROUPS: [c_int; 5] = [1, 7, 8, 11, 19];
        const NEXTHOPS: c_int = 32;
        let routes = Socket::listen(libc::NETLINK_ROUTE, &GROUPS)?;
        // Kernels before 5.3 have no nexthops.
        let _ = set_option(&routes, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, NEXTHOPS);
        Ok(Self { guard: Guard::changes(), routes })
    }

    /// Returns the sockets, which become readable after a change.
    pub(crate) fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let guard::Changes { firewall, policies } = &self.guard;
        [firewall.as_ref(), policies.as_ref(), Some(&self.routes)].into_iter().flatten().map(Socket::as_fd)
    }
}

/// The guards in force against sockets that are bound to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guards {
    /// The table of nf_tables.
    pub(crate) firewall: bool,
    /// Policies of the kernel, in IPv4.
    pub(crate) policies: bool,
    /// Routes that apply to every device, in IPv6.
    pub(crate) routes: bool,
}

impl Guards {
    /// Returns whether each address family is guarded.
    pub(crate) fn are_complete(self) -> bool {
        self.firewall || self.policies && self.routes
    }
}

/// Fails if this network namespace has a data path already: two would remove each other's routes and rules.
pub(crate) fn check_alone() -> io::Result<()> {
    let links = Socket::connect(libc::NETLINK_ROUTE)?.dump(RTM_GETLINK, &[0; LINK_INFO])?;
    match links.iter().find_map(|link| data_path_device(link)) {
        None => Ok(()),
        Some(device) => {
            let text = format!("it has another data path, whose device is {device}");
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

impl Routes {
    /// Brings the device up and installs the rules. Routes of an earlier data path stay until others are installed.
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
            leftover: BTreeSet::new(),
            has_v6,
            nexthop: Ok(()),
            needs_restore: false,
            guard,
        };
        if has_v6 {
            // IPv6 may be off on this device alone.
            let _ = routes.request(&disable_generated_address(index));
            routes.nexthop = routes.put_nexthop();
        }
        routes.request(&bring_up(index, mtu))?;
        for family in routes.families() {
            // Future policies may protect packets that an earlier data path let pass.
            delete_matching(&routes.socket, family, RULE, |body| is_our_rule(body, PASS..=PASS))?;
            let all = routes.socket.dump(RTM_GETROUTE, &family_request(family))?;
            routes.leftover.extend(all.iter().filter_map(|route| unreachable_destination(route)));
        }
        routes.put_rules()?;
        Ok(routes)
    }

    fn families(&self) -> impl Iterator<Item = u8> + use<> {
        FAMILIES.into_iter().take(1 + usize::from(self.has_v6))
    }

    /// Replaces the installed routes and rules by `desired`. Additions come first, so that no packet finds neither.
    pub(crate) fn install(&mut self, desired: Steering) -> io::Result<()> {
        let is_gone = |prefix: &&(IpAddr, u8)| !desired.tunnel.contains_key(*prefix);
        let obsolete: Vec<_> = self.installed.tunnel.keys().filter(is_gone).copied().collect();
        self.leftover.retain(|prefix| !obsolete.contains(prefix));
        self.guard.install(self.leftover.iter().chain(desired.tunnel.keys()).copied(), &desired.pass)?;
        // Rules do not look at the interface, so policies of several share one.
        let same_rule = |a: &Selector, b: &Selector| Selector { interface: 0, ..*a } == Selector { interface: 0, ..*b };
        let is_needed = |selector: &Selector| desired.pass.iter().any(|other| same_rule(other, selector));
        for selector in self.installed.pass.iter().filter(|selector| !is_needed(selector)) {
            self.request_tolerating(&pass_rule(selector).message(RTM_DELRULE, 0), &[libc::ENOENT])?;
        }
        for (prefix, source) in &desired.tunnel {
            if self.installed.tunnel.get(prefix) != Some(source) {
                self.put(*prefix, *source)?;
            }
        }
        for selector in desired.pass.iter().filter(|selector| !self.installed.pass.contains(selector)) {
            self.put_rule(&pass_rule(selector))?;
        }
        for prefix in obsolete {
            let source = self.installed.tunnel[&prefix];
            let all =
                [Route::tunnel(prefix, source, self.interface), Route::unreachable(prefix), Route::blackhole(prefix)];
            for route in all.into_iter().take(if self.has_blackhole(prefix) { 3 } else { 2 }) {
                self.request_tolerating(&route.message(RTM_DELROUTE, 0), &[libc::ESRCH])?;
            }
        }
        self.installed = desired;
        Ok(())
    }

    /// Restores everything that other programs have changed since the last call. Returns whether this host's addresses may have changed,
    /// too.
    pub(crate) fn restore(&mut self, changes: &Changes) -> (bool, io::Result<()>) {
        // Guards come first, because there are many routes.
        let guard = self.guard.restore(&changes.guard);
        let mut addresses = false;
        let is_changed = changes.routes.drain_any(|datagram| {
            netlink::messages(datagram).filter(|(_, port, _)| *port != self.port).fold(
                false,
                |is_ours, (kind, _, body)| {
                    let is_route_or_gone = kind == RTM_NEWROUTE || kind == RTM_DELROUTE;
                    addresses |= is_route_or_gone && is_local_route(body);
                    is_ours
                        || match kind {
                            RTM_NEWROUTE | RTM_DELROUTE => is_our_route(body),
                            RTM_DELRULE => is_our_rule(body, PASS..=BEHIND),
                            RTM_DELNEXTHOP => is_our_nexthop(body),
                            RTM_NEWLINK => is_device(body, self.interface),
                            _ => false,
                        }
                },
            )
        });
        let mut routes = Ok(());
        if is_changed || self.needs_restore {
            routes = self.put_all();
            self.needs_restore = routes.is_err();
        }
        (addresses || is_changed, guard.and(routes))
    }

    pub(crate) fn guards(&self) -> Guards {
        let (firewall, policies) = self.guard.in_force();
        Guards { firewall, policies, routes: self.nexthop.is_ok() && !self.needs_restore }
    }

    /// Returns one sentence for each guard that the kernel lacks.
    pub(crate) fn unguarded(&self) -> Vec<String> {
        let (firewall, policies) = self.guard.missing();
        let describe = |what: &str, instead: &str, error: Option<&io::Error>| {
            error.map(|error| format!("the kernel has no {what} ({error}): {instead}"))
        };
        let firewall_text = "policies and routes alone stop sockets that are bound to a network device";
        let other = |family: &str| match firewall {
            None => format!("in {family} the firewall alone stops sockets that are bound to a network device"),
            Some(_) => format!("in {family} a socket that is bound to a network device sends past the tunnel"),
        };
        [
            describe("nf_tables", firewall_text, firewall),
            describe("policies of IPsec", &other("IPv4"), policies),
            describe("nexthops", &other("IPv6"), self.nexthop.as_ref().err()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the addresses of this host.
    pub(crate) fn local_addresses(&self) -> io::Result<LocalAddresses> {
        Ok(LocalAddresses::new(
            self.families().map(local_destinations).collect::<io::Result<Vec<_>>>()?.into_iter().flatten(),
        ))
    }

    fn has_blackhole(&self, (address, _): (IpAddr, u8)) -> bool {
        address.is_ipv6() && self.nexthop.is_ok()
    }

    fn put_all(&self) -> io::Result<()> {
        if self.has_v6 && self.nexthop.is_ok() {
            self.put_nexthop()?;
        }
        self.put_rules()?;
        self.installed.pass.iter().try_for_each(|selector| self.put_rule(&pass_rule(selector)))?;
        self.leftover.iter().try_for_each(|prefix| self.put_unreachable(*prefix))?;
        self.installed.tunnel.iter().try_for_each(|(prefix, source)| self.put(*prefix, *source))
    }

    fn put_nexthop(&self) -> io::Result<()> {
        self.request_tolerating(&nexthop(RTM_NEWNEXTHOP, CREATE | EXCLUSIVE), &[libc::EEXIST])
    }

    fn put_rules(&self) -> io::Result<()> {
        for family in self.families() {
            // The rule that leads into the table comes last, so that packets that skip the table are not stopped in between.
            self.put_rule(&skip_target_rule(family))?;
            let link = LINK.iter().filter(|network| network.address.is_ipv6() && family != FAMILIES[0]);
            link.map(|network| link_rule(*network)).try_for_each(|rule| self.put_rule(&rule))?;
            self.put_rule(&tunnel_rule(family))?;
        }
        Ok(())
    }

    fn put_rule(&self, rule: &Rule) -> io::Result<()> {
        self.request_tolerating(&rule.message(RTM_NEWRULE, CREATE | EXCLUSIVE), &[libc::EEXIST])
    }

    /// Adds the routes to a destination. The unreachable routes come first, so that it is protected at once.
    fn put(&self, prefix: (IpAddr, u8), source: Option<IpAddr>) -> io::Result<()> {
        self.put_unreachable(prefix)?;
        self.request(&Route::tunnel(prefix, source, self.interface).message(RTM_NEWROUTE, CREATE | REPLACE))
    }

    fn put_unreachable(&self, prefix: (IpAddr, u8)) -> io::Result<()> {
        self.request(&Route::unreachable(prefix).message(RTM_NEWROUTE, CREATE | REPLACE))?;
        if self.has_blackhole(prefix) {
            self.request(&Route::blackhole(prefix).message(RTM_NEWROUTE, CREATE | REPLACE))?;
        }
        Ok(())
    }

    fn request(&self, message: &[u8]) -> io::Result<()> {
        self.request_tolerating(message, &[])
    }

    /// Sends a request to the kernel. The errors in `tolerated` count as success.
    fn request_tolerating(&self, message: &[u8], tolerated: &[i32]) -> io::Result<()> {
        self.socket.request(message, tolerated)
    }
}

/// Returns the destinations of a family's routes to this host.
fn local_destinations(family: u8) -> io::Result<Vec<(IpAddr, u8)>> {
    const NETLINK_GET_STRICT_CHK: c_int = 12;
    let socket = Socket::connect(libc::NETLINK_ROUTE)?;
    // Without this option the kernel lists all tables.
    let _ = set_option(&socket, libc::SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
    let all = socket.dump(RTM_GETROUTE, &local_request(family))?;
    Ok(all.iter().filter_map(|route| local_destination(route)).collect())
}

/// Deletes all rules, routes, tables and policies that a data path has left. Returns the number of deleted rules, routes and tables.
///
/// # Errors
/// Errors of the kernel; EPERM while a data path owns the firewall's table.
pub fn clear() -> io::Result<usize> {
    let socket = Socket::connect(libc::NETLINK_ROUTE)?;
    let mut count = guard::clear()?;
    // The kernel deletes routes along with their nexthop.
    let none = [libc::ENOENT, libc::EOPNOTSUPP, libc::EAFNOSUPPORT];
    socket.request(&nexthop(RTM_DELNEXTHOP, 0), &none)?;
    for family in FAMILIES {
        count += delete_matching(&socket, family, RULE, |body| is_our_rule(body, PASS..=BEHIND))?;
        count += delete_matching(&socket, family, ROUTE, is_our_route)?;
    }
    Ok(count)
}

/// Deletes the rules or routes of a family for which `is_one` is true. Returns their number.
fn delete_matching(
    socket: &Socket,
    family: u8,
    (get, delete): (u16, u16),
    is_one: impl Fn(&[u8]) -> bool,
) -> io::Result<usize> {
    let mut all = socket.dump(get, &family_request(family))?;
    all.retain(|body| is_one(body));
    for body in &all {
        socket.request(&Message::new(delete, ACK).structure(body).finish(), &[libc::ESRCH, libc::ENOENT])?;
    }
    Ok(all.len())
}
