//! The table `inet gantry_esp` of the firewall (nf_tables), which checks each packet as it leaves.
//!
//! The table is replaced as a whole, in one transaction, and stays when the process ends. Since Linux 6.9 a table can have an owner that
//! alone may change it: `nft flush ruleset`, by which Debian loads a firewall, skips such a table. On earlier kernels the table is restored
//! after a change.
//!
//! Structures and numbers are those of linux/netfilter/nf_tables.h and nfnetlink.h; `nft --debug=netlink` prints the same expressions.

use std::io;
use std::net::IpAddr;

use gantry_abi_xfrm::private::EXEMPT_MARK;
use gantry_abi_xfrm::{Port, Prefix, Selector};

use super::LINK;
use crate::netlink::{ACK, APPEND, CREATE, Message, Socket, attribute, messages};
use crate::sys::set_option;

const TABLE: &str = "gantry_esp";
const CHAIN: &str = "leaving";
/// Sets of destinations that must take the tunnel, by family.
const PROTECTED: [&str; 2] = ["protected4", "protected6"];

/// The table and its socket.
#[derive(Debug)]
pub(super) struct Firewall {
    socket: Socket,
    port: u32,
    device: String,
    /// The socket is to own the table.
    is_owned: bool,
    /// The table in force, once there is one.
    table: Option<Table>,
}

#[derive(Debug, PartialEq, Eq)]
struct Table {
    /// Networks without common addresses.
    protected: Vec<(IpAddr, u8)>,
    pass: Vec<Selector>,
}

impl Firewall {
    /// Prepares a table that lets packets leave by this device. Changes nothing yet.
    pub(super) fn new(device: &str) -> io::Result<Self> {
        let socket = Socket::connect(libc::NETLINK_NETFILTER)?;
        // Ten thousand networks take a megabyte. Without the privilege for a larger buffer a table of that size fails.
        let _ = set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 16 << 20);
        let port = socket.port()?;
        Ok(Self { socket, port, device: device.to_owned(), is_owned: true, table: None })
    }

    /// Drops packets to these destinations that bypass the tunnel, except packets of a `pass` selector.
    pub(super) fn install(&mut self, protected: &[(IpAddr, u8)], pass: &[Selector]) -> io::Result<()> {
        let table = Table { protected: protected.to_vec(), pass: pass.to_vec() };
        match &self.table {
            Some(known) if *known == table => return Ok(()),
            Some(known) if known.pass == table.pass => {
                // Another program may have changed the table, which then is not the known one.
                let changed = self.socket.request(&transaction(&known.changes(&table)), &[]);
                changed.or_else(|_| self.replace(&table))?;
            }
            _ => self.replace(&table)?,
        }
        self.table = Some(table);
        Ok(())
    }

    /// Installs the table again.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        let Some(table) = self.table.take() else { return Ok(()) };
        let done = self.replace(&table);
        self.table = Some(table);
        done
    }

    fn replace(&mut self, table: &Table) -> io::Result<()> {
        let request = |is_owned| self.socket.request(&transaction(&table.messages(&self.device, is_owned)), &[]);
        match request(self.is_owned) {
            Err(error) if self.is_owned && error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                request(false)?;
                self.is_owned = false;
                Ok(())
            }
            done => done,
        }
    }

    /// Opens a socket that receives changes.
    pub(super) fn changes() -> io::Result<Socket> {
        Socket::listen(libc::NETLINK_NETFILTER, &[CHANGES])
    }

    /// Returns whether a datagram reports a change of the table by another program.
    pub(super) fn was_changed(&self, datagram: &[u8]) -> bool {
        messages(datagram).any(|(_, port, body)| port != self.port && is_our_table(body))
    }
}

/// Deletes the table. Returns the number of deleted tables.
///
/// # Errors
/// EPERM if a running data path owns it.
pub(super) fn clear() -> io::Result<usize> {
    let Ok(socket) = Socket::connect(libc::NETLINK_NETFILTER) else { return Ok(0) };
    let request = message(DELTABLE, 0).text(TABLE_NAME, TABLE).finish();
    match socket.request(&transaction(&[request]), &[]) {
        Ok(()) => Ok(1),
        // There is no such table, or no nf_tables.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Returns whether the body of a message is about our table. The first attribute of every message is the table's name.
fn is_our_table(body: &[u8]) -> bool {
    let name = body.get(4..).and_then(|attributes| attribute(attributes, TABLE_NAME));
    name.is_some_and(|name| name.strip_suffix(&[0]) == Some(TABLE.as_bytes()))
}

// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const SUBSYSTEM: u16 = 10;
/// The group for changes (NFNLGRP_NFTABLES).
const CHANGES: i32 = 7;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEWTABLE: u16 = SUBSYSTEM << 8;
const DELTABLE: u16 = NEWTABLE + 2;
const NEWCHAIN: u16 = NEWTABLE + 3;
const NEWRULE: u16 = NEWTABLE + 6;
const NEWSET: u16 = NEWTABLE + 9;
const NEWSETELEM: u16 = NEWTABLE + 12;
const DELSETELEM: u16 = NEWTABLE + 14;
/// The first attribute of tables, chains, rules, sets and elements.
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
/// Flags of a table that only its owner's socket may change, and of one that survives the closing of that socket.
const OWNER: u32 = 2;
const PERSIST: u32 = 4;
/// The family of a table for IPv4 and IPv6 (NFPROTO_INET).
const INET: u8 = 1;
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];
const LIST_ELEM: u16 = 1;
const DATA_VALUE: u16 = 1;
/// Keys of `meta`.
const MARK: u32 = 3;
const OIF: u32 = 5;
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
    /// Returns the messages that replace any table of this name.
    fn messages(&self, device: &str, is_owned: bool) -> Vec<Vec<u8>> {
        let table = |kind, flags| message(kind, flags).text(TABLE_NAME, TABLE);
        let new = table(NEWTABLE, CREATE);
        let new = if is_owned { new.number_be(TABLE_FLAGS, OWNER | PERSIST) } else { new };
        let mut all = vec![table(NEWTABLE, CREATE).finish(), table(DELTABLE, 0).finish(), new.finish(), chain()];
        for (at, set) in PROTECTED.into_iter().enumerate() {
            all.push(new_set(set, at));
            all.extend(elements(NEWSETELEM, set, self.protected.iter(), at));
        }
        all.extend(self.rules(device).into_iter().map(Rule::message));
        all
    }

    /// Returns the messages that turn this table into `next`, which differs in its protected networks only. Both lists are sorted.
    fn changes(&self, next: &Self) -> Vec<Vec<u8>> {
        let missing = |from: &'_ Self, of: &'_ Self| -> Vec<(IpAddr, u8)> {
            of.protected.iter().filter(|network| from.protected.binary_search(network).is_err()).copied().collect()
        };
        let (gone, new) = (missing(next, self), missing(self, next));
        let of = |kind, networks: &[(IpAddr, u8)]| -> Vec<Vec<u8>> {
            let sets = PROTECTED.into_iter().enumerate();
            sets.flat_map(|(at, set)| elements(kind, set, networks.iter(), at)).collect()
        };
        [of(DELSETELEM, &gone), of(NEWSETELEM, &new)].concat()
    }

    fn rules(&self, device: &str) -> Vec<Rule> {
        // The comparison includes the terminating zero, so that a name does not match longer names.
        let leaves_by = |name: &str| Rule::new().meta(OIFNAME).compare(EQUAL, &[name.as_bytes(), &[0]].concat());
        let mut all = vec![leaves_by("lo").verdict(ACCEPT), leaves_by(device).verdict(ACCEPT)];
        // Packets of the data path and of IKE.
        all.push(Rule::new().meta(MARK).compare(EQUAL, &EXEMPT_MARK.to_ne_bytes()).verdict(ACCEPT));
        all.extend(self.pass.iter().map(passes));
        for network in LINK {
            let family = usize::from(network.address.is_ipv6());
            all.push(Rule::new().family(family).destination(&network).verdict(ACCEPT));
        }
        // Neighbour discovery (RFC 4861): routers, neighbours and redirects.
        let neighbours = Rule::new().family(1).protocol(libc::IPPROTO_ICMPV6 as u8).payload(TRANSPORT, 0, 1);
        all.push(neighbours.compare(AT_LEAST, &[133]).compare(AT_MOST, &[137]).verdict(ACCEPT));
        for (family, set) in PROTECTED.into_iter().enumerate() {
            let (at, length) = DESTINATION[family];
            all.push(Rule::new().family(family).payload(NETWORK, at, length).in_set(set).count().verdict(DROP));
        }
        all
    }
}

/// Offset and length of the addresses in IP headers, by family.
const SOURCE: [(u32, u32); 2] = [(12, 4), (8, 16)];
const DESTINATION: [(u32, u32); 2] = [(16, 4), (24, 16)];

/// Builds a rule that accepts the packets of a selector.
fn passes(selector: &Selector) -> Rule {
    let mut rule = Rule::new().family(usize::from(selector.destination.address.is_ipv6()));
    rule = rule.network(SOURCE, &selector.source).destination(&selector.destination);
    if selector.interface != 0 {
        rule = rule.meta(OIF).compare(EQUAL, &selector.interface.to_ne_bytes());
    }
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

/// A rule: a list of expressions, which ends at the first mismatch.
struct Rule(Message);

impl Rule {
    fn new() -> Self {
        Self(Message::content())
    }

    fn expression(self, name: &str, data: &Message) -> Self {
        let expression = Message::content().text(1, name).nested(2, data);
        Self(self.0.nested(LIST_ELEM, &expression))
    }

    /// Loads metadata of the packet.
    fn meta(self, key: u32) -> Self {
        self.expression("meta", &Message::content().number_be(1, REGISTER).number_be(2, key))
    }

    /// Loads bytes of the packet.
    fn payload(self, base: u32, at: u32, length: u32) -> Self {
        let data = Message::content().number_be(1, REGISTER).number_be(2, base).number_be(3, at).number_be(4, length);
        self.expression("payload", &data)
    }

    fn compare(self, operator: u32, value: &[u8]) -> Self {
        let data = Message::content().number_be(1, REGISTER).number_be(2, operator).nested(3, &value_of(value));
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
        let data = Message::content().number_be(1, REGISTER).number_be(2, REGISTER).number_be(3, length);
        let data = data.nested(4, &value_of(&mask)).nested(5, &value_of(&vec![0; mask.len()]));
        self.payload(NETWORK, at, length).expression("bitwise", &data).compare(EQUAL, &address)
    }

    fn in_set(self, set: &str) -> Self {
        self.expression("lookup", &Message::content().text(1, set).number_be(2, REGISTER))
    }

    /// Counts the packets that reach this expression: `nft list table inet gantry_esp` shows the counter.
    fn count(self) -> Self {
        self.expression("counter", &Message::content())
    }

    fn verdict(self, verdict: u32) -> Self {
        let verdict = Message::content().nested(2, &Message::content().number_be(1, verdict));
        self.expression("immediate", &Message::content().number_be(1, 0).nested(2, &verdict))
    }

    fn message(self) -> Vec<u8> {
        message(NEWRULE, CREATE | APPEND).text(TABLE_NAME, TABLE).text(2, CHAIN).nested(4, &self.0).finish()
    }
}

/// The only register that the rules need.
const REGISTER: u32 = 1;

fn value_of(bytes: &[u8]) -> Message {
    Message::content().attribute(DATA_VALUE, bytes)
}

/// Builds a chain that each packet passes after routing, with the default verdict accept.
fn chain() -> Vec<u8> {
    const POSTROUTING: u32 = 4;
    let hook = Message::content().number_be(1, POSTROUTING).number_be(2, 0);
    let message = message(NEWCHAIN, CREATE).text(TABLE_NAME, TABLE).text(3, CHAIN).nested(4, &hook);
    message.number_be(5, ACCEPT).text(7, "filter").finish()
}

/// Builds a set of address intervals.
fn new_set(name: &str, family: usize) -> Vec<u8> {
    const INTERVAL: u32 = 4;
    /// Type numbers of `nft`, which make it print addresses.
    const TYPES: [u32; 2] = [7, 8];
    let message = message(NEWSET, CREATE).text(TABLE_NAME, TABLE).text(2, name).number_be(3, INTERVAL);
    message.number_be(4, TYPES[family]).number_be(5, DESTINATION[family].1).number_be(10, family as u32 + 1).finish()
}

/// Returns the messages that add the networks of a family to a set, or delete them (`kind`).
fn elements<'n>(kind: u16, set: &str, networks: impl Iterator<Item = &'n (IpAddr, u8)>, family: usize) -> Vec<Vec<u8>> {
    let networks = networks.filter(|(address, _)| usize::from(address.is_ipv6()) == family);
    let elements: Vec<Message> = networks.flat_map(|network| interval(*network)).collect();
    // A list of attributes has at most 64 KiB.
    let lists = elements.chunks(1000);
    let lists = lists.map(|some| some.iter().fold(Message::content(), |list, element| list.nested(LIST_ELEM, element)));
    let flags = if kind == NEWSETELEM { CREATE } else { 0 };
    lists.map(|list| message(kind, flags).text(TABLE_NAME, TABLE).text(2, set).nested(3, &list).finish()).collect()
}

/// Returns the first address of a network, and the one after the last unless there is none.
fn interval((address, length): (IpAddr, u8)) -> Vec<Message> {
    const END: u32 = 1;
    let (first, after_last) = match address {
        IpAddr::V4(address) => {
            let size = 1_u32.checked_shl(32 - u32::from(length));
            let after_last = size.and_then(|size| address.to_bits().checked_add(size));
            (address.octets().to_vec(), after_last.map(|after_last| after_last.to_be_bytes().to_vec()))
        }
        IpAddr::V6(address) => {
            let size = 1_u128.checked_shl(128 - u32::from(length));
            let after_last = size.and_then(|size| address.to_bits().checked_add(size));
            (address.octets().to_vec(), after_last.map(|after_last| after_last.to_be_bytes().to_vec()))
        }
    };
    let element = |key: &[u8]| Message::content().nested(1, &value_of(key));
    let end = after_last.map(|after_last| element(&after_last).number_be(3, END));
    [Some(element(&first)), end].into_iter().flatten().collect()
}

/// Starts a message about our table, with `struct nfgenmsg`.
fn message(kind: u16, flags: u16) -> Message {
    Message::new(kind, flags).structure(&[INET, 0, 0, 0])
}

/// Joins messages into a transaction, which takes effect as a whole or not at all. The last message is acknowledged.
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
    /// Appends a text with a terminating zero.
    fn text(self, kind: u16, text: &str) -> Self {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Appends a big-endian number, the format of nf_tables.
    fn number_be(self, kind: u16, number: u32) -> Self {
        self.attribute(kind, &number.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_other_tables_are_ignored() {
        let of = |name| message(DELTABLE, 0).text(TABLE_NAME, name).finish();
        assert!(is_our_table(&of(TABLE)[16..]));
        assert!(
            !is_our_table(&of("gantry_esp2")[16..]) && !is_our_table(&of("filter")[16..]) && !is_our_table(&[1, 2])
        );
    }
}
