//! Structures that the messages of SAs and of policies share.

use std::net::IpAddr;

use crate::Error;
use crate::bytes::{Reader, Write};
use crate::constants::{NO_LIMIT, attribute};
use crate::family::Family;
use crate::netlink::Datagram;

/// A network: addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// The number of significant leading bits.
    pub length: u8,
}

impl Prefix {
    /// Returns whether `address` is in the network. Returns false for an address of another family.
    pub fn contains(&self, address: IpAddr) -> bool {
        // The bits of IPv4 addresses are shifted to the top, where `leading_zeros` begins to count.
        let difference = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits() ^ b.to_bits())) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
            _ => return false,
        };
        difference.leading_zeros() >= u32::from(self.length)
    }
}

/// A port and a mask of its significant bits. For ICMP, the source port is the type, and the destination port is the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Port {
    /// The port.
    pub value: u16,
    /// The significant bits: 0 for any port, 0xffff for this port alone.
    pub mask: u16,
}

/// `struct xfrm_selector`: the packets to which an SA or a policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// The destination of the packets.
    pub destination: Prefix,
    /// The source of the packets, of the same family.
    pub source: Prefix,
    /// The destination port.
    pub destination_port: Port,
    /// The source port.
    pub source_port: Port,
    /// True if the selector's field for the family is 0, which is allowed in messages about SAs only. The addresses then have the SA's
    /// family. If the SA also has the flag XFRM_STATE_AF_UNSPEC, Linux matches packets of both families.
    pub is_family_unspecified: bool,
    /// The IP protocol, 0 for any.
    pub protocol: u8,
    /// The index of the interface, 0 for any.
    pub interface_index: i32,
    /// A user ID, 0 for any. Linux does not match packets against it.
    pub user: u32,
}

/// Bytes of `struct xfrm_selector`.
pub(crate) const SELECTOR_SIZE: usize = 56;

impl Selector {
    /// Returns a selector for all packets of a family.
    pub const fn any(family: Family) -> Self {
        let all = Prefix { address: family.unspecified(), length: 0 };
        let port = Port { value: 0, mask: 0 };
        Self {
            destination: all,
            source: all,
            destination_port: port,
            source_port: port,
            is_family_unspecified: false,
            protocol: 0,
            interface_index: 0,
            user: 0,
        }
    }

    /// Returns the family of the addresses.
    pub const fn family(&self) -> Family {
        Family::of(self.destination.address)
    }

    /// Reads a selector. If the family is 0, the addresses have the family `default_family`; without it, family 0 is an error.
    pub(crate) fn parse(reader: &mut Reader<'_>, default_family: Option<Family>) -> Result<Self, Error> {
        let destination = reader.address()?;
        let source = reader.address()?;
        let destination_port = Port { value: reader.be16()?, mask: reader.be16()? };
        let source_port = Port { value: reader.be16()?, mask: reader.be16()? };
        let family = reader.u16()?;
        let (destination_length, source_length) = (reader.u8()?, reader.u8()?);
        let protocol = reader.u8()?;
        reader.skip(3)?;
        let interface_index = reader.u32()?.cast_signed();
        let user = reader.u32()?;
        let (family, is_family_unspecified) = match (family, default_family) {
            (0, Some(family)) => (family, true),
            (number, _) => (Family::parse(number)?, false),
        };
        if destination_length > family.bits() || source_length > family.bits() {
            return Err(Error::Value("prefixlen"));
        }
        Ok(Self {
            destination: Prefix { address: destination.to_ip(family), length: destination_length },
            source: Prefix { address: source.to_ip(family), length: source_length },
            destination_port,
            source_port,
            is_family_unspecified,
            protocol,
            interface_index,
            user,
        })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        to.address(self.destination.address);
        to.address(self.source.address);
        for port in [self.destination_port, self.source_port] {
            to.be16(port.value);
            to.be16(port.mask);
        }
        to.u16(if self.is_family_unspecified { 0 } else { self.family().number() });
        to.u8(self.destination.length);
        to.u8(self.source.length);
        to.u8(self.protocol);
        to.zeros(3);
        to.u32(self.interface_index.cast_unsigned());
        to.u32(self.user);
    }
}

/// `struct xfrm_lifetime_cfg`: the limits of an SA or a policy. At a soft limit, Linux sends a notification. At a hard limit, Linux
/// removes the entry. For policies, only the limits in seconds have an effect. [`NO_LIMIT`] bytes or packets, and 0 seconds, mean no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The soft limit in bytes.
    pub soft_bytes: u64,
    /// The hard limit in bytes.
    pub hard_bytes: u64,
    /// The soft limit in packets.
    pub soft_packets: u64,
    /// The hard limit in packets.
    pub hard_packets: u64,
    /// The soft limit in seconds since the entry was added.
    pub soft_add_seconds: u64,
    /// The hard limit in seconds since the entry was added.
    pub hard_add_seconds: u64,
    /// The soft limit in seconds: for an SA since its first use; for a policy since its last use or, if it is unused, since it was added.
    pub soft_use_seconds: u64,
    /// The hard limit in seconds, counted as the soft one.
    pub hard_use_seconds: u64,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        soft_bytes: NO_LIMIT,
        hard_bytes: NO_LIMIT,
        soft_packets: NO_LIMIT,
        hard_packets: NO_LIMIT,
        soft_add_seconds: 0,
        hard_add_seconds: 0,
        soft_use_seconds: 0,
        hard_use_seconds: 0,
    };

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            soft_bytes: reader.u64()?,
            hard_bytes: reader.u64()?,
            soft_packets: reader.u64()?,
            hard_packets: reader.u64()?,
            soft_add_seconds: reader.u64()?,
            hard_add_seconds: reader.u64()?,
            soft_use_seconds: reader.u64()?,
            hard_use_seconds: reader.u64()?,
        })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        for limit in [
            self.soft_bytes,
            self.hard_bytes,
            self.soft_packets,
            self.hard_packets,
            self.soft_add_seconds,
            self.hard_add_seconds,
            self.soft_use_seconds,
            self.hard_use_seconds,
        ] {
            to.u64(limit);
        }
    }
}

/// `struct xfrm_lifetime_cur`: the counters of an SA or a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of bytes.
    pub bytes: u64,
    /// The number of packets.
    pub packets: u64,
    /// The time when the entry was added, in seconds since 1970.
    pub add_time: u64,
    /// The time when an SA was first used, or a policy last used, in seconds since 1970; 0 if unused.
    pub use_time: u64,
}

impl Counters {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self { bytes: reader.u64()?, packets: reader.u64()?, add_time: reader.u64()?, use_time: reader.u64()? })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        for value in [self.bytes, self.packets, self.add_time, self.use_time] {
            to.u64(value);
        }
    }
}

/// `struct xfrm_mark`: a mark of packets, and a mask of its significant bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The mark.
    pub value: u32,
    /// The significant bits.
    pub mask: u32,
}

impl Mark {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self { value: reader.u32()?, mask: reader.u32()? })
    }

    pub(crate) fn write(self, to: &mut Datagram) {
        to.u32(self.value);
        to.u32(self.mask);
    }
}

/// Writes the mark and the interface ID, if they are set. Both distinguish policies with the same selector; the mark also distinguishes SAs
/// with the same SPI.
pub(crate) fn write_mark_and_interface_id(mark: Option<Mark>, interface_id: u32, to: &mut Datagram) {
    if let Some(mark) = mark {
        to.attribute(attribute::MARK, |to| mark.write(to));
    }
    if interface_id != 0 {
        to.attribute(attribute::IF_ID, |to| to.u32(interface_id));
    }
}
