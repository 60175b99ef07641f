//! Addresses whose packets the kernel delivers to this host, and does not forward.

use std::collections::HashSet;
use std::net::IpAddr;

use gantry_abi_xfrm::{Family, Prefix};

/// The addresses of this host, and of groups.
#[derive(Debug, Default)]
pub(crate) struct Own {
    addresses: HashSet<IpAddr>,
    /// Whole networks of this host, such as `127.0.0.0/8`.
    networks: Vec<Prefix>,
}

impl Own {
    /// Takes the destinations of the kernel's table `local`.
    pub(crate) fn new(destinations: impl Iterator<Item = (IpAddr, u8)>) -> Self {
        let mut own = Self::default();
        for (address, length) in destinations {
            if length == Family::of(address).bits() {
                own.addresses.insert(address);
            } else {
                own.networks.push(Prefix { address, length });
            }
        }
        own
    }

    /// Whether packets to an address are for this host.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
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
    fn addresses_networks_and_groups_are_for_this_host() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let own =
            Own::new([(address("10.1.0.1"), 32), (address("127.0.0.0"), 8), (address("fd00::1"), 128)].into_iter());
        for text in ["10.1.0.1", "127.0.0.9", "fd00::1", "224.0.0.5", "ff02::1", "255.255.255.255"] {
            assert!(own.has(address(text)), "{text}");
        }
        for text in ["10.1.0.2", "128.0.0.1", "fd00::2"] {
            assert!(!own.has(address(text)), "{text}");
        }
    }
}
