//! Messages of nf_tables: transactions, sets, chains, and rules as lists of expressions.
//!
//! Structures and numbers are those of linux/netfilter/nf_tables.h and nfnetlink.h; `nft --debug=netlink` prints the same expressions.

use std::net::IpAddr;

use gantry_abi_xfrm::Prefix;

use crate::netlink::{ACK, APPEND, CREATE, Message};
use crate::table::masked;

pub(super) const TABLE: &str = "gantry_esp";

// linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
pub(super) const NEWTABLE: u16 = SUBSYSTEM << 8;
pub(super) const DELTABLE: u16 = NEWTABLE + 2;
const NEWCHAIN: u16 = NEWTABLE + 3;
const NEWRULE: u16 = NEWTABLE + 6;
const NEWSET: u16 = NEWTABLE + 9;
pub(super) const GETSET: u16 = NEWTABLE + 10;
pub(super) const NEWSETELEM: u16 = NEWTABLE + 12;
pub(super) const GETSETELEM: u16 = NEWTABLE + 13;
pub(super) const DELSETELEM: u16 = NEWTABLE + 14;
/// Attributes: the name of the table, the first attribute of messages about tables, chains, rules, sets and elements; the name of a set;
/// the list of a set's elements.
pub(super) const TABLE_NAME: u16 = 1;
pub(super) const SET_NAME: u16 = 2;
pub(super) const ELEMENTS: u16 = 3;
pub(super) const ELEMENT_KEY: u16 = 1;
pub(super) const DATA_VALUE: u16 = 1;
const LIST_ELEM: u16 = 1;
/// The family of a table for IPv4 and IPv6 (NFPROTO_INET).
const INET: u8 = 1;
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];
/// Keys of `meta`.
pub(super) const MARK: u32 = 3;
pub(super) const OIF: u32 = 5;
pub(super) const IIFNAME: u32 = 6;
pub(super) const OIFNAME: u32 = 7;
const NFPROTO: u32 = 15;
const L4PROTO: u32 = 16;
/// Operators of `cmp`.
pub(super) const EQUAL: u32 = 0;
pub(super) const NOT_EQUAL: u32 = 1;
pub(super) const AT_MOST: u32 = 3;
pub(super) const AT_LEAST: u32 = 5;
/// Bases of `payload`.
pub(super) const NETWORK: u32 = 1;
pub(super) const TRANSPORT: u32 = 2;
/// Verdicts.
pub(super) const DROP: u32 = 0;
pub(super) const ACCEPT: u32 = 1;
const GOTO: u32 = (-4_i32).cast_unsigned();
/// Offset and length of the addresses in IP headers, by family.
pub(super) const SOURCE: [(u32, u32); 2] = [(12, 4), (8, 16)];
pub(super) const DESTINATION: [(u32, u32); 2] = [(16, 4), (24, 16)];
/// The register of 16 bytes that all expressions use, and the first of the registers of four bytes, which share its memory.
const REGISTER: u32 = 1;
const FIRST_WORD_REGISTER: u32 = 8;

/// A rule: a list of expressions, which ends at the first mismatch.
pub(super) struct Rule(Message);

impl Rule {
    pub(super) fn new() -> Self {
        Self(Message::content())
    }

    fn expression(self, name: &str, data: &Message) -> Self {
        let expression = Message::content().text(1, name).nested(2, data);
        Self(self.0.nested(LIST_ELEM, &expression))
    }

    /// Loads metadata of the packet.
    pub(super) fn meta(self, key: u32) -> Self {
        self.expression("meta", &Message::content().number_be(1, REGISTER).number_be(2, key))
    }

    /// Loads bytes of the packet.
    pub(super) fn payload(self, base: u32, at: u32, length: u32) -> Self {
        self.payload_to(REGISTER, base, at, length)
    }

    fn payload_to(self, register: u32, base: u32, at: u32, length: u32) -> Self {
        let data = Message::content().number_be(1, register).number_be(2, base).number_be(3, at).number_be(4, length);
        self.expression("payload", &data)
    }

    pub(super) fn compare(self, operator: u32, value: &[u8]) -> Self {
        let data = Message::content().number_be(1, REGISTER).number_be(2, operator).nested(3, &value_of(value));
        self.expression("cmp", &data)
    }

    /// Clears the bits that are not in the mask.
    pub(super) fn mask(self, mask: &[u8]) -> Self {
        self.mask_in(REGISTER, mask)
    }

    fn mask_in(self, register: u32, mask: &[u8]) -> Self {
        let data = Message::content().number_be(1, register).number_be(2, register).number_be(3, mask.len() as u32);
        let data = data.nested(4, &value_of(mask)).nested(5, &value_of(&vec![0; mask.len()]));
        self.expression("bitwise", &data)
    }

    /// Loads a part of the packet into a key, from `word` on. `mask` has the length of the part.
    pub(super) fn key_part(self, word: u32, base: u32, at: u32, mask: &[u8]) -> Self {
        let rule = self.payload_to(FIRST_WORD_REGISTER + word, base, at, mask.len() as u32);
        if mask.iter().all(|byte| *byte == 0xFF) { rule } else { rule.mask_in(FIRST_WORD_REGISTER + word, mask) }
    }

    pub(super) fn family(self, family: usize) -> Self {
        self.meta(NFPROTO).compare(EQUAL, &[FAMILIES[family]])
    }

    pub(super) fn protocol(self, protocol: u8) -> Self {
        self.meta(L4PROTO).compare(EQUAL, &[protocol])
    }

    /// Matches packets of a device. The comparison includes the terminating zero, so that a name does not match longer names.
    pub(super) fn device(self, key: u32, name: &str) -> Self {
        self.meta(key).compare(EQUAL, &[name.as_bytes(), &[0]].concat())
    }

    /// Matches later fragments, which have no header of the transport protocol.
    pub(super) fn later_fragment(self, family: usize) -> Self {
        const FRAGMENT: u32 = 44;
        let rule = if family == 0 {
            self.payload(NETWORK, 6, 2).mask(&[0x1F, 0xFF])
        } else {
            let data = Message::content().number_be(1, REGISTER).attribute(2, &[FRAGMENT as u8]);
            self.expression("exthdr", &data.number_be(3, 2).number_be(4, 2)).mask(&[0xFF, 0xF8])
        };
        rule.compare(NOT_EQUAL, &[0, 0])
    }

    pub(super) fn destination(self, network: &Prefix) -> Self {
        if network.length == 0 {
            return self;
        }
        let (at, length) = DESTINATION[usize::from(network.address.is_ipv6())];
        let rule = self.payload(NETWORK, at, length).mask(&mask_of(length as usize, network.length));
        rule.compare(EQUAL, &octets(masked(*network).address))
    }

    /// Matches packets to this host, and broadcast and multicast packets.
    pub(super) fn not_unicast(self) -> Self {
        const DESTINATION: u32 = 2;
        const TYPE: u32 = 3;
        const UNICAST: u32 = 1;
        let data = Message::content().number_be(1, REGISTER).number_be(2, TYPE).number_be(3, DESTINATION);
        self.expression("fib", &data).compare(NOT_EQUAL, &UNICAST.to_ne_bytes())
    }

    pub(super) fn in_set(self, set: &str) -> Self {
        self.expression("lookup", &Message::content().text(1, set).number_be(2, REGISTER))
    }

    pub(super) fn set_mark(self, mark: u32) -> Self {
        let value = Message::content().number_be(1, REGISTER).nested(2, &value_of(&mark.to_ne_bytes()));
        let set = Message::content().number_be(2, MARK).number_be(3, REGISTER);
        self.expression("immediate", &value).expression("meta", &set)
    }

    /// Counts the packets that reach this expression: `nft list table inet gantry_esp` shows the counter.
    pub(super) fn count(self) -> Self {
        self.expression("counter", &Message::content())
    }

    pub(super) fn verdict(self, verdict: u32) -> Self {
        self.end(&Message::content().number_be(1, verdict))
    }

    /// Continues in another chain, without a return to this one.
    pub(super) fn go_to(self, chain: &str) -> Self {
        self.end(&Message::content().number_be(1, GOTO).text(2, chain))
    }

    fn end(self, verdict: &Message) -> Self {
        let verdict = Message::content().nested(2, verdict);
        self.expression("immediate", &Message::content().number_be(1, 0).nested(2, &verdict))
    }

    /// Returns the message that appends the rule to a chain.
    pub(super) fn append_to(self, chain: &str) -> Vec<u8> {
        message(NEWRULE, CREATE | APPEND).text(TABLE_NAME, TABLE).text(2, chain).nested(4, &self.0).finish()
    }
}

/// Returns the octets of an address.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns a mask of `bytes` bytes with the first `bits` bits set.
pub(super) fn mask_of(bytes: usize, bits: u8) -> Vec<u8> {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    mask.to_be_bytes()[..bytes].to_vec()
}

fn value_of(bytes: &[u8]) -> Message {
    Message::content().attribute(DATA_VALUE, bytes)
}

/// Builds a chain that other chains jump to.
pub(super) fn plain_chain(name: &str) -> Vec<u8> {
    message(NEWCHAIN, CREATE).text(TABLE_NAME, TABLE).text(3, name).finish()
}

/// Builds a chain of a hook, with the default verdict accept. If a chain of the kind `route` changes the mark of a packet, the kernel
/// routes the packet again.
pub(super) fn base_chain(name: &str, kind: &str, hook: u32, priority: i32) -> Vec<u8> {
    let hook = Message::content().number_be(1, hook).number_be(2, priority.cast_unsigned());
    let message = message(NEWCHAIN, CREATE).text(TABLE_NAME, TABLE).text(3, name).nested(4, &hook);
    message.number_be(5, ACCEPT).text(7, kind).finish()
}

/// Builds a hash table of keys of `length` bytes. `id` distinguishes the new sets of a transaction.
pub(super) fn new_set_message(name: &str, key_type: u32, length: usize, id: u32) -> Vec<u8> {
    let message = message(NEWSET, CREATE).text(TABLE_NAME, TABLE).text(SET_NAME, name).number_be(3, 0);
    message.number_be(4, key_type).number_be(5, length as u32).number_be(10, id).finish()
}

/// Returns the messages that add keys to a set or delete keys from it, as `kind` says.
pub(super) fn element_messages<'k>(kind: u16, set: &str, keys: impl Iterator<Item = &'k [u8]>) -> Vec<Vec<u8>> {
    let elements: Vec<Message> = keys.map(|key| Message::content().nested(ELEMENT_KEY, &value_of(key))).collect();
    // A list of attributes has at most 64 KiB.
    let lists = elements.chunks(1000);
    let lists =
        lists.map(|elements| elements.iter().fold(Message::content(), |list, element| list.nested(LIST_ELEM, element)));
    let flags = if kind == NEWSETELEM { CREATE } else { 0 };
    lists
        .map(|list| message(kind, flags).text(TABLE_NAME, TABLE).text(SET_NAME, set).nested(ELEMENTS, &list).finish())
        .collect()
}

/// Starts a message about our table, with `struct nfgenmsg`.
pub(super) fn message(kind: u16, flags: u16) -> Message {
    Message::new(kind, flags).structure(&NFGENMSG)
}

/// `struct nfgenmsg`.
pub(super) const NFGENMSG: [u8; 4] = [INET, 0, 0, 0];

/// Joins messages into a transaction, which takes effect as a whole or not at all. The last message is acknowledged.
pub(super) fn transaction(messages: &[Vec<u8>]) -> Vec<u8> {
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
    pub(super) fn text(self, kind: u16, text: &str) -> Self {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Appends a big-endian number, the format of nf_tables.
    pub(super) fn number_be(self, kind: u16, number: u32) -> Self {
        self.attribute(kind, &number.to_be_bytes())
    }
}
