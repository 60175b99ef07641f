//! Policies of the kernel's own IPsec (XFRM), which block IPv4 packets that bypass the tunnel.
//!
//! In IPv4 a socket that is bound to a device may send even if the route lookup fails: the kernel treats the destination as a neighbour
//! (`ip_route_output_key_hash_rcu`). The kernel consults its policies afterwards, for every sender. In IPv6 the kernel consults them
//! before it knows the device, so they would also block packets on their way into the tunnel. In IPv6 a route takes their place.
//!
//! `ip xfrm policy` without `gantry esp exec` shows these policies. All other policies have higher priority.

use std::collections::HashMap;
use std::io;

use gantry_abi_xfrm::constants::{flag, group, message};
use gantry_abi_xfrm::preload::EXEMPT_MARK;
use gantry_abi_xfrm::{
    Action, Datagram, Direction, Family, KeyVisibility, Mark, Message, Policy, PolicyRef, Prefix, Selector, frames,
};

use super::LINK_LOCAL_NETWORKS;
use crate::netlink::{self, Socket};

/// The user ID in the selectors, which marks these policies as ours. The kernel does not compare it with packets.
const OUR_USER_ID: u32 = EXEMPT_MARK;
/// Bytes of `struct xfrm_userpolicy_id`.
const USERPOLICY_ID_BYTES: usize = 64;
/// The loopback device has this index in every network namespace.
const LOOPBACK: u32 = 1;

/// The key of a policy, which is unique in the kernel.
type PolicyKey = (Selector, Option<Mark>);

/// The policies in force.
#[derive(Debug)]
pub(super) struct KernelPolicies {
    socket: Socket,
    netlink_port: u32,
    /// The index of the TUN device.
    tun_index: u32,
    installed: HashMap<PolicyKey, Action>,
}

impl KernelPolicies {
    /// Finds the policies that an earlier data path left. They stay until others are installed.
    pub(super) fn new(tun_index: u32) -> io::Result<Self> {
        let socket = Socket::connect(libc::NETLINK_XFRM)?;
        let netlink_port = socket.port()?;
        let installed =
            our_policies(&socket)?.into_iter().map(|policy| ((policy.selector, policy.mark), policy.action)).collect();
        Ok(Self { socket, netlink_port, tun_index, installed })
    }

    /// Blocks packets to these destinations that bypass the tunnel, except packets of `pass_selectors`.
    pub(super) fn install(&mut self, protected: &[Prefix], pass_selectors: &[Selector]) -> io::Result<()> {
        let desired = desired_policies(self.tun_index, protected, pass_selectors);
        let obsolete =
            |action| self.installed.iter().filter(move |(_, installed)| **installed == action).map(|(key, _)| *key);
        let obsolete = obsolete(Action::Allow).chain(obsolete(Action::Block)).filter(|key| !desired.contains_key(key));
        let obsolete: Vec<PolicyKey> = obsolete.collect();
        // Policies that let packets pass come first, so that these packets are not blocked in between.
        for desired_action in [Action::Allow, Action::Block] {
            for (key, action) in desired.iter().filter(|(_, action)| **action == desired_action) {
                match self.installed.get(key) {
                    Some(installed) if installed == action => continue,
                    Some(_) => self.delete(*key)?,
                    None => {}
                }
                self.add(*key, *action)?;
                self.installed.insert(*key, *action);
            }
        }
        obsolete.into_iter().try_for_each(|key| self.delete(key))?;
        Ok(())
    }

    /// Installs the policies again.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        for desired in [Action::Allow, Action::Block] {
            for (key, _) in self.installed.iter().filter(|(_, action)| **action == desired) {
                self.add(*key, desired)?;
            }
        }
        Ok(())
    }

    /// Opens a socket that receives notifications about changes of policies.
    pub(super) fn changes() -> io::Result<Socket> {
        Socket::listen(libc::NETLINK_XFRM, &[group::POLICY.cast_signed()])
    }

    /// Returns whether a datagram reports a change of these policies by another program.
    pub(super) fn were_changed(&self, datagram: &[u8]) -> bool {
        frames(datagram).filter(|frame| frame.header.port != self.netlink_port).any(|frame| {
            match Message::parse(&frame) {
                Ok(Message::PolicyDeleted(policy) | Message::NewPolicy(policy) | Message::UpdPolicy(policy)) => {
                    is_ours(&policy)
                }
                Ok(Message::FlushPolicy { .. }) => true,
                _ => false,
            }
        })
    }

    fn add(&self, (selector, mark): PolicyKey, action: Action) -> io::Result<()> {
        let mut policy = Policy::new(selector, Direction::Out);
        (policy.action, policy.mark) = (action, mark);
        policy.priority = if action == Action::Allow { u32::MAX - 1 } else { u32::MAX };
        request(&self.socket, &Message::NewPolicy(policy.into()), libc::EEXIST)
    }

    fn delete(&mut self, key: PolicyKey) -> io::Result<()> {
        delete(&self.socket, key)?;
        self.installed.remove(&key);
        Ok(())
    }
}

/// Returns the policies for these destinations; none if there are no IPv4 destinations.
fn desired_policies(tun_index: u32, protected: &[Prefix], pass_selectors: &[Selector]) -> HashMap<PolicyKey, Action> {
    let any = Selector { user: OUR_USER_ID, ..Selector::any(Family::Ipv4) };
    let to = |destination| Selector { destination, ..any };
    let protected: Vec<&Prefix> = protected.iter().filter(|network| network.address.is_ipv4()).collect();
    if protected.is_empty() {
        return HashMap::new();
    }
    let by = |device: u32| Selector { interface_index: device.cast_signed(), ..any };
    let overlaps =
        |one: &Prefix| protected.iter().any(|other| other.contains(one.address) || one.contains(other.address));
    let link = LINK_LOCAL_NETWORKS.iter().filter(|network| overlaps(network)).map(|network| to(*network));
    let pass = pass_selectors.iter().filter(|selector| selector.family() == Family::Ipv4);
    let pass = pass.map(|selector| Selector { user: OUR_USER_ID, is_family_unspecified: false, ..*selector });
    let passes = [by(LOOPBACK), by(tun_index)].into_iter().chain(link).chain(pass).map(|selector| (selector, None));
    // Packets of the data path itself, and of IKE.
    let exempt = (any, Some(Mark { value: EXEMPT_MARK, mask: u32::MAX }));
    let mut desired: HashMap<PolicyKey, Action> = passes.chain([exempt]).map(|key| (key, Action::Allow)).collect();
    for network in protected {
        desired.entry((to(*network), None)).or_insert(Action::Block);
    }
    desired
}

/// Deletes the policies that a data path has left.
pub(super) fn clear_leftovers() -> io::Result<()> {
    let Ok(socket) = Socket::connect(libc::NETLINK_XFRM) else { return Ok(()) };
    let mut all = our_policies(&socket)?;
    // Policies that let packets pass are deleted last, so that these packets are not blocked in between.
    all.sort_unstable_by_key(|policy| policy.action == Action::Allow);
    all.into_iter().try_for_each(|policy| delete(&socket, (policy.selector, policy.mark)))
}

/// Lists all policies of a data path.
fn our_policies(socket: &Socket) -> io::Result<Vec<Policy>> {
    let bodies = socket.dump(message::GETPOLICY, &[0; USERPOLICY_ID_BYTES])?;
    let policies = bodies.iter().filter_map(|body| {
        let datagram = netlink::Message::new(message::NEWPOLICY, 0).structure(body).finish();
        match Message::parse(&frames(&datagram).next()?) {
            Ok(Message::NewPolicy(policy)) => Some(*policy).filter(is_ours),
            _ => None,
        }
    });
    Ok(policies.collect())
}

fn is_ours(policy: &Policy) -> bool {
    policy.selector.user == OUR_USER_ID && policy.direction == Direction::Out
}

fn delete(socket: &Socket, (selector, mark): PolicyKey) -> io::Result<()> {
    let direction = Direction::Out;
    let named = PolicyRef { selector, index: 0, direction, kind: 0, mark, interface_id: 0, unknown: Vec::new() };
    request(socket, &Message::DelPolicy(named), libc::ENOENT)
}

/// Sends a request to the kernel. The error `tolerated` counts as success.
fn request(socket: &Socket, message: &Message, tolerated: i32) -> io::Result<()> {
    let mut datagram = Datagram::new();
    // Unlike rtnetlink, XFRM repeats the port of the message in its notification, not the port of the socket.
    datagram.push(message, flag::REQUEST | flag::ACK, 0, socket.port()?, KeyVisibility::Zeros);
    socket.request(datagram.as_bytes(), &[tolerated])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::steering::parse_network;

    fn blocked(desired: &HashMap<PolicyKey, Action>) -> Vec<Prefix> {
        let blocks = desired.iter().filter(|(_, action)| **action == Action::Block);
        blocks.map(|((selector, _), _)| selector.destination).collect()
    }

    #[test]
    fn only_ipv4_networks_are_blocked() {
        assert!(desired_policies(7, &[parse_network("fd12::/64").unwrap()], &[]).is_empty());
        let desired =
            desired_policies(7, &[parse_network("10.2.0.0/16").unwrap(), parse_network("fd12::/64").unwrap()], &[]);
        assert_eq!(blocked(&desired), [parse_network("10.2.0.0/16").unwrap()]);
        // The other policies let packets pass: packets of the loopback device, of the TUN device, and with the mark.
        assert_eq!(desired.len(), 4);
        assert!(desired.keys().all(|(selector, _)| selector.user == OUR_USER_ID));
    }

    #[test]
    fn pass_selectors_and_the_link_stay_open_if_all_is_protected() {
        let selector = Selector { protocol: 17, ..Selector::any(Family::Ipv4) };
        let all = desired_policies(7, &[parse_network("0.0.0.0/0").unwrap()], &[selector, Selector::any(Family::Ipv6)]);
        assert_eq!((blocked(&all).len(), all.len()), (1, 1 + 3 + 3 + 1));
        // A policy that lets all protected packets pass.
        let all = desired_policies(7, &[parse_network("0.0.0.0/0").unwrap()], &[Selector::any(Family::Ipv4)]);
        assert_eq!(blocked(&all), []);
    }
}
