//! Routes and rules that lead packets into the tunnel, and keep them from bypassing it (rtnetlink(7)).
//!
//! The [`GuardSet`] marks packets that match policies, and a rule leads marked packets into a table whose default route is the TUN device.
//! Packets that arrived through the tunnel have another mark, by which the reverse-path filter finds the TUN device. Three further tables
//! look at the destination:
//!
//! * protected networks, and without nf_tables the destinations of all policies: all packets to them take the TUN device;
//! * destinations of policies for one of this host's addresses: the route gives that address to a socket without a source, and is used
//!   if there is no other route. Its table is looked up for sockets without a source, and once more after all other tables;
//! * destinations of further policies: the route is used if there is no other route, after all other tables.
//!
//! Each route into the TUN device is accompanied by an unreachable route of lower priority. The unreachable route remains when the device
//! disappears and when the process ends, so that no packet leaves in clear. The rules precede charon's table 220. Packets with the mark
//! of ESP and IKE skip the rules.
//!
//! A socket that is bound to a device uses routes of that device only. In IPv6 a third route to protected networks stops its packets: the
//! route's nexthop is a blackhole, which applies to every device. In IPv4 the kernel sends even without a route, and the [`GuardSet`] stops
//! the packets.

mod messages;
mod policy_routes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use gantry_abi_xfrm::{Prefix, Selector};
use libc::c_int;

use crate::guard::{
    self, ARRIVED_MARK, EXEMPT_MARK, GuardSet, LINK_LOCAL_NETWORKS, RETURNING_MARK, STEERED_MARK, SteeredPolicy,
};
use crate::local_addresses::LocalAddresses;
use crate::netlink::{self, ACK, CREATE, EXCLUSIVE, Message, REPLACE, Socket};
use crate::sys::set_option;
use messages::*;
pub(crate) use policy_routes::PolicyRoute;
use policy_routes::PolicyRoutes;

/// The tables of protected networks, of marked packets, of sources, and of destinations without another route.
pub(crate) const PROTECTED_TABLE: u32 = 4500;
const STEERED_TABLE: u32 = 4501;
const SOURCES_TABLE: u32 = 4502;
const FALLBACK_TABLE: u32 = 4503;
const TABLES: [u32; 4] = [PROTECTED_TABLE, STEERED_TABLE, SOURCES_TABLE, FALLBACK_TABLE];
/// The priorities of the rules. Rules with the first three look at marks. Rules of [`PASS_PRIORITY`] match packets that policies let pass.
const RETURNING_PRIORITY: u32 = 194;
const SKIP_PRIORITY: u32 = 195;
const STEERED_PRIORITY: u32 = 196;
const PASS_PRIORITY: u32 = 197;
const SOURCES_PRIORITY: u32 = 198;
const PROTECTED_PRIORITY: u32 = 199;
/// The priority of the rule at which packets that skip our tables continue.
const AFTER_TABLES_PRIORITY: u32 = 200;
/// The priority after the rules of the main and the default table.
const LAST_RESORT_PRIORITY: u32 = 32768;
/// The metric of unreachable routes, behind all other routes; then the metric of routes into the TUN device.
const UNREACHABLE_METRIC: u32 = 0xFFFF_FFF0;
const TUNNEL_METRIC: u32 = 16;
/// The number of the blackhole nexthop.
const NEXTHOP_ID: u32 = EXEMPT_MARK;

/// The packets that enter the tunnel by their destination, and the packets that pass unprotected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DestinationRoutes {
    /// Destinations, each with the source address that sockets without one get.
    pub(crate) tunnel_destinations: BTreeMap<(IpAddr, u8), Option<IpAddr>>,
    /// Selectors of packets that pass unprotected.
    pub(crate) pass_selectors: Vec<Selector>,
}

/// The routes and rules of one data path.
#[derive(Debug)]
pub(crate) struct Routes {
    socket: Socket,
    netlink_port: u32,
    /// Index and name of the TUN device.
    tun_index: u32,
    tun_name: String,
    installed: DestinationRoutes,
    /// Routes of policies for packets of this host.
    policy_routes: PolicyRoutes,
    /// Destinations with an unreachable route that an earlier data path left.
    leftover_destinations: BTreeSet<(IpAddr, u8)>,
    has_v6: bool,
    /// `Ok` if the kernel supports nexthops or has no IPv6; the kernel's error if it does not support them.
    nexthop: io::Result<()>,
    /// True if another program changed routes or rules, and they could not be restored yet.
    needs_restore: bool,
    /// True if a device is new or has changed, or its filter was removed.
    has_outdated_filters: bool,
    guard: GuardSet,
}

/// Sockets that receive the kernel's notifications about changes by other programs.
#[derive(Debug)]
pub(crate) struct Changes {
    guard: guard::Changes,
    routes: Socket,
}

impl Changes {
    /// Opens the sockets. Call it before any routes are installed, so that no change is missed.
    pub(crate) fn listen() -> io::Result<Self> {
        /// RTNLGRP_LINK, TC, IPV4_ROUTE, IPV4_RULE, IPV6_ROUTE, IPV6_RULE.
        const GROUPS: [c_int; 6] = [1, 4, 7, 8, 11, 19];
        const NEXTHOPS: c_int = 32;
        let routes = Socket::listen(libc::NETLINK_ROUTE, &GROUPS)?;
        // Kernels before 5.3 have no nexthops.
        let _ = set_option(&routes, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, NEXTHOPS);
        Ok(Self { guard: GuardSet::changes(), routes })
    }

    /// Returns the sockets, which become readable after a change.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let guard::Changes { firewall, policies } = &self.guard;
        [firewall.as_ref(), policies.as_ref(), Some(&self.routes)].into_iter().flatten().map(Socket::as_fd)
    }
}

/// The guards in force against sockets that are bound to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a guard of its own")]
pub(crate) struct GuardStatus {
    /// The table of nf_tables.
    pub(crate) firewall: bool,
    /// Policies of the kernel, in IPv4.
    pub(crate) policies: bool,
    /// Routes that apply to every device, in IPv6.
    pub(crate) routes: bool,
    /// Filters of the network devices.
    pub(crate) filters: bool,
}

impl GuardStatus {
    /// Returns whether sockets that are bound to a device are stopped in both address families.
    pub(crate) fn are_complete(self) -> bool {
        self.firewall || self.policies && self.routes
    }
}

/// Fails if this network namespace has a data path already: two data paths would remove each other's routes and rules.
pub(crate) fn check_alone() -> io::Result<()> {
    let links = Socket::connect(libc::NETLINK_ROUTE)?.dump(RTM_GETLINK, &[0; IFINFOMSG_BYTES])?;
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
    pub(crate) fn new(tun_name: &str, mtu: u32, esp_port: u16) -> io::Result<Self> {
        let socket = Socket::connect(libc::NETLINK_ROUTE)?;
        let netlink_port = socket.port()?;
        let tun_index = nix::net::if_::if_nametoindex(tun_name)?;
        let guard = GuardSet::new(tun_name, tun_index, esp_port);
        let has_v6 = fs::exists("/proc/net/if_inet6").unwrap_or(false);
        let mut routes = Self {
            socket,
            netlink_port,
            tun_index,
            tun_name: tun_name.to_owned(),
            installed: DestinationRoutes::default(),
            policy_routes: PolicyRoutes::default(),
            leftover_destinations: BTreeSet::new(),
            has_v6,
            nexthop: Ok(()),
            needs_restore: false,
            has_outdated_filters: false,
            guard,
        };
        if has_v6 {
            // IPv6 may be off on this device alone.
            let _ = routes.request(&disable_generated_address(tun_index));
            routes.nexthop = routes.put_nexthop();
        }
        routes.request(&bring_up(tun_index, mtu))?;
        for family in routes.families() {
            // Future policies may protect packets that an earlier data path let pass.
            delete_matching(&routes.socket, family, RULE_REQUESTS, |body| {
                is_our_rule(body, |at| (PASS_PRIORITY..=SOURCES_PRIORITY).contains(&at))
            })?;
            let all = routes.socket.dump(RTM_GETROUTE, &family_request(family))?;
            routes.leftover_destinations.extend(all.iter().filter_map(|route| unreachable_destination(route)));
        }
        routes.put_steered_routes()?;
        routes.put_rules()?;
        Ok(routes)
    }

    fn families(&self) -> impl Iterator<Item = u8> + use<> {
        FAMILIES.into_iter().take(1 + usize::from(self.has_v6))
    }

    /// Replaces the installed routes and rules with `desired`. Additions come first, so that each packet finds an old or a new route.
    pub(crate) fn install(&mut self, desired: DestinationRoutes) -> io::Result<()> {
        let is_gone = |prefix: &&(IpAddr, u8)| !desired.tunnel_destinations.contains_key(*prefix);
        let obsolete: Vec<_> = self.installed.tunnel_destinations.keys().filter(is_gone).copied().collect();
        self.leftover_destinations.retain(|prefix| !obsolete.contains(prefix));
        self.guard.install(
            self.leftover_destinations.iter().chain(desired.tunnel_destinations.keys()).copied(),
            &desired.pass_selectors,
        )?;
        // Rules do not look at the interface, so policies of several interfaces share a rule.
        let same_rule =
            |a: &Selector, b: &Selector| Selector { interface_index: 0, ..*a } == Selector { interface_index: 0, ..*b };
        let is_needed = |selector: &Selector| desired.pass_selectors.iter().any(|other| same_rule(other, selector));
        for selector in self.installed.pass_selectors.iter().filter(|selector| !is_needed(selector)) {
            self.request_tolerating(&pass_rule(selector).message(RTM_DELRULE, 0), &[libc::ENOENT])?;
        }
        for (prefix, source) in &desired.tunnel_destinations {
            if self.installed.tunnel_destinations.get(prefix) != Some(source) {
                self.put_protected(*prefix, *source)?;
            }
        }
        for selector in
            desired.pass_selectors.iter().filter(|selector| !self.installed.pass_selectors.contains(selector))
        {
            self.put_rule(&pass_rule(selector))?;
        }
        for prefix in obsolete {
            let source = self.installed.tunnel_destinations[&prefix];
            let all = [
                Route::tunnel(PROTECTED_TABLE, prefix, source, self.tun_index),
                Route::unreachable(PROTECTED_TABLE, prefix),
                Route::blackhole(PROTECTED_TABLE, prefix),
            ];
            for route in all.into_iter().take(if self.has_blackhole(prefix) { 3 } else { 2 }) {
                self.request_tolerating(&route.message(RTM_DELROUTE, 0), &[libc::ESRCH])?;
            }
        }
        self.installed = desired;
        Ok(())
    }

    /// Returns whether packets are steered by whole selectors, not by the destination alone.
    pub(crate) fn steers(&self) -> bool {
        self.guard.steers()
    }

    /// Steers the packets of a new policy, and stops steering the packets of an old one.
    pub(crate) fn steer(&mut self, old: Option<&SteeredPolicy>, new: Option<&SteeredPolicy>) -> io::Result<()> {
        self.guard.steer(old, new)
    }

    /// Steers the packets of these policies, and no others.
    pub(crate) fn steer_all(&mut self, policies: &[SteeredPolicy]) -> io::Result<()> {
        self.guard.steer_all(policies)
    }

    /// Returns whether the filters of the devices lack a policy.
    pub(crate) fn has_outdated_filters(&self) -> bool {
        self.guard.has_outdated_filters() || self.has_outdated_filters
    }

    /// Updates the filters of the devices.
    pub(crate) fn update_filters(&mut self) -> io::Result<()> {
        self.has_outdated_filters = false;
        self.guard.restore_filters()
    }

    /// Replaces the route of the policy with this index.
    pub(crate) fn replace_policy_route(&mut self, policy: u32, new: Option<PolicyRoute>) -> io::Result<()> {
        let changed = self.policy_routes.replace(policy, new);
        changed.into_iter().try_for_each(|(table, prefix)| self.put_policy_route(table, prefix))
    }

    /// Returns whether the policy with this index has a route.
    pub(crate) fn has_policy_route(&self, policy: u32) -> bool {
        self.policy_routes.has_policy(policy)
    }

    /// Restores everything that other programs have changed since the last call. Returns, in addition, whether this host's addresses may
    /// have changed.
    pub(crate) fn restore(&mut self, changes: &Changes) -> (bool, io::Result<()>) {
        // Guards come first, because there are many routes.
        let guard = self.guard.restore(&changes.guard);
        let (mut addresses_changed, mut filters_changed) = (false, false);
        let is_changed = changes.routes.drain_any(|datagram| {
            netlink::messages(datagram).filter(|(_, port, _)| *port != self.netlink_port).fold(
                false,
                |is_ours, (kind, _, body)| {
                    let is_route_change = kind == RTM_NEWROUTE || kind == RTM_DELROUTE;
                    addresses_changed |= is_route_change && is_local_route(body);
                    filters_changed |= match kind {
                        RTM_NEWLINK => !is_device(body, self.tun_index),
                        _ => kind == RTM_DELQDISC || kind == RTM_DELTFILTER,
                    };
                    is_ours
                        || match kind {
                            RTM_NEWROUTE | RTM_DELROUTE => is_our_route(body),
                            RTM_DELRULE => is_our_rule(body, is_our_priority),
                            RTM_DELNEXTHOP => is_our_nexthop(body),
                            RTM_NEWLINK => is_device(body, self.tun_index),
                            _ => false,
                        }
                },
            )
        });
        self.has_outdated_filters |= filters_changed;
        let mut routes = Ok(());
        if is_changed || self.needs_restore {
            routes = self.put_all();
            self.needs_restore = routes.is_err();
        }
        (addresses_changed || is_changed, guard.and(routes))
    }

    pub(crate) fn guard_status(&self) -> GuardStatus {
        let [firewall, policies, filters] = self.guard.in_force();
        let routes = self.nexthop.is_ok() && !self.needs_restore;
        GuardStatus { firewall, policies, routes, filters: filters && !self.has_outdated_filters }
    }

    /// Returns one sentence for each guard that the kernel lacks.
    pub(crate) fn missing_guards(&self) -> Vec<String> {
        let [firewall, policies, filters] = self.guard.support_errors();
        let describe = |what: &str, instead: &str, error: Option<&io::Error>| {
            error.map(|error| format!("the kernel has no {what} ({error}): {instead}"))
        };
        let firewall_text = "all packets to the destination of a policy enter the tunnel's device, \
             policies and routes alone stop sockets that are bound to another device, and packets may arrive in clear";
        let other = |family: &str| match firewall {
            None => format!("in {family} the firewall alone stops sockets that are bound to a network device"),
            Some(_) => format!("in {family} a socket that is bound to a network device sends past the tunnel"),
        };
        [
            describe("nf_tables", firewall_text, firewall),
            describe("policies of IPsec", &other("IPv4"), policies),
            describe("nexthops", &other("IPv6"), self.nexthop.as_ref().err()),
            describe("filters of network devices", "the firewall alone stops packets of policies", filters),
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
        self.put_steered_routes()?;
        self.put_rules()?;
        self.installed.pass_selectors.iter().try_for_each(|selector| self.put_rule(&pass_rule(selector)))?;
        self.leftover_destinations.iter().try_for_each(|prefix| self.put_unreachable(PROTECTED_TABLE, *prefix))?;
        self.installed
            .tunnel_destinations
            .iter()
            .try_for_each(|(prefix, source)| self.put_protected(*prefix, *source))?;
        self.policy_routes.keys().try_for_each(|(table, prefix)| self.put_policy_route(table, prefix))
    }

    fn put_nexthop(&self) -> io::Result<()> {
        self.request_tolerating(&nexthop(RTM_NEWNEXTHOP, CREATE | EXCLUSIVE), &[libc::EEXIST])
    }

    fn put_rules(&self) -> io::Result<()> {
        for family in self.families() {
            // The rules that lead into the tables come last, so that packets that skip them are not stopped in between.
            self.put_rule(&Rule::target(family))?;
            let link = LINK_LOCAL_NETWORKS.iter().filter(|network| network.address.is_ipv6() && family != FAMILIES[0]);
            link.map(|network| link_local_rule(*network)).try_for_each(|rule| self.put_rule(&rule))?;
            self.rules(family).iter().try_for_each(|rule| self.put_rule(rule))?;
        }
        Ok(())
    }

    fn rules(&self, family: u8) -> [Rule; 10] {
        let look_up = |priority, table| Rule::look_up(family, priority, table);
        let skip = |mark| Rule::skip(family, SKIP_PRIORITY).marked(mark);
        // In IPv6 a rule cannot match packets without a source. So the firewall makes packets with a source skip the route.
        let sources = look_up(SOURCES_PRIORITY, SOURCES_TABLE).arriving_by("lo");
        let none = Prefix { address: [0; 4].into(), length: 32 };
        [
            look_up(RETURNING_PRIORITY, STEERED_TABLE).marked(RETURNING_MARK),
            skip(EXEMPT_MARK),
            // The reverse-path filter looks up the source as if the packet had arrived by the device by which it leaves. So these two rules
            // distinguish the filter's look-ups from look-ups of the destination.
            skip(STEERED_MARK).arriving_by(&self.tun_name),
            skip(ARRIVED_MARK).arriving_by(&self.tun_name),
            look_up(STEERED_PRIORITY, STEERED_TABLE).marked(STEERED_MARK),
            look_up(STEERED_PRIORITY, STEERED_TABLE).marked(ARRIVED_MARK),
            if family == FAMILIES[0] { sources.from(none) } else { sources },
            look_up(PROTECTED_PRIORITY, PROTECTED_TABLE).not_marked(EXEMPT_MARK),
            look_up(LAST_RESORT_PRIORITY, SOURCES_TABLE).not_marked(EXEMPT_MARK),
            look_up(LAST_RESORT_PRIORITY, FALLBACK_TABLE).not_marked(EXEMPT_MARK),
        ]
    }

    fn put_rule(&self, rule: &Rule) -> io::Result<()> {
        self.request_tolerating(&rule.message(RTM_NEWRULE, CREATE | EXCLUSIVE), &[libc::EEXIST])
    }

    /// Adds the default routes for marked packets.
    fn put_steered_routes(&self) -> io::Result<()> {
        let all = [([0; 4].into(), 0), ([0; 16].into(), 0)];
        all.into_iter()
            .zip(self.families())
            .try_for_each(|(prefix, _)| self.put_tunnel_routes(STEERED_TABLE, prefix, None))
    }

    /// Adds the routes to a destination that is protected.
    fn put_protected(&self, prefix: (IpAddr, u8), source: Option<IpAddr>) -> io::Result<()> {
        self.put_tunnel_routes(PROTECTED_TABLE, prefix, source)
    }

    /// Adds the routes to a destination. The unreachable routes come first, so that the destination is protected at once.
    fn put_tunnel_routes(&self, table: u32, prefix: (IpAddr, u8), source: Option<IpAddr>) -> io::Result<()> {
        self.put_unreachable(table, prefix)?;
        self.request(&Route::tunnel(table, prefix, source, self.tun_index).message(RTM_NEWROUTE, CREATE | REPLACE))
    }

    /// Updates the policies' route to a destination.
    fn put_policy_route(&self, table: u32, prefix: (IpAddr, u8)) -> io::Result<()> {
        let route = self.policy_routes.route((table, prefix));
        let source = route.and_then(|route| route.source);
        let all = [Route::unreachable(table, prefix), Route::tunnel(table, prefix, source, self.tun_index)];
        if route.is_none() {
            let delete = |route: &Route| self.request_tolerating(&route.message(RTM_DELROUTE, 0), &[libc::ESRCH]);
            return all.iter().rev().try_for_each(delete);
        }
        // The source may have been removed since the policy was installed.
        let put =
            |route: &Route| self.request_tolerating(&route.message(RTM_NEWROUTE, CREATE | REPLACE), &[libc::EINVAL]);
        all.iter().try_for_each(put)
    }

    fn put_unreachable(&self, table: u32, prefix: (IpAddr, u8)) -> io::Result<()> {
        self.request(&Route::unreachable(table, prefix).message(RTM_NEWROUTE, CREATE | REPLACE))?;
        if self.has_blackhole(prefix) {
            self.request(&Route::blackhole(table, prefix).message(RTM_NEWROUTE, CREATE | REPLACE))?;
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

fn is_our_priority(priority: u32) -> bool {
    (RETURNING_PRIORITY..=AFTER_TABLES_PRIORITY).contains(&priority) || priority == LAST_RESORT_PRIORITY
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
pub fn clear_leftovers() -> io::Result<usize> {
    let socket = Socket::connect(libc::NETLINK_ROUTE)?;
    let mut count = guard::clear_leftovers()?;
    // The kernel deletes routes along with their nexthop.
    let none = [libc::ENOENT, libc::EOPNOTSUPP, libc::EAFNOSUPPORT];
    socket.request(&nexthop(RTM_DELNEXTHOP, 0), &none)?;
    for family in FAMILIES {
        count += delete_matching(&socket, family, RULE_REQUESTS, |body| is_our_rule(body, is_our_priority))?;
        count += delete_matching(&socket, family, ROUTE_REQUESTS, is_our_route)?;
    }
    Ok(count)
}

/// Deletes the rules or routes of a family for which `is_ours` is true. Returns their number.
fn delete_matching(
    socket: &Socket,
    family: u8,
    (get, delete): (u16, u16),
    is_ours: impl Fn(&[u8]) -> bool,
) -> io::Result<usize> {
    let mut all = socket.dump(get, &family_request(family))?;
    all.retain(|body| is_ours(body));
    for body in &all {
        socket.request(&Message::new(delete, ACK).structure(body).finish(), &[libc::ESRCH, libc::ENOENT])?;
    }
    Ok(all.len())
}
