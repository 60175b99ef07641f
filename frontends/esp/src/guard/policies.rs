//! Policies of the kernel's own IPsec (XFRM), which block IPv4 packets that leave past the tunnel.
//!
//! In IPv4 a socket that is bound to a device may send even where the look-up of routes ends with an error: the kernel takes the destination for
//! a neighbour (`ip_route_output_key_hash_rcu`). The kernel asks its policies afterwards, for every sender. In IPv6 it asks them before it knows
//! the device, so that they would block packets on their way into the tunnel, too; a route stops the others there.
//!
//! `ip xfrm policy` without `gantry esp exec` shows these policies. All others come before them.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use gantry_abi_xfrm::constants::{flag, group, message};
use gantry_abi_xfrm::private::EXEMPT_MARK;
use gantry_abi_xfrm::{
    Action, Datagram, Direction, Family, Keys, Mark, Message, Policy, PolicyRef, Prefix, Selector, frames,
};

use super::LINK;
use crate::netlink::{self, Socket};

/// The user in the selectors, which tells these policies from all others. The kernel does not compare it with packets.
const USER: u32 = EXEMPT_MARK;
/// Bytes of `struct xfrm_userpolicy_id`.
const ID: usize = 64;
/// The loopback device has this index in every network namespace.
const LOOPBACK: u32 = 1;

/// The name of a policy: the kernel has one policy of each.
type Name = (Selector, Option<Mark>);

/// The policies that are in force.
#[derive(Debug)]
pub(super) struct Policies {
    socket: Socket,
    port: u32,
    /// The index of the TUN device.
    device: u32,
    installed: HashMap<Name, Action>,
}

impl Policies {
    /// Finds the policies that an earlier data path left. They stay until others are installed.
    pub(super) fn new(device: u32) -> io::Result<Self> {
        let socket = Socket::connect(libc::NETLINK_XFRM)?;
        let port = socket.port()?;
        let installed =
            all(&socket)?.into_iter().map(|policy| ((policy.selector, policy.mark), policy.action)).collect();
        Ok(Self { socket, port, device, installed })
    }

    /// Blocks packets to these destinations that leave past the tunnel, except packets of a `pass` selector.
    pub(super) fn install(&mut self, protected: &[(IpAddr, u8)], pass: &[Selector]) -> io::Result<()> {
        let wanted = wanted(self.device, protected, pass);
        let gone = |action| self.installed.iter().filter(move |(_, known)| **known == action).map(|(name, _)| *name);
        let gone = gone(Action::Allow).chain(gone(Action::Block)).filter(|name| !wanted.contains_key(name));
        let gone: Vec<Name> = gone.collect();
        // Policies that let packets pass come first, so that these packets are blocked at no moment.
        for wanted_action in [Action::Allow, Action::Block] {
            for (name, action) in wanted.iter().filter(|(_, action)| **action == wanted_action) {
                match self.installed.get(name) {
                    Some(installed) if installed == action => continue,
                    Some(_) => self.delete(*name)?,
                    None => {}
                }
                self.add(*name, *action)?;
                self.installed.insert(*name, *action);
            }
        }
        gone.into_iter().try_for_each(|name| self.delete(name))?;
        Ok(())
    }

    /// Puts the policies in force again.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        for wanted in [Action::Allow, Action::Block] {
            for (name, _) in self.installed.iter().filter(|(_, action)| **action == wanted) {
                self.add(*name, wanted)?;
            }
        }
        Ok(())
    }

    /// Opens a socket that receives changes.
    pub(super) fn changes() -> io::Result<Socket> {
        Socket::listen(libc::NETLINK_XFRM, &[group::POLICY.cast_signed()])
    }

    /// Whether a datagram tells of a change of these policies by another program.
    pub(super) fn were_changed(&self, datagram: &[u8]) -> bool {
        frames(datagram).filter(|frame| frame.header.port != self.port).any(|frame| match Message::parse(&frame) {
            Ok(Message::PolicyDeleted(policy) | Message::NewPolicy(policy) | Message::UpdPolicy(policy)) => {
                is_ours(&policy)
            }
            Ok(Message::FlushPolicy { .. }) => true,
            _ => false,
        })
    }

    fn add(&self, (selector, mark): Name, action: Action) -> io::Result<()> {
        let mut policy = Policy::new(selector, Direction::Out);
        (policy.action, policy.mark) = (action, mark);
        policy.priority = if action == Action::Allow { u32::MAX - 1 } else { u32::MAX };
        ask(&self.socket, &Message::NewPolicy(policy.into()), libc::EEXIST)
    }

    fn delete(&mut self, name: Name) -> io::Result<()> {
        delete(&self.socket, name)?;
        self.installed.remove(&name);
        Ok(())
    }
}

/// The policies for these destinations; none without destinations of IPv4.
fn wanted(device: u32, protected: &[(IpAddr, u8)], pass: &[Selector]) -> HashMap<Name, Action> {
    let any = Selector { user: USER, ..Selector::any(Family::Ipv4) };
    let to = |destination| Selector { destination, ..any };
    let protected: Vec<Prefix> = protected
        .iter()
        .filter(|(address, _)| address.is_ipv4())
        .map(|&(address, length)| Prefix { address, length })
        .collect();
    if protected.is_empty() {
        return HashMap::new();
    }
    let by = |device: u32| Selector { interface: device.cast_signed(), ..any };
    let overlaps =
        |one: &Prefix| protected.iter().any(|other| other.contains(one.address) || one.contains(other.address));
    let link = LINK.iter().filter(|network| overlaps(network)).map(|network| to(*network));
    let pass = pass.iter().filter(|selector| selector.family() == Family::Ipv4);
    let pass = pass.map(|selector| Selector { user: USER, any_family: false, ..*selector });
    let passes = [by(LOOPBACK), by(device)].into_iter().chain(link).chain(pass).map(|selector| (selector, None));
    // Packets of the data path itself, and of IKE.
    let exempt = (any, Some(Mark { value: EXEMPT_MARK, mask: u32::MAX }));
    let mut wanted: HashMap<Name, Action> = passes.chain([exempt]).map(|name| (name, Action::Allow)).collect();
    for network in &protected {
        wanted.entry((to(*network), None)).or_insert(Action::Block);
    }
    wanted
}

/// Deletes the policies that a data path has left.
pub(super) fn clear() -> io::Result<()> {
    let Ok(socket) = Socket::connect(libc::NETLINK_XFRM) else { return Ok(()) };
    let mut all = all(&socket)?;
    // Policies that let packets pass go last, so that these packets are blocked at no moment.
    all.sort_unstable_by_key(|policy| policy.action == Action::Allow);
    all.into_iter().try_for_each(|policy| delete(&socket, (policy.selector, policy.mark)))
}

/// All policies of a data path.
fn all(socket: &Socket) -> io::Result<Vec<Policy>> {
    let bodies = socket.dump(message::GETPOLICY, &[0; ID])?;
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
    policy.selector.user == USER && policy.direction == Direction::Out
}

fn delete(socket: &Socket, (selector, mark): Name) -> io::Result<()> {
    let direction = Direction::Out;
    let named = PolicyRef { selector, index: 0, direction, kind: 0, mark, interface_id: 0, unknown: Vec::new() };
    ask(socket, &Message::DelPolicy(named), libc::ENOENT)
}

/// Sends a request to the kernel. The error `as_good` counts as success.
fn ask(socket: &Socket, message: &Message, as_good: i32) -> io::Result<()> {
    let mut datagram = Datagram::new();
    datagram.push(message, flag::REQUEST | flag::ACK, 0, 0, Keys::Zeros);
    socket.ask(datagram.as_bytes(), &[as_good])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::steering::network;

    fn prefix(text: &str) -> (IpAddr, u8) {
        let prefix = network(text).unwrap();
        (prefix.address, prefix.length)
    }

    fn blocked(wanted: &HashMap<Name, Action>) -> Vec<Prefix> {
        let blocks = wanted.iter().filter(|(_, action)| **action == Action::Block);
        blocks.map(|((selector, _), _)| selector.destination).collect()
    }

    #[test]
    fn networks_of_ipv4_are_blocked_and_others_are_no_matter() {
        assert!(wanted(7, &[prefix("fd12::/64")], &[]).is_empty());
        let wanted = wanted(7, &[prefix("10.2.0.0/16"), prefix("fd12::/64")], &[]);
        assert_eq!(blocked(&wanted), [network("10.2.0.0/16").unwrap()]);
        // The others let packets pass: of the loopback device, of the TUN device, and with the mark.
        assert_eq!(wanted.len(), 4);
        assert!(wanted.keys().all(|(selector, _)| selector.user == USER));
    }

    #[test]
    fn what_passes_is_let_through_and_so_is_the_link_where_all_is_protected() {
        let selector = Selector { protocol: 17, ..Selector::any(Family::Ipv4) };
        let all = wanted(7, &[prefix("0.0.0.0/0")], &[selector, Selector::any(Family::Ipv6)]);
        assert_eq!((blocked(&all).len(), all.len()), (1, 1 + 3 + 3 + 1));
        // A policy that lets all protected packets pass.
        let all = wanted(7, &[prefix("0.0.0.0/0")], &[Selector::any(Family::Ipv4)]);
        assert_eq!(blocked(&all), []);
    }
}
