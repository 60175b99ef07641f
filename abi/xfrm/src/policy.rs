//! Policies and their templates.

use std::net::IpAddr;

use crate::Error;
use crate::bytes::{Reader, Write, padded};
use crate::constants::{MAX_TEMPLATES, attribute};
use crate::family::Family;
use crate::netlink::{Datagram, attributes};
use crate::parts::{Counters, Limits, Mark, Selector, write_mark_and_interface_id};
use crate::sa::{Mode, Offload, SaId};

/// The direction of a policy's packets, `XFRM_POLICY_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Incoming packets for this host.
    In,
    /// Outgoing packets.
    Out,
    /// Packets that this host forwards.
    Forward,
}

impl Direction {
    fn parse(number: u8) -> Result<Self, Error> {
        match number {
            0 => Ok(Self::In),
            1 => Ok(Self::Out),
            2 => Ok(Self::Forward),
            _ => Err(Error::Value("dir")),
        }
    }

    const fn number(self) -> u8 {
        self as u8
    }
}

/// The action for matching packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Packets pass, protected by the templates, if any.
    Allow,
    /// Packets are dropped.
    Block,
}

/// `struct xfrm_user_tmpl`: an SA that a policy requires for its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// The SA. An unspecified address and an SPI of 0 match any.
    pub id: SaId,
    /// The source of the SA's packets, of the family of [`SaId::destination`].
    pub source: IpAddr,
    /// The reqid of the SA, 0 for any.
    pub reqid: u32,
    /// The SA's mode.
    pub mode: Mode,
    /// `XFRM_SHARE_*`, which Linux ignores.
    pub share: u8,
    /// True if packets may pass without the SA.
    pub optional: bool,
    /// The allowed authentications: a bit for each number of PF_KEY.
    pub authentications: u32,
    /// The allowed ciphers.
    pub ciphers: u32,
    /// The allowed compressions.
    pub compressions: u32,
}

impl Template {
    /// Bytes of `struct xfrm_user_tmpl`.
    pub(crate) const SIZE: usize = 64;

    /// Reads a template. Family 0 stands for `default_family`: "many applications simply leave it at zero" (`validate_tmpl` of Linux).
    pub(crate) fn parse(reader: &mut Reader<'_>, default_family: Family) -> Result<Self, Error> {
        let destination = reader.address()?;
        let (spi, protocol) = (reader.be32()?, reader.u8()?);
        reader.skip(3)?;
        let family = match reader.u16()? {
            0 => default_family,
            number => Family::parse(number)?,
        };
        reader.skip(2)?;
        let source = reader.address()?.to_ip(family);
        let reqid = reader.u32()?;
        let (mode, share, optional) = (Mode::parse(reader.u8()?), reader.u8()?, reader.u8()? != 0);
        reader.skip(1)?;
        Ok(Self {
            id: SaId { destination: destination.to_ip(family), spi, protocol },
            source,
            reqid,
            mode,
            share,
            optional,
            authentications: reader.u32()?,
            ciphers: reader.u32()?,
            compressions: reader.u32()?,
        })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        to.address(self.id.destination);
        to.be32(self.id.spi);
        to.u8(self.id.protocol);
        to.zeros(3);
        to.u16(self.id.family().number());
        to.zeros(2);
        to.address(self.source);
        to.u32(self.reqid);
        to.u8(self.mode.number());
        to.u8(self.share);
        to.u8(self.optional.into());
        to.zeros(1);
        for algorithms in [self.authentications, self.ciphers, self.compressions] {
            to.u32(algorithms);
        }
    }
}

/// `struct xfrm_userpolicy_info` and its attributes: a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The packets to which the policy applies.
    pub selector: Selector,
    /// The limits at which the policy expires.
    pub limits: Limits,
    /// The counters of the policy's packets.
    pub counters: Counters,
    /// The priority. The lowest number among matching policies wins.
    pub priority: u32,
    /// The index, with the direction in the lowest 3 bits; 0 to let Linux choose one.
    pub index: u32,
    /// The direction of the packets.
    pub direction: Direction,
    /// The action for the packets.
    pub action: Action,
    /// Bits of [`constants::policy`](crate::constants::policy).
    pub flags: u8,
    /// `XFRM_SHARE_*`, which Linux ignores.
    pub share: u8,
    /// The SAs that protect packets, the innermost first; at most [`MAX_TEMPLATES`].
    pub templates: Vec<Template>,
    /// XFRMA_POLICY_TYPE: 0 main, 1 sub.
    pub kind: u8,
    /// The mark of packets.
    pub mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// Offload to a network device.
    pub offload: Option<Offload>,
    /// Numbers of attributes that this crate does not know, ascending.
    pub unknown: Vec<u16>,
}

/// Bytes of `struct xfrm_userpolicy_info`.
pub(crate) const INFO_SIZE: usize = padded(164);

impl Policy {
    /// Creates a policy that lets packets pass unprotected.
    pub fn new(selector: Selector, direction: Direction) -> Self {
        Self {
            selector,
            limits: Limits::NONE,
            counters: Counters::default(),
            priority: 0,
            index: 0,
            direction,
            action: Action::Allow,
            flags: 0,
            share: 0,
            templates: Vec::new(),
            kind: 0,
            mark: None,
            interface_id: 0,
            offload: None,
            unknown: Vec::new(),
        }
    }

    pub(crate) fn parse_info(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let selector = Selector::parse(reader, None)?;
        let limits = Limits::parse(reader)?;
        let counters = Counters::parse(reader)?;
        let (priority, index) = (reader.u32()?, reader.u32()?);
        let mut policy = Self::new(selector, Direction::parse(reader.u8()?)?);
        policy.action = match reader.u8()? {
            0 => Action::Allow,
            1 => Action::Block,
            _ => return Err(Error::Value("action")),
        };
        (policy.limits, policy.counters, policy.priority, policy.index) = (limits, counters, priority, index);
        (policy.flags, policy.share) = (reader.u8()?, reader.u8()?);
        reader.skip(INFO_SIZE - 164)?;
        Ok(policy)
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut policy = Self::parse_info(&mut reader)?;
        policy.parse_attributes(reader.0)?;
        Ok(policy)
    }

    pub(crate) fn parse_attributes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for attribute in attributes(bytes) {
            let (kind, content) = attribute?;
            self.parse_attribute(kind, content).map_err(|error| match error {
                Error::Short => Error::Attribute(kind),
                other => other,
            })?;
        }
        self.unknown.sort_unstable();
        self.unknown.dedup();
        Ok(())
    }

    fn parse_attribute(&mut self, kind: u16, content: &[u8]) -> Result<(), Error> {
        let reader = &mut Reader(content);
        match kind {
            attribute::TMPL => self.templates = templates(kind, content, self.selector.family())?,
            attribute::POLICY_TYPE => self.kind = reader.u8()?,
            attribute::MARK => self.mark = Some(Mark::parse(reader)?),
            attribute::IF_ID => self.interface_id = reader.u32()?,
            attribute::OFFLOAD_DEV => {
                self.offload = Some(Offload { interface_index: reader.u32()?.cast_signed(), flags: reader.u8()? });
            }
            attribute::PAD => {}
            other => self.unknown.push(other),
        }
        Ok(())
    }

    pub(crate) fn write_info(&self, to: &mut Datagram) {
        self.selector.write(to);
        self.limits.write(to);
        self.counters.write(to);
        to.u32(self.priority);
        to.u32(self.index);
        to.u8(self.direction.number());
        to.u8(self.action as u8);
        to.u8(self.flags);
        to.u8(self.share);
        to.zeros(INFO_SIZE - 164);
    }

    /// Writes the attributes, in the order of `dump_one_policy` of Linux.
    pub(crate) fn write_attributes(&self, to: &mut Datagram) {
        if !self.templates.is_empty() {
            to.attribute(attribute::TMPL, |to| {
                for template in self.templates.iter().take(MAX_TEMPLATES) {
                    template.write(to);
                }
            });
        }
        write_common(self.kind, self.mark, self.interface_id, to);
        if let Some(offload) = self.offload {
            to.attribute(attribute::OFFLOAD_DEV, |to| {
                to.u32(offload.interface_index.cast_unsigned());
                to.u8(offload.flags);
                to.zeros(3);
            });
        }
        for &unknown in &self.unknown {
            to.attribute(unknown, |_| {});
        }
    }
}

/// `struct xfrm_userpolicy_id` and its attributes: a policy to return or to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRef {
    /// The policy's selector; ignored unless the index is 0.
    pub selector: Selector,
    /// The policy's index, or 0.
    pub index: u32,
    /// The direction.
    pub direction: Direction,
    /// XFRMA_POLICY_TYPE: 0 main, 1 sub.
    pub kind: u8,
    /// The mark of packets.
    pub mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// Numbers of attributes that this crate does not know, ascending.
    pub unknown: Vec<u16>,
}

impl PolicyRef {
    /// Bytes of `struct xfrm_userpolicy_id`.
    pub(crate) const SIZE: usize = 64;

    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        // With an index, the selector is ignored and its family may be 0. IPv4 is then only a placeholder.
        let mut selector = Selector::parse(&mut reader, Some(Family::Ipv4))?;
        selector.is_family_unspecified = false;
        let index = reader.u32()?;
        let mut policy = Policy::new(selector, Direction::parse(reader.u8()?)?);
        reader.skip(3)?;
        policy.parse_attributes(reader.0)?;
        let Policy { direction, kind, mark, interface_id, unknown, .. } = policy;
        Ok(Self { selector, index, direction, kind, mark, interface_id, unknown })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        write_id(&self.selector, self.index, self.direction, to);
        write_common(self.kind, self.mark, self.interface_id, to);
        for &unknown in &self.unknown {
            to.attribute(unknown, |_| {});
        }
    }
}

/// Writes `struct xfrm_userpolicy_id`.
pub(crate) fn write_id(selector: &Selector, index: u32, direction: Direction, to: &mut Datagram) {
    selector.write(to);
    to.u32(index);
    to.u8(direction.number());
    to.zeros(3);
}

/// Reads the templates of an attribute. Ignores bytes after the last whole template, as Linux does.
pub(crate) fn templates(kind: u16, content: &[u8], family: Family) -> Result<Vec<Template>, Error> {
    let count = content.len() / Template::SIZE;
    if count > MAX_TEMPLATES {
        return Err(Error::Attribute(kind));
    }
    let mut reader = Reader(content);
    (0..count).map(|_| Template::parse(&mut reader, family)).collect()
}

fn write_common(kind: u8, mark: Option<Mark>, interface_id: u32, to: &mut Datagram) {
    write_kind(kind, to);
    write_mark_and_interface_id(mark, interface_id, to);
}

/// Writes XFRMA_POLICY_TYPE, `struct xfrm_userpolicy_type`. A kernel with CONFIG_XFRM_SUB_POLICY, such as Debian's, writes it
/// even for main policies.
pub(crate) fn write_kind(kind: u8, to: &mut Datagram) {
    to.attribute(attribute::POLICY_TYPE, |to| {
        to.u8(kind);
        to.zeros(5);
    });
}
