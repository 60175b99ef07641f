//! The table `inet gantry_esp` of the firewall (nf_tables). The table marks the packets of policies, so that a rule leads them into the
//! tunnel, and checks each packet that leaves or arrives.
//!
//! The table stays when the process ends. Since Linux 6.9 a table can have an owner that alone may change it. `nft flush ruleset`, which
//! Debian runs when it loads a firewall, skips such a table. On earlier kernels the table is restored after a change.
//!
//! | file | content |
//! |---|---|
//! | `chains.rs` | the chains and their rules |
//! | `layers.rs`, `shape.rs` | policies as sets |
//! | `rules.rs` | messages of nf_tables |

mod chains;
mod layers;
mod rules;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use gantry_abi_xfrm::{Direction, Family, Prefix, Selector};

use crate::netlink::{Message, Socket, attribute, attributes, messages};
use crate::sys::set_option;
pub(crate) use layers::SteeredPolicy;
use layers::{Change, Layers, parse_set_name};
use rules::{
    DATA_VALUE, DELTABLE, ELEMENT_KEY, ELEMENTS, GETSET, GETSETELEM, NFGENMSG, SET_NAME, TABLE, TABLE_NAME, message,
    transaction,
};
use shape::Shape;

/// The table and its socket.
#[derive(Debug)]
pub(super) struct Firewall {
    socket: Socket,
    netlink_port: u32,
    /// True if the socket should own the table.
    is_owned: bool,
    /// The table in force, or the one to be installed.
    table: Table,
    is_installed: bool,
}

#[derive(Debug)]
struct Table {
    /// The TUN device.
    tun_name: String,
    /// The port of ESP in UDP.
    esp_port: u16,
    /// Destinations that must take the tunnel, as keys of hash tables. A set of intervals in a new table matches nothing at first: Linux
    /// 6.18 fills it after the table is in force.
    protected: BTreeMap<Shape, BTreeSet<Vec<u8>>>,
    /// The policies by direction.
    layers: [Layers; 3],
}

impl Firewall {
    /// Prepares a table that lets packets leave and arrive by this device, and that keeps the policies that an earlier data path left. Does
    /// not install the table.
    pub(super) fn new(tun_name: &str, esp_port: u16) -> io::Result<Self> {
        let socket = Socket::connect(libc::NETLINK_NETFILTER)?;
        // Ten thousand networks take a megabyte. Without the privilege for a larger buffer, a table of that size cannot be installed.
        let _ = set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 16 << 20);
        let netlink_port = socket.port()?;
        let layers = [Direction::In, Direction::Out, Direction::Forward].map(Layers::new);
        let mut table = Table { tun_name: tun_name.to_owned(), esp_port, protected: BTreeMap::new(), layers };
        // Fails if there is no such table.
        let _ = read_leftovers(&mut table.layers);
        Ok(Self { socket, netlink_port, is_owned: true, table, is_installed: false })
    }

    /// Drops packets to these destinations that bypass the tunnel, except packets of policies that let them pass.
    pub(super) fn protect(&mut self, destinations: &[Prefix]) -> io::Result<()> {
        let mut protected: BTreeMap<Shape, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for destination in destinations {
            let any = Selector::any(Family::of(destination.address));
            let selector = Selector { destination: *destination, ..any };
            let shape = Shape::of(&selector);
            protected.entry(shape).or_default().insert(shape.key(&selector));
        }
        if self.is_installed && self.table.protected == protected {
            return Ok(());
        }
        let old = std::mem::replace(&mut self.table.protected, protected);
        let done = self.replace_table();
        if done.is_err() {
            self.table.protected = old;
        }
        done
    }

    /// Replaces a policy by another one of its direction. `None` stands for no policy.
    pub(super) fn steer(&mut self, old: Option<&SteeredPolicy>, new: Option<&SteeredPolicy>) -> io::Result<()> {
        let Some(direction) = new.or(old).map(|policy| policy.direction as usize) else { return Ok(()) };
        let layers = &mut self.table.layers[direction];
        let leftovers = layers.leftovers_of(new);
        let change = layers.replace(old, new);
        let done = self.apply(change);
        if done.is_err() {
            self.table.layers[direction].undo(old, new, leftovers);
        }
        done
    }

    /// Replaces all policies.
    pub(super) fn steer_all(&mut self, policies: &[SteeredPolicy]) -> io::Result<()> {
        self.table.layers.iter_mut().for_each(|layers| layers.replace_all(policies.iter().copied()));
        self.apply(Change::Whole)
    }

    /// Installs the table again.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        if self.is_installed { self.replace_table() } else { Ok(()) }
    }

    fn apply(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Elements(messages) if self.is_installed => {
                if messages.is_empty() {
                    return Ok(());
                }
                // The request fails if another program has changed the table.
                self.socket.request(&transaction(&messages), &[]).or_else(|_| self.replace_table())
            }
            _ => self.replace_table(),
        }
    }

    fn replace_table(&mut self) -> io::Result<()> {
        let request = |is_owned| self.socket.request(&transaction(&self.table.messages(is_owned)), &[]);
        match request(self.is_owned) {
            Err(error) if self.is_owned && error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                request(false)?;
                self.is_owned = false;
            }
            done => done?,
        }
        self.is_installed = true;
        Ok(())
    }

    /// Opens a socket that receives notifications about changes of tables.
    pub(super) fn changes() -> io::Result<Socket> {
        /// The group for changes (NFNLGRP_NFTABLES).
        const CHANGES: i32 = 7;
        Socket::listen(libc::NETLINK_NETFILTER, &[CHANGES])
    }

    /// Returns whether a datagram reports a change of the table by another program.
    pub(super) fn was_changed(&self, datagram: &[u8]) -> bool {
        messages(datagram).any(|(_, port, body)| port != self.netlink_port && is_our_table(body))
    }
}

/// Reads, from the table of an earlier data path, the selectors whose packets may not pass.
fn read_leftovers(layers: &mut [Layers; 3]) -> io::Result<()> {
    let socket = Socket::connect(libc::NETLINK_NETFILTER)?;
    let request = |set: Option<&str>| {
        let message = Message::content().structure(&NFGENMSG).text(TABLE_NAME, TABLE);
        set.into_iter().fold(message, |message, set| message.text(SET_NAME, set)).0
    };
    for set in socket.dump(GETSET, &request(None))? {
        let name = set.get(4..).and_then(|set| attribute(set, SET_NAME)).and_then(|name| name.strip_suffix(&[0]));
        let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) else { continue };
        let Some((direction, shape)) = parse_set_name(name) else { continue };
        for part in socket.dump(GETSETELEM, &request(Some(name)))? {
            let list = part.get(4..).and_then(|part| attribute(part, ELEMENTS)).unwrap_or_default();
            for (_, element) in attributes(list) {
                let key = attribute(element, ELEMENT_KEY).and_then(|key| attribute(key, DATA_VALUE));
                if let Some(key) = key.filter(|key| key.len() == shape.key_length()) {
                    layers[direction].add_leftover(shape, key.to_vec());
                }
            }
        }
    }
    Ok(())
}

/// Deletes the table. Returns the number of deleted tables.
///
/// # Errors
/// EPERM if a running data path owns the table.
pub(super) fn clear_leftovers() -> io::Result<usize> {
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
