//! A table of the firewall (nf_tables) that drops what leaves past the tunnel, whatever way it was given.
//!
//! Rules and routes lead packets into the tunnel. A socket that is bound to a network device (SO_BINDTODEVICE, IP_UNICAST_IF, `ping -I`) asks
//! neither, and no privilege is needed for that. So the table `inet gantry_esp` looks at each packet as it leaves. It stays when the process
//! ends, in whatever way, as the routes to nowhere do. It is replaced as a whole, in one transaction, and once more when somebody else has
//! changed it: `nft flush ruleset` is how Debian loads a firewall.
//!
//! Structures and numbers are those of linux/netfilter/nf_tables.h and nfnetlink.h; `nft --debug=netlink` prints the same expressions.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use gantry_abi_xfrm::private::EXEMPT_MARK;
use gantry_abi_xfrm::{Port, Prefix, Selector};
use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use crate::netlink::{ACK, APPEND, CREATE, Message, Socket, attribute, messages};
use crate::sys::set_option;

const TABLE: &str = "gantry_esp";
const CHAIN: &str = "leaving";
/// Destinations that have to take the tunnel, and those that no router passes on, by family.
const PROTECTED: [&str; 2] = ["protected4", "protected6"];
const LINK: [&[(&str, u8)]; 2] =
    [&[("169.254.0.0", 16), ("224.0.0.0", 24), ("255.255.255.255", 32)], &[("fe80::", 10), ("ff02::", 16)]];

/// The table, where the kernel has nf_tables.
#[derive(Debug)]
pub(crate) struct Guard(Result<Installed, io::Error>);

#[derive(Debug)]
struct Installed {
    socket: Socket,
    /// Hears of changes that others make.
    changes: Socket,
    port: u32,
    device: String,
    /// What is in force, once there is something.
    table: Option<Table>,
}

#[derive(Debug, PartialEq, Eq)]
struct Table {
    /// Networks without common addresses.
    protected: Vec<(IpAddr, u8)>,
    pass: Vec<Selector>,
}

impl Guard {
    /// A guard that lets pass what leaves by this device, and as yet changes nothing.
    pub(crate) fn new(device: &str) -> Self {
        Self(Installed::new(device))
    }

    /// Why there is none.
    pub(crate) fn missing(&self) -> Option<&io::Error> {
        self.0.as_ref().err()
    }

    /// Drops packets to these destinations that leave past the tunnel, but for what passes.
    pub(crate) fn install(
        &mut self,
        protected: impl Iterator<Item = (IpAddr, u8)>,
        pass: &[Selector],
    ) -> io::Result<()> {
        let Ok(installed) = &mut self.0 else { return Ok(()) };
        let table = Table { protected: disjoint(protected.collect()), pass: pass.to_vec() };
        if installed.table.as_ref() == Some(&table) {
            return Ok(());
        }
        match installed.replace(&table) {
            Ok(()) => installed.table = Some(table),
            // The first one tells whether the kernel has nf_tables.
            Err(error) if installed.table.is_none() => self.0 = Err(error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Puts the table in force again if somebody else has changed it.
    pub(crate) fn restore(&self) -> io::Result<()> {
        let Ok(installed) = &self.0 else { return Ok(()) };
        match &installed.table {
            Some(table) if installed.was_changed() => installed.replace(table),
            _ => Ok(()),
        }
    }

    /// Is readable when somebody has changed the firewall.
    pub(crate) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().ok().map(|installed| installed.changes.as_fd())
    }
}

impl Installed {
    fn new(device: &str) -> io::Result<Self> {
        let socket = Socket::connect(SockProtocol::NetlinkNetFilter)?;
        let changes = Socket::connect(SockProtocol::NetlinkNetFilter)?;
        set_option(&changes, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, CHANGES)?;
        // Ten thousand networks are a megabyte. Who may not have so much has a table that says so when it is too large.
        let _ = set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 16 << 20);
        let port = socket.port()?;
        Ok(Self { socket, changes, port, device: device.to_owned(), table: None })
    }

    fn replace(&self, table: &Table) -> io::Result<()> {
        self.socket.ask(&transaction(&table.messages(&self.device)), &[])
    }

    fn was_changed(&self) -> bool {
        let mut buffer = [0; 1 << 14];
        let mut was_changed = false;
        loop {
            match self.changes.read(&mut buffer) {
                Ok(length) => {
                    let mut others = messages(&buffer[..length]).filter(|(_, port, _)| *port != self.port);
                    was_changed |= others.any(|(_, _, body)| is_of_ours(body));
                }
                Err(Errno::ENOBUFS) => was_changed = true,
                Err(_) => return was_changed,
            }
        }
    }
}

/// Takes the table away, and says how many there were.
pub(crate) fn clear() -> io::Result<usize> {
    let Ok(socket) = Socket::connect(SockProtocol::NetlinkNetFilter) else { return Ok(0) };
    let request = message(DELTABLE, 0).text(TABLE_NAME, TABLE).finish();
    match socket.ask(&transaction(&[request]), &[]) {
        Ok(()) => Ok(1),
        // None, or no nf_tables.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Networks without those that lie in others. Prefixes have no other way to overlap.
fn disjoint(mut networks: Vec<(IpAddr, u8)>) -> Vec<(IpAddr, u8)> {
    // An outer network comes before those in it, and those follow it.
    networks.sort_unstable();
    networks.dedup_by(|next, last| Prefix { address: last.0, length: last.1 }.contains(next.0));
    networks
}

/// Whether the body of a message is about our table: its first attribute is the name, whatever the message is about.
fn is_of_ours(body: &[u8]) -> bool {
    let name = body.get(4..).and_then(|attributes| attribute(attributes, TABLE_NAME));
    name.is_some_and(|name| name.strip_suffix(&[0]) == Some(TABLE.as_bytes()))
}

// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const SUBSYSTEM: u16 = 10;
/// The group that hears of changes (NFNLGRP_NFTABLES).
const CHANGES: i32 = 7;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEWTABLE: u16 = SUBSYSTEM << 8;
const DELTABLE: u16 = NEWTABLE + 2;
const NEWCHAIN: u16 = NEWTABLE + 3;
const NEWRULE: u16 = NEWTABLE + 6;
const NEWSET: u16 = NEWTABLE + 9;
const NEWSETELEM: u16 = NEWTABLE + 12;
/// The first attribute of tables, chains, rules, sets and elements.
const TABLE_NAME: u16 = 1;
/// The family of a table for IPv4 and IPv6 (NFPROTO_INET).
const INET: u8 = 1;
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];
const LIST_ELEM: u16 = 1;
const DATA_VALUE: u16 = 1;
/// Keys of `meta`.
const MARK: u32 = 3;
const OIFNAME: u32 = 7;
const NFPROTO: u32 = 15;
const L4PROTO: u32 = 16;
/// Operators of `cmp`.
const EQUAL: u32 = 0;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;
/// Bases of `payload`.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;

impl Table {
    /// What takes the place of whatever table of this name there is.
    fn messages(&self, device: &str) -> Vec<Vec<u8>> {
        let table = |kind, flags| message(kind, flags).text(TABLE_NAME, TABLE).finish();
        let mut all = vec![table(NEWTABLE, CREATE), table(DELTABLE, 0), table(NEWTABLE, CREATE), chain()];
        for (at, set) in PROTECTED.into_iter().enumerate() {
            all.push(new_set(set, at));
            let networks = self.protected.iter().filter(|(address, _)| usize::from(address.is_ipv6()) == at);
            let elements: Vec<Message> = networks.flat_map(|network| interval(*network)).collect();
            // A list of attributes has at most 64 KiB.
            all.extend(elements.chunks(1000).map(|elements| new_elements(set, elements)));
        }
        all.extend(self.rules(device).into_iter().map(Rule::message));
        all
    }

    fn rules(&self, device: &str) -> Vec<Rule> {
        // The last byte is a zero, by which names that begin alike are told apart.
        let leaves_by = |name: &str| Rule::new().meta(OIFNAME).compare(EQUAL, &[name.as_bytes(), &[0]].concat());
        let mut all = vec![leaves_by("lo").verdict(ACCEPT), leaves_by(device).verdict(ACCEPT)];
        // What the data path and IKE send.
        all.push(Rule::new().meta(MARK).compare(EQUAL, &EXEMPT_MARK.to_ne_bytes()).verdict(ACCEPT));
        all.extend(self.pass.iter().map(passes));
        for (family, networks) in LINK.into_iter().enumerate() {
            for (address, length) in networks {
                let address = address.parse().unwrap_or(IpAddr::from([0, 0, 0, 0]));
                let network = Prefix { address, length: *length };
                all.push(Rule::new().family(family).destination(&network).verdict(ACCEPT));
            }
        }
        // Discovery of neighbours (RFC 4861): routers, neighbours and redirects.
        let neighbours = Rule::new().family(1).protocol(libc::IPPROTO_ICMPV6 as u8).payload(TRANSPORT, 0, 1);
        all.push(neighbours.compare(AT_LEAST, &[133]).compare(AT_MOST, &[137]).verdict(ACCEPT));
        for (family, set) in PROTECTED.into_iter().enumerate() {
            let (at, length) = DESTINATION[family];
            all.push(Rule::new().family(family).payload(NETWORK, at, length).within(set).count().verdict(DROP));
        }
        all
    }
}

/// Where headers have their addresses, and how long those are, by family.
const SOURCE: [(u32, u32); 2] = [(12, 4), (8, 16)];
const DESTINATION: [(u32, u32); 2] = [(16, 4), (24, 16)];

/// Lets pass what a selector is for.
fn passes(selector: &Selector) -> Rule {
    let mut rule = Rule::new().family(usize::from(selector.destination.address.is_ipv6()));
    rule = rule.network(SOURCE, &selector.source).destination(&selector.destination);
    if selector.protocol != 0 {
        rule = rule.protocol(selector.protocol);
    }
    for (at, Port { value, mask }) in [(0, selector.source_port), (2, selector.destination_port)] {
        if mask != 0 {
            // A mask of the upper bits is a range.
            let (first, last) = ((value & mask).to_be_bytes(), (value | !mask).to_be_bytes());
            rule = rule.payload(TRANSPORT, at, 2).compare(AT_LEAST, &first).compare(AT_MOST, &last);
        }
    }
    rule.verdict(ACCEPT)
}

/// A rule: expressions, of which the first that does not match is the end.
struct Rule(Message);

impl Rule {
    fn new() -> Self {
        Self(Message::inside())
    }

    fn expression(self, name: &str, data: &Message) -> Self {
        let expression = Message::inside().text(1, name).nested(2, data);
        Self(self.0.nested(LIST_ELEM, &expression))
    }

    /// Loads something about the packet.
    fn meta(self, key: u32) -> Self {
        self.expression("meta", &Message::inside().big(1, REGISTER).big(2, key))
    }

    /// Loads bytes of the packet.
    fn payload(self, base: u32, at: u32, length: u32) -> Self {
        let data = Message::inside().big(1, REGISTER).big(2, base).big(3, at).big(4, length);
        self.expression("payload", &data)
    }

    fn compare(self, operator: u32, value: &[u8]) -> Self {
        let data = Message::inside().big(1, REGISTER).big(2, operator).nested(3, &value_of(value));
        self.expression("cmp", &data)
    }

    fn family(self, family: usize) -> Self {
        self.meta(NFPROTO).compare(EQUAL, &[FAMILIES[family]])
    }

    fn protocol(self, protocol: u8) -> Self {
        self.meta(L4PROTO).compare(EQUAL, &[protocol])
    }

    fn destination(self, network: &Prefix) -> Self {
        self.network(DESTINATION, network)
    }

    fn network(self, at: [(u32, u32); 2], network: &Prefix) -> Self {
        if network.length == 0 {
            return self;
        }
        let (address, mask) = match network.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX << (32 - u32::from(network.length));
                ((address.to_bits() & mask).to_be_bytes().to_vec(), mask.to_be_bytes().to_vec())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(network.length));
                ((address.to_bits() & mask).to_be_bytes().to_vec(), mask.to_be_bytes().to_vec())
            }
        };
        let (at, length) = at[usize::from(network.address.is_ipv6())];
        let data = Message::inside().big(1, REGISTER).big(2, REGISTER).big(3, length);
        let data = data.nested(4, &value_of(&mask)).nested(5, &value_of(&vec![0; mask.len()]));
        self.payload(NETWORK, at, length).expression("bitwise", &data).compare(EQUAL, &address)
    }

    fn within(self, set: &str) -> Self {
        self.expression("lookup", &Message::inside().text(1, set).big(2, REGISTER))
    }

    /// Counts the packets that come as far: `nft list table inet gantry_esp` shows them.
    fn count(self) -> Self {
        self.expression("counter", &Message::inside())
    }

    fn verdict(self, verdict: u32) -> Self {
        let verdict = Message::inside().nested(2, &Message::inside().big(1, verdict));
        self.expression("immediate", &Message::inside().big(1, 0).nested(2, &verdict))
    }

    fn message(self) -> Vec<u8> {
        message(NEWRULE, CREATE | APPEND).text(TABLE_NAME, TABLE).text(2, CHAIN).nested(4, &self.0).finish()
    }
}

/// The one register that rules here need.
const REGISTER: u32 = 1;

fn value_of(bytes: &[u8]) -> Message {
    Message::inside().attribute(DATA_VALUE, bytes)
}

/// A chain that each packet passes after its route is known, and that lets pass.
fn chain() -> Vec<u8> {
    const POSTROUTING: u32 = 4;
    let hook = Message::inside().big(1, POSTROUTING).big(2, 0);
    let message = message(NEWCHAIN, CREATE).text(TABLE_NAME, TABLE).text(3, CHAIN).nested(4, &hook);
    message.big(5, ACCEPT).text(7, "filter").finish()
}

/// A set of intervals of addresses.
fn new_set(name: &str, family: usize) -> Vec<u8> {
    const INTERVAL: u32 = 4;
    /// The types of `nft`, by which it shows addresses.
    const TYPES: [u32; 2] = [7, 8];
    let message = message(NEWSET, CREATE).text(TABLE_NAME, TABLE).text(2, name).big(3, INTERVAL);
    message.big(4, TYPES[family]).big(5, DESTINATION[family].1).big(10, family as u32 + 1).finish()
}

fn new_elements(set: &str, elements: &[Message]) -> Vec<u8> {
    let list = elements.iter().fold(Message::inside(), |list, element| list.nested(LIST_ELEM, element));
    message(NEWSETELEM, CREATE).text(TABLE_NAME, TABLE).text(2, set).nested(3, &list).finish()
}

/// The first address of a network, and the one behind it unless there is none.
fn interval((address, length): (IpAddr, u8)) -> Vec<Message> {
    const END: u32 = 1;
    let (first, behind) = match address {
        IpAddr::V4(address) => {
            let size = 1_u32.checked_shl(32 - u32::from(length));
            let behind = size.and_then(|size| address.to_bits().checked_add(size));
            (address.octets().to_vec(), behind.map(|behind| behind.to_be_bytes().to_vec()))
        }
        IpAddr::V6(address) => {
            let size = 1_u128.checked_shl(128 - u32::from(length));
            let behind = size.and_then(|size| address.to_bits().checked_add(size));
            (address.octets().to_vec(), behind.map(|behind| behind.to_be_bytes().to_vec()))
        }
    };
    let element = |key: &[u8]| Message::inside().nested(1, &value_of(key));
    let end = behind.map(|behind| element(&behind).big(3, END));
    [Some(element(&first)), end].into_iter().flatten().collect()
}

/// A message about our table, with `struct nfgenmsg`.
fn message(kind: u16, flags: u16) -> Message {
    Message::new(kind, flags).structure(&[INET, 0, 0, 0])
}

/// Messages that are in force all at once or not at all; the last one is answered.
fn transaction(messages: &[Vec<u8>]) -> Vec<u8> {
    let [_, subsystem] = SUBSYSTEM.to_be_bytes();
    let frame = |kind| Message::new(kind, 0).structure(&[0, 0, 0, subsystem]).finish();
    let mut all = frame(BATCH_BEGIN);
    for (at, message) in messages.iter().enumerate() {
        let start = all.len();
        all.extend(message);
        if at + 1 == messages.len() {
            let flags = u16::from_ne_bytes([all[start + 6], all[start + 7]]) | ACK;
            all[start + 6..start + 8].copy_from_slice(&flags.to_ne_bytes());
        }
    }
    all.extend(frame(BATCH_END));
    all
}

impl Message {
    /// A text, which ends with a zero.
    fn text(self, kind: u16, text: &str) -> Self {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// A number as nf_tables has them: with the highest byte first.
    fn big(self, kind: u16, number: u32) -> Self {
        self.attribute(kind, &number.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::steering::network;

    #[test]
    fn networks_within_others_are_left_out() {
        let all = ["10.2.0.0/16", "10.2.0.0/24", "10.2.255.0/24", "10.3.0.0/16", "::/0", "fd12::/64", "10.2.0.0/16"];
        let all = all.map(|text| network(text).map(|prefix| (prefix.address, prefix.length)).unwrap());
        let left = disjoint(all.to_vec()).into_iter().map(|(address, length)| format!("{address}/{length}"));
        assert_eq!(left.collect::<Vec<_>>(), ["10.2.0.0/16", "10.3.0.0/16", "::/0"]);
    }

    #[test]
    fn messages_of_other_tables_are_no_matter() {
        let of = |name| message(DELTABLE, 0).text(TABLE_NAME, name).finish();
        assert!(is_of_ours(&of(TABLE)[16..]));
        assert!(!is_of_ours(&of("gantry_esp2")[16..]) && !is_of_ours(&of("filter")[16..]) && !is_of_ours(&[1, 2]));
    }
}
