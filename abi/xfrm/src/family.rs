//! Address families.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;

/// The family of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// AF_INET.
    Ipv4,
    /// AF_INET6.
    Ipv6,
}

impl Family {
    /// Returns the family of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }

    /// Returns AF_INET or AF_INET6, which are the same on every architecture of Linux.
    pub const fn number(self) -> u16 {
        match self {
            Self::Ipv4 => 2,
            Self::Ipv6 => 10,
        }
    }

    /// Returns the number of bits of an address.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }

    /// Returns the unspecified address: `0.0.0.0` or `::`.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::Ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::Ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    pub(crate) const fn parse(number: u16) -> Result<Self, Error> {
        match number {
            2 => Ok(Self::Ipv4),
            10 => Ok(Self::Ipv6),
            other => Err(Error::Family(other)),
        }
    }
}
