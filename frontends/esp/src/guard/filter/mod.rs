//! A filter at every network device (tc(8), BPF), which drops packets of policies that bypass the tunnel, even without the firewall.
//!
//! The filter sees each packet after all other hooks, and stays when the process ends. The length of its program is limited, so it
//! covers only the first policies in their order.

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::SteeredPolicy;
use crate::netlink::{ACK, CREATE, EXCLUSIVE, Message, REPLACE, Socket, attribute};
use crate::table::PolicyOrder;

// linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h
const RTM_GETLINK: u16 = 18;
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
/// Bytes of `struct ifinfomsg`.
const IFINFOMSG_BYTES: usize = 16;
const ADDRESS: u16 = 1;
const ETHERNET: u16 = 1;
/// The handles of a device's queueing discipline for filters of both directions, and of its outgoing direction.
const CLSACT: u32 = 0xFFFF_FFF1;
const EGRESS: u32 = 0xFFFF_FFF3;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// Options of a filter of the kind `bpf`: the length of a program, the program, and flags. The flag `DIRECT` makes
/// the program's result the verdict.
const PROGRAM_LENGTH: u16 = 4;
const PROGRAM: u16 = 5;
const FLAGS: u16 = 8;
const DIRECT: u32 = 1;
/// The priority of our filter among the filters of a device, and its number.
const PRIORITY: u32 = 7;
const HANDLE: u32 = 0x4745;

/// The filters.
#[derive(Debug)]
pub(super) struct Filters {
    socket: Socket,
    /// The index of the TUN device.
    tun_index: u32,
    /// Policies of IPv4 and of IPv6.
    policies: [BTreeMap<PolicyOrder, SteeredPolicy>; 2],
    /// The order numbers of the policies with [`passes`](SteeredPolicy::passes) false, and then of the policies with `passes` true.
    orders: [BTreeSet<PolicyOrder>; 2],
    /// True if there has been no policy yet. Until then, filters of an earlier data path stay.
    keeps_leftovers: bool,
    /// True if the filters lack a policy.
    is_outdated: bool,
}

impl Filters {
    /// Adds the queueing discipline that filters need to all devices except the loopback device and the tunnel's device.
    pub(super) fn new(tun_index: u32) -> io::Result<Self> {
        let socket = Socket::connect(libc::NETLINK_ROUTE)?;
        let (policies, orders) = Default::default();
        let filters = Self { socket, tun_index, policies, orders, keeps_leftovers: true, is_outdated: false };
        filters.for_each_device(|device| filters.add_qdisc(device))?;
        Ok(filters)
    }

    /// Replaces a policy. Updates the filters at once if the old filters could stop packets that may pass. If they could not, the next
    /// [`restore`](Self::restore) updates them.
    pub(super) fn steer(&mut self, old: Option<&SteeredPolicy>, new: Option<&SteeredPolicy>) -> io::Result<()> {
        let is_same = old.zip(new).is_some_and(|(old, new)| self.have_same_effect(old, new));
        if let Some(old) = old {
            self.policies[family(old)].remove(&old.order);
            self.orders[usize::from(old.passes)].remove(&old.order);
        }
        if let Some(new) = new {
            self.add(*new);
        }
        if is_same && !self.keeps_leftovers {
            return Ok(());
        }
        (self.keeps_leftovers, self.is_outdated) = (false, true);
        if old.is_some() || new.is_some_and(|new| new.passes) { self.restore() } else { Ok(()) }
    }

    /// Returns whether a policy and its update have the same effect on all packets.
    fn have_same_effect(&self, old: &SteeredPolicy, new: &SteeredPolicy) -> bool {
        let between = old.order.min(new.order)..=old.order.max(new.order);
        old.selector == new.selector
            && old.passes == new.passes
            && self.orders[usize::from(!new.passes)].range(between).next().is_none()
    }

    fn add(&mut self, policy: SteeredPolicy) {
        self.policies[family(&policy)].insert(policy.order, policy);
        self.orders[usize::from(policy.passes)].insert(policy.order);
    }

    /// Replaces all policies.
    pub(super) fn steer_all(&mut self, policies: impl Iterator<Item = SteeredPolicy>) -> io::Result<()> {
        (self.policies, self.orders) = Default::default();
        policies.for_each(|policy| self.add(policy));
        self.keeps_leftovers = false;
        self.restore()
    }

    /// Returns whether the filters lack a policy.
    pub(super) fn are_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Installs the filters at all devices.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        self.for_each_device(|device| self.install_filter(device))?;
        self.is_outdated = false;
        Ok(())
    }

    /// Calls `work` for each device. Fails only if all devices fail, because a device may have disappeared, or have no queueing discipline
    /// for filters.
    fn for_each_device(&self, work: impl Fn(&Device) -> io::Result<()>) -> io::Result<()> {
        let links = self.socket.dump(RTM_GETLINK, &[0; IFINFOMSG_BYTES])?;
        let devices =
            links.iter().filter_map(|link| Device::read(link)).filter(|device| device.index != self.tun_index);
        let results: Vec<io::Result<()>> = devices.map(|device| work(&device)).collect();
        if results.iter().any(Result::is_ok) { Ok(()) } else { results.into_iter().collect() }
    }

    /// Adds the queueing discipline that filters need. The device may lose a packet during this change, so it comes before the policies.
    fn add_qdisc(&self, device: &Device) -> io::Result<()> {
        let qdisc = message(RTM_NEWQDISC, CREATE | EXCLUSIVE, device.index, 0xFFFF_0000, CLSACT, 0);
        self.socket.request(&qdisc.attribute(KIND, b"clsact\0").finish(), &[libc::EEXIST])
    }

    fn install_filter(&self, device: &Device) -> io::Result<()> {
        self.add_qdisc(device)?;
        if self.keeps_leftovers {
            return Ok(());
        }
        if self.policies.iter().all(BTreeMap::is_empty) {
            return delete(&self.socket, device.index);
        }
        let program = program::program(device.ethernet_address, &self.policies);
        let instructions = program.iter().flat_map(|instruction| {
            let [a, b] = instruction.code.to_ne_bytes();
            let [c, d, e, f] = instruction.k.to_ne_bytes();
            [a, b, instruction.jt, instruction.jf, c, d, e, f]
        });
        let options = Message::content().attribute(PROGRAM_LENGTH, &(program.len() as u16).to_ne_bytes());
        let options = options.attribute(PROGRAM, &instructions.collect::<Vec<u8>>()).number(FLAGS, DIRECT);
        let filter = filter_message(RTM_NEWTFILTER, CREATE | REPLACE, device.index).attribute(KIND, b"bpf\0");
        self.socket.request(&filter.nested(OPTIONS, &options).finish(), &[])
    }
}

fn family(policy: &SteeredPolicy) -> usize {
    usize::from(policy.selector.destination.address.is_ipv6())
}

/// A device that may send packets past the tunnel.
struct Device {
    index: u32,
    /// The Ethernet address, if the device has one.
    ethernet_address: Option<[u8; 6]>,
}

impl Device {
    /// Reads an answer about a device. Returns `None` if it is the loopback device, or if the answer is too short.
    fn read(link: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(*link.get(at..)?.first_chunk()?));
        let kind = u16::from_ne_bytes(*link.get(2..)?.first_chunk()?);
        let ethernet_address =
            attribute(link.get(IFINFOMSG_BYTES..)?, ADDRESS).and_then(|address| address.try_into().ok());
        let is_loopback = word(8)? & libc::IFF_LOOPBACK as u32 != 0;
        let index = word(4)?;
        (!is_loopback).then_some(Self { index, ethernet_address: ethernet_address.filter(|_| kind == ETHERNET) })
    }
}

/// Deletes all filters that a data path has left.
pub(super) fn clear_leftovers() -> io::Result<()> {
    let socket = Socket::connect(libc::NETLINK_ROUTE)?;
    let links = socket.dump(RTM_GETLINK, &[0; IFINFOMSG_BYTES])?;
    let devices = links.iter().filter_map(|link| Device::read(link));
    devices.map(|device| delete(&socket, device.index)).fold(Ok(()), io::Result::and)
}

/// Deletes the filter of a device, if it has one.
fn delete(socket: &Socket, device: u32) -> io::Result<()> {
    let none = [libc::ENOENT, libc::EINVAL, libc::EOPNOTSUPP];
    socket.request(&filter_message(RTM_DELTFILTER, 0, device).attribute(KIND, b"bpf\0").finish(), &none)
}

/// Starts a message about our filter of a device.
fn filter_message(kind: u16, flags: u16, device: u32) -> Message {
    let all_protocols = u32::from((libc::ETH_P_ALL as u16).to_be());
    message(kind, flags, device, HANDLE, EGRESS, PRIORITY << 16 | all_protocols)
}

/// Starts a message with `struct tcmsg`.
fn message(kind: u16, flags: u16, device: u32, handle: u32, parent: u32, info: u32) -> Message {
    let numbers = [0, device, handle, parent, info].map(u32::to_ne_bytes);
    Message::new(kind, ACK | flags).structure(&numbers.concat())
}
