//! Guards, which stop packets that bypass the tunnel although rules and routes lead them into it.
//!
//! A socket that is bound to a network device (SO_BINDTODEVICE, IP_UNICAST_IF, `ping -I`) uses none of the routes into the tunnel, and
//! needs no privilege for that. A table of the firewall stops its packets. In addition, the table steers packets into the tunnel, and drops
//! packets that arrive in clear although a policy protects them.
//!
//! Further guards work without the firewall. Filters of the network devices stop packets of policies. Policies of the kernel's own IPsec
//! stop IPv4 packets to protected networks. A route that applies to every device stops IPv6 packets to protected networks
//! ([`Routes`](crate::route::Routes)). All guards stay when the process ends, even if it is killed.
//!
//! | file | content |
//! |---|---|
//! | `firewall/` | the table of nf_tables |
//! | `kernel_policies.rs` | policies of the kernel |
//! | `filter/` | filters of the network devices |

mod filter;
mod firewall;
mod kernel_policies;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use gantry_abi_xfrm::preload::EXEMPT_MARK;
use gantry_abi_xfrm::{Direction, Prefix, Selector};

use crate::netlink::Socket;
use filter::Filters;
use firewall::Firewall;
pub(crate) use firewall::SteeredPolicy;
use kernel_policies::KernelPolicies;

/// Marks of packets that are on their way into the tunnel, that arrived through the tunnel, and that do both. Under the mask
/// [`MARKS_MASK`], they equal [`EXEMPT_MARK`], the mark of packets of the data path and of IKE.
pub(crate) const STEERED_MARK: u32 = EXEMPT_MARK + 1;
pub(crate) const ARRIVED_MARK: u32 = EXEMPT_MARK + 2;
pub(crate) const RETURNING_MARK: u32 = EXEMPT_MARK + 3;
pub(crate) const MARKS_MASK: u32 = !3;

/// Link-local networks, whose packets are not forwarded by routers.
pub(crate) const LINK_LOCAL_NETWORKS: [Prefix; 5] = [
    Prefix { address: IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), length: 16 },
    Prefix { address: IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), length: 24 },
    Prefix { address: IpAddr::V4(Ipv4Addr::BROADCAST), length: 32 },
    Prefix { address: IpAddr::V6(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0)), length: 10 },
    Prefix { address: IpAddr::V6(Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0)), length: 16 },
];

/// The guards, as far as the kernel supports them.
#[derive(Debug)]
pub(crate) struct GuardSet {
    firewall: GuardSlot<Firewall>,
    policies: GuardSlot<KernelPolicies>,
    filters: GuardSlot<Filters>,
}

/// A guard, or the error of a kernel that does not support it.
#[derive(Debug)]
struct GuardSlot<G> {
    guard: io::Result<G>,
    /// True if the guard has ever been in force.
    was_in_force: bool,
    /// True if another program changed the guard, and the guard could not be restored yet.
    needs_restore: bool,
}

impl<G> GuardSlot<G> {
    fn new(guard: io::Result<G>) -> Self {
        Self { guard, was_in_force: false, needs_restore: false }
    }

    /// Installs the guard. An error of the first attempt means that the kernel does not support the guard.
    fn install(&mut self, install: impl FnOnce(&mut G) -> io::Result<()>) -> io::Result<()> {
        let Ok(guard) = &mut self.guard else { return Ok(()) };
        match install(guard) {
            Err(error) if !self.was_in_force => self.guard = Err(error),
            done => {
                done?;
                self.was_in_force = true;
            }
        }
        Ok(())
    }

    fn restore(&mut self, restore: impl FnOnce(&mut G) -> io::Result<()>) -> io::Result<()> {
        let Ok(guard) = &mut self.guard else { return Ok(()) };
        let done = restore(guard);
        self.needs_restore = done.is_err();
        done
    }

    fn is_in_force(&self) -> bool {
        self.guard.is_ok() && !self.needs_restore
    }
}

/// Sockets that receive the kernel's notifications about changes by other programs.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) firewall: Option<Socket>,
    pub(crate) policies: Option<Socket>,
}

impl GuardSet {
    /// Prepares guards that let packets leave and arrive by the TUN device, whose name is `tun_name` and whose index is `tun_index`, and
    /// let ESP in UDP arrive at `esp_port`. Does not install the guards.
    pub(crate) fn new(tun_name: &str, tun_index: u32, esp_port: u16) -> Self {
        Self {
            firewall: GuardSlot::new(Firewall::new(tun_name, esp_port)),
            policies: GuardSlot::new(KernelPolicies::new(tun_index)),
            filters: GuardSlot::new(Filters::new(tun_index)),
        }
    }

    /// Opens the sockets for changes. Call it before [`install`](Self::install), so that no change is missed.
    pub(crate) fn changes() -> Changes {
        Changes { firewall: Firewall::changes().ok(), policies: KernelPolicies::changes().ok() }
    }

    /// Stops packets to these destinations that bypass the tunnel, except packets of `pass_selectors`.
    pub(crate) fn install(
        &mut self,
        protected: impl Iterator<Item = (IpAddr, u8)>,
        pass_selectors: &[Selector],
    ) -> io::Result<()> {
        let protected: Vec<Prefix> = protected.map(|(address, length)| Prefix { address, length }).collect();
        self.firewall.install(|guard| guard.protect(&protected))?;
        self.policies.install(|guard| guard.install(&protected, pass_selectors))
    }

    /// Returns whether the firewall steers the packets of policies. Returns true until an attempt has failed.
    pub(crate) fn steers(&self) -> bool {
        self.firewall.guard.is_ok()
    }

    /// Replaces a policy by another one of its direction. `None` stands for no policy.
    pub(crate) fn steer(&mut self, old: Option<&SteeredPolicy>, new: Option<&SteeredPolicy>) -> io::Result<()> {
        self.firewall.install(|guard| guard.steer(old, new))?;
        if new.or(old).is_some_and(is_outgoing) { self.filters.install(|guard| guard.steer(old, new)) } else { Ok(()) }
    }

    /// Replaces all policies.
    pub(crate) fn steer_all(&mut self, policies: &[SteeredPolicy]) -> io::Result<()> {
        self.firewall.install(|guard| guard.steer_all(policies))?;
        let outgoing = policies.iter().filter(|policy| is_outgoing(policy)).copied();
        self.filters.install(|guard| guard.steer_all(outgoing))
    }

    /// Returns whether the filters of the devices lack a policy.
    pub(crate) fn has_outdated_filters(&self) -> bool {
        self.filters.guard.as_ref().is_ok_and(Filters::are_outdated)
    }

    /// Installs the filters at all devices again.
    pub(crate) fn restore_filters(&mut self) -> io::Result<()> {
        self.filters.install(Filters::restore)
    }

    /// Restores the guards that other programs have changed since the last call.
    pub(crate) fn restore(&mut self, changes: &Changes) -> io::Result<()> {
        // An error of the first guard must not keep the second from being restored.
        let firewall = restore(&mut self.firewall, changes.firewall.as_ref(), Firewall::was_changed, Firewall::restore);
        let policies = restore(
            &mut self.policies,
            changes.policies.as_ref(),
            KernelPolicies::were_changed,
            KernelPolicies::restore,
        );
        firewall.and(policies)
    }

    /// Returns whether the firewall's table, the policies and the filters are in force, one value each.
    pub(crate) fn in_force(&self) -> [bool; 3] {
        [
            self.firewall.is_in_force(),
            self.policies.is_in_force(),
            self.filters.is_in_force() && !self.has_outdated_filters(),
        ]
    }

    /// Returns the errors with which the kernel refused the firewall's table, the policies, and the filters.
    pub(crate) fn support_errors(&self) -> [Option<&io::Error>; 3] {
        [self.firewall.guard.as_ref().err(), self.policies.guard.as_ref().err(), self.filters.guard.as_ref().err()]
    }
}

fn is_outgoing(policy: &SteeredPolicy) -> bool {
    policy.direction == Direction::Out
}

fn restore<G>(
    slot: &mut GuardSlot<G>,
    changes: Option<&Socket>,
    was_changed: impl Fn(&G, &[u8]) -> bool,
    restore: impl FnOnce(&mut G) -> io::Result<()>,
) -> io::Result<()> {
    let (Ok(guard), Some(changes)) = (&slot.guard, changes) else { return Ok(()) };
    let is_changed = changes.drain_any(|datagram| was_changed(guard, datagram));
    if is_changed || slot.needs_restore { slot.restore(restore) } else { Ok(()) }
}

/// Deletes the leftovers of all guards. Returns the number of deleted firewall tables.
pub(crate) fn clear_leftovers() -> io::Result<usize> {
    let tables = firewall::clear_leftovers()?;
    kernel_policies::clear_leftovers()?;
    filter::clear_leftovers()?;
    Ok(tables)
}
