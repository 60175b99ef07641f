//! Addresses for which the kernel delivers packets locally instead of forwarding them.

use std::collections::HashSet;
use std::net::IpAddr;

use gantry_abi_xfrm::{Family, Prefix};

/// The addresses of this host, including multicast and broadcast addresses.
#[derive(Debug, Default)]
pub(crate) struct LocalAddresses {
    addresses: HashSet<IpAddr>,
    /// Whole networks that are local, such as `127.0.0.0/8`.
    networks: Vec<Prefix>,
}

impl LocalAddresses {
    /// Takes the destinations of the kernel's `local` routing table.
    pub(crate) fn new(destinations: impl Iterator<Item = (IpAddr, u8)>) -> Self {
        let mut local = Self::default();
        for (address, length) in destinations {
            if length == Family::of(address).bits() {
                local.addresses.insert(address);
            } else {
                local.networks.push(Prefix { address, length });
            }
        }
        local
    }

    /// Returns whether this host has the address.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Returns whether packets to `address` are for this host.
    pub(crate) fn is_local_destination(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
            || address.is_multicast()
            || address == IpAddr::from([255; 4])
            || self.networks.iter().any(|network| network.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_networks_and_multicast_groups_are_recognized() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let local = LocalAddresses::new(
            [(address("10.1.0.1"), 32), (address("127.0.0.0"), 8), (address("fd00::1"), 128)].into_iter(),
        );
        for text in ["10.1.0.1", "127.0.0.9", "fd00::1", "224.0.0.5", "ff02::1", "255.255.255.255"] {
            assert!(local.is_local_destination(address(text)), "{text}");
        }
        for text in ["10.1.0.2", "128.0.0.1", "fd00::2"] {
            assert!(!local.is_local_destination(address(text)), "{text}");
        }
    }
}
