//! Reads and writes integers and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;
use crate::family::Family;

/// A cursor over bytes. Integers are in native byte order, except in `be16` and `be32`, which are big-endian.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.take(count).map(drop)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_ne_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(crate) fn be16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn be32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads an `xfrm_address_t`. Another field of the message contains the family.
    pub(crate) fn address(&mut self) -> Result<RawAddress, Error> {
        self.array().map(RawAddress)
    }
}

/// `xfrm_address_t`: 16 bytes. An IPv4 address is in the first 4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAddress([u8; 16]);

impl RawAddress {
    pub(crate) fn to_ip(self, family: Family) -> IpAddr {
        match family {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(self.0[0], self.0[1], self.0[2], self.0[3])),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::from(self.0)),
        }
    }
}

impl From<IpAddr> for RawAddress {
    fn from(address: IpAddr) -> Self {
        let mut bytes = [0; 16];
        match address {
            IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes = address.octets(),
        }
        Self(bytes)
    }
}

impl AsRef<[u8]> for RawAddress {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A destination of bytes. Integers are in native byte order, except those of `be16` and `be32`.
pub(crate) trait Write {
    fn bytes(&mut self, bytes: &[u8]);

    fn zeros(&mut self, count: usize) {
        for _ in 0..count {
            self.bytes(&[0]);
        }
    }

    fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    fn u16(&mut self, value: u16) {
        self.bytes(&value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_ne_bytes());
    }

    fn be16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    fn be32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    fn address(&mut self, address: IpAddr) {
        self.bytes(RawAddress::from(address).as_ref());
    }
}

/// Returns the `sizeof` of a C structure that has a `u64` and whose fields end at `length`.
pub(crate) const fn padded(length: usize) -> usize {
    length.next_multiple_of(align_of::<u64>())
}
