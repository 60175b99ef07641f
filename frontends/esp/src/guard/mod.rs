//! Guards: stop packets that leave past the tunnel in spite of rules and routes.
//!
//! A socket that is bound to a network device (SO_BINDTODEVICE, IP_UNICAST_IF, `ping -I`) takes none of the routes into the tunnel, and needs no
//! privilege for that. Two guards that have nothing in common stop its packets. One is a table of the firewall. The other one belongs to the
//! look-up of routes: in IPv4 policies of the kernel's own IPsec, in IPv6 a route that counts for every device
//! ([`Routes`](crate::route::Routes)). All stay when the process ends, also when it is killed.
//!
//! | file | content |
//! |---|---|
//! | `firewall.rs` | the table of nf_tables |
//! | `policies.rs` | policies of the kernel |

mod firewall;
mod policies;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use gantry_abi_xfrm::{Prefix, Selector};

use crate::netlink::Socket;
use firewall::Firewall;
use policies::Policies;

/// Networks of the link, whose packets no router passes on.
pub(crate) const LINK: [Prefix; 5] = [
    Prefix { address: IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), length: 16 },
    Prefix { address: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), length: 24 },
    Prefix { address: IpAddr::V4(Ipv4Addr::BROADCAST), length: 32 },
    Prefix { address: IpAddr::V6(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0)), length: 10 },
    Prefix { address: IpAddr::V6(Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0)), length: 16 },
];

/// Both guards, as far as the kernel has them.
#[derive(Debug)]
pub(crate) struct Guard {
    firewall: Kept<Firewall>,
    policies: Kept<Policies>,
}

/// A guard, or the error that the kernel gave.
#[derive(Debug)]
struct Kept<G> {
    guard: io::Result<G>,
    /// The guard has been in force.
    is_proven: bool,
    /// Another program took the guard away, and it could not be put back yet.
    is_lost: bool,
}

impl<G> Kept<G> {
    fn new(guard: io::Result<G>) -> Self {
        Self { guard, is_proven: false, is_lost: false }
    }

    /// Installs the guard. An error of the first time means that the kernel has no such guard.
    fn install(&mut self, install: impl FnOnce(&mut G) -> io::Result<()>) -> io::Result<()> {
        let Ok(guard) = &mut self.guard else { return Ok(()) };
        match install(guard) {
            Err(error) if !self.is_proven => self.guard = Err(error),
            done => {
                done?;
                self.is_proven = true;
            }
        }
        Ok(())
    }

    fn restore(&mut self, restore: impl FnOnce(&mut G) -> io::Result<()>) -> io::Result<()> {
        let Ok(guard) = &mut self.guard else { return Ok(()) };
        let done = restore(guard);
        self.is_lost = done.is_err();
        done
    }

    fn holds(&self) -> bool {
        self.guard.is_ok() && !self.is_lost
    }
}

/// Sockets that receive the changes of other programs.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) firewall: Option<Socket>,
    pub(crate) policies: Option<Socket>,
}

impl Guard {
    /// Prepares guards that let packets leave by this device. Changes nothing yet.
    pub(crate) fn new(device: &str, index: u32) -> Self {
        Self { firewall: Kept::new(Firewall::new(device)), policies: Kept::new(Policies::new(index)) }
    }

    /// Opens the sockets for changes. Call it before [`install`](Self::install), so that no change is missed.
    pub(crate) fn changes() -> Changes {
        Changes { firewall: Firewall::changes().ok(), policies: Policies::changes().ok() }
    }

    /// Stops packets to these destinations that leave past the tunnel, except packets of a `pass` selector.
    pub(crate) fn install(
        &mut self,
        protected: impl Iterator<Item = (IpAddr, u8)>,
        pass: &[Selector],
    ) -> io::Result<()> {
        let protected = disjoint(protected.collect());
        self.firewall.install(|guard| guard.install(&protected, pass))?;
        self.policies.install(|guard| guard.install(&protected, pass))
    }

    /// Puts the guards back that other programs have changed since the last call.
    pub(crate) fn restore(&mut self, changes: &Changes) -> io::Result<()> {
        // An error of the first does not keep the second from being put back.
        let firewall = restore(&mut self.firewall, changes.firewall.as_ref(), Firewall::was_changed, Firewall::restore);
        let policies =
            restore(&mut self.policies, changes.policies.as_ref(), Policies::were_changed, Policies::restore);
        firewall.and(policies)
    }

    /// Whether the firewall's table is in force, and whether the policies are.
    pub(crate) fn hold(&self) -> (bool, bool) {
        (self.firewall.holds(), self.policies.holds())
    }

    /// The errors with which the kernel refused the firewall's table, and the policies.
    pub(crate) fn missing(&self) -> (Option<&io::Error>, Option<&io::Error>) {
        (self.firewall.guard.as_ref().err(), self.policies.guard.as_ref().err())
    }
}

fn restore<G>(
    kept: &mut Kept<G>,
    changes: Option<&Socket>,
    was_changed: impl Fn(&G, &[u8]) -> bool,
    restore: impl FnOnce(&mut G) -> io::Result<()>,
) -> io::Result<()> {
    let (Ok(guard), Some(changes)) = (&kept.guard, changes) else { return Ok(()) };
    let is_changed = changes.any(|datagram| was_changed(guard, datagram));
    if is_changed || kept.is_lost { kept.restore(restore) } else { Ok(()) }
}

/// Deletes all that guards have left. Returns the number of tables of the firewall.
pub(crate) fn clear() -> io::Result<usize> {
    let tables = firewall::clear()?;
    policies::clear()?;
    Ok(tables)
}

/// Networks without those that lie in others. Prefixes have no other way to overlap.
fn disjoint(mut networks: Vec<(IpAddr, u8)>) -> Vec<(IpAddr, u8)> {
    // An outer network comes before those in it, and those follow it.
    networks.sort_unstable();
    networks.dedup_by(|next, last| Prefix { address: last.0, length: last.1 }.contains(next.0));
    networks
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
}
