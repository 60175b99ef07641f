//! All messages of XFRM: parsing and encoding.

use crate::Error;
use crate::bytes::{Reader, Write, padded};
use crate::constants::{attribute, group, message};
use crate::events::{
    Acquire, AddressFilter, AsyncEvent, Expire, Mapping, PolicyExpire, SadInfo, SpdInfo, Verdicts, for_each_attribute,
};
use crate::netlink::{Datagram, Frame, Header, attributes};
use crate::parts::{Mark, write_mark_and_interface_id};
use crate::policy::{self, Policy, PolicyRef};
use crate::sa::{self, AllocSpi, KeyVisibility, Sa, SaId, SaRef};

/// A message of XFRM. Requests, answers and notifications share this type, because most of them share a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// NEWSA: adds an SA, or notifies of an added one; the answer to GETSA and ALLOCSPI.
    NewSa(Box<Sa>),
    /// UPDSA: replaces the SA with the same ID.
    UpdSa(Box<Sa>),
    /// DELSA: deletes an SA.
    DelSa(SaRef),
    /// DELSA with XFRMA_SA: notifies of a deleted SA.
    SaDeleted(Box<Sa>),
    /// GETSA: requests one SA.
    GetSa(SaRef),
    /// GETSA with NLM_F_DUMP: requests all SAs.
    DumpSa(AddressFilter),
    /// FLUSHSA: deletes all SAs of a protocol, or notifies that they were deleted. 255 is IPSEC_PROTO_ANY: AH, ESP and IPComp.
    FlushSa(u8),
    /// ALLOCSPI: allocates an SPI for an SA.
    AllocSpi(Box<AllocSpi>),
    /// NEWPOLICY: adds a policy, or notifies of an added one; the answer to GETPOLICY.
    NewPolicy(Box<Policy>),
    /// UPDPOLICY: replaces the policy with the same selector.
    UpdPolicy(Box<Policy>),
    /// DELPOLICY: deletes a policy.
    DelPolicy(PolicyRef),
    /// DELPOLICY with XFRMA_POLICY: notifies of a deleted policy.
    PolicyDeleted(Box<Policy>),
    /// GETPOLICY: requests one policy.
    GetPolicy(PolicyRef),
    /// GETPOLICY with NLM_F_DUMP: requests all policies.
    DumpPolicy,
    /// FLUSHPOLICY: deletes all policies of a kind, or notifies that they were deleted.
    FlushPolicy {
        /// XFRMA_POLICY_TYPE: 0 main, 1 sub.
        kind: u8,
    },
    /// GETSADINFO, with a number that the answer repeats.
    GetSadInfo(u32),
    /// NEWSADINFO.
    NewSadInfo(SadInfo),
    /// GETSPDINFO, with a number that the answer repeats.
    GetSpdInfo(u32),
    /// NEWSPDINFO.
    NewSpdInfo(SpdInfo),
    /// NEWAE: sets the packet numbers and counters of an SA, or notifies of them.
    NewAe(Box<AsyncEvent>),
    /// GETAE: requests the packet numbers and counters of an SA.
    GetAe(Box<AsyncEvent>),
    /// SETDEFAULT: sets the action for packets that match no policy.
    SetDefault(Verdicts),
    /// GETDEFAULT: requests the action for packets that match no policy; also the answer.
    GetDefault(Verdicts),
    /// ACQUIRE: packets match a policy that has no SA.
    Acquire(Box<Acquire>),
    /// EXPIRE: an SA has reached a limit.
    Expire(Box<Expire>),
    /// POLEXPIRE: a policy has reached a limit.
    PolicyExpire(Box<PolicyExpire>),
    /// MAPPING: a peer has a new address or port.
    Mapping(Mapping),
}

impl Message {
    /// Parses a message of XFRM. Its structure and each known attribute must be complete.
    pub fn parse(frame: &Frame<'_>) -> Result<Self, Error> {
        let body = frame.body();
        let kind = frame.header.kind;
        let mut reader = Reader(body);
        Ok(match kind {
            message::NEWSA => Self::NewSa(Sa::parse(body)?.into()),
            message::UPDSA => Self::UpdSa(Sa::parse(body)?.into()),
            message::DELSA => match find_last_attribute(body, sa::ID_SIZE, attribute::SA)? {
                None => Self::DelSa(SaRef::parse(body)?),
                Some(info) => {
                    let mut sa = Sa::parse_info(&mut Reader(info)).map_err(|_| Error::Attribute(attribute::SA))?;
                    sa.parse_attributes(body.get(sa::ID_SIZE..).unwrap_or_default())?;
                    // `parse_attributes` lists XFRMA_SA as unknown, although it is read above.
                    sa.unknown.retain(|&kind| kind != attribute::SA);
                    Self::SaDeleted(sa.into())
                }
            },
            message::GETSA if frame.header.is_dump() => Self::DumpSa(AddressFilter::parse(body)?),
            message::GETSA => Self::GetSa(SaRef::parse(body)?),
            message::FLUSHSA => Self::FlushSa(reader.u8()?),
            message::ALLOCSPI => Self::AllocSpi(AllocSpi::parse(body)?.into()),
            message::NEWPOLICY => Self::NewPolicy(Policy::parse(body)?.into()),
            message::UPDPOLICY => Self::UpdPolicy(Policy::parse(body)?.into()),
            message::DELPOLICY => match find_last_attribute(body, PolicyRef::SIZE, attribute::POLICY)? {
                None => Self::DelPolicy(PolicyRef::parse(body)?),
                Some(info) => {
                    let policy = Policy::parse_info(&mut Reader(info));
                    let mut policy = policy.map_err(|_| Error::Attribute(attribute::POLICY))?;
                    policy.parse_attributes(body.get(PolicyRef::SIZE..).unwrap_or_default())?;
                    // `parse_attributes` lists XFRMA_POLICY as unknown, although it is read above.
                    policy.unknown.retain(|&kind| kind != attribute::POLICY);
                    Self::PolicyDeleted(policy.into())
                }
            },
            message::GETPOLICY if frame.header.is_dump() => Self::DumpPolicy,
            message::GETPOLICY => Self::GetPolicy(PolicyRef::parse(body)?),
            message::FLUSHPOLICY => Self::FlushPolicy { kind: policy_kind(body)? },
            message::GETSADINFO => Self::GetSadInfo(reader.u32()?),
            message::NEWSADINFO => Self::NewSadInfo(SadInfo::parse(body)?),
            message::GETSPDINFO => Self::GetSpdInfo(reader.u32()?),
            message::NEWSPDINFO => Self::NewSpdInfo(SpdInfo::parse(body)?),
            message::NEWAE => Self::NewAe(AsyncEvent::parse(body)?.into()),
            message::GETAE => Self::GetAe(AsyncEvent::parse(body)?.into()),
            message::SETDEFAULT => Self::SetDefault(Verdicts::parse(body)?),
            message::GETDEFAULT => Self::GetDefault(Verdicts::parse(body)?),
            message::ACQUIRE => Self::Acquire(Acquire::parse(body)?.into()),
            message::EXPIRE => {
                let sa = Sa::parse_info(&mut reader)?;
                let is_hard = read_is_hard(&mut reader)?;
                // Keeps only the attributes that an EXPIRE has, and ignores others.
                let mut attributes = Sa::new(sa.id, sa.source);
                attributes.parse_attributes(reader.0)?;
                let Sa { mark, interface_id, direction, .. } = attributes;
                Self::Expire(Expire { sa: Sa { mark, interface_id, direction, ..sa }, is_hard }.into())
            }
            message::POLEXPIRE => {
                let mut policy = Policy::parse_info(&mut reader)?;
                let is_hard = read_is_hard(&mut reader)?;
                policy.parse_attributes(reader.0)?;
                Self::PolicyExpire(PolicyExpire { policy, is_hard }.into())
            }
            message::MAPPING => Self::Mapping(Mapping::parse(body)?),
            message::REPORT | message::MIGRATE => return Err(Error::Unsupported(kind)),
            _ => return Err(Error::Unknown(kind)),
        })
    }

    /// Returns the message's number in a header.
    pub const fn kind(&self) -> u16 {
        match self {
            Self::NewSa(_) => message::NEWSA,
            Self::UpdSa(_) => message::UPDSA,
            Self::DelSa(_) | Self::SaDeleted(_) => message::DELSA,
            Self::GetSa(_) | Self::DumpSa(_) => message::GETSA,
            Self::FlushSa(_) => message::FLUSHSA,
            Self::AllocSpi(_) => message::ALLOCSPI,
            Self::NewPolicy(_) => message::NEWPOLICY,
            Self::UpdPolicy(_) => message::UPDPOLICY,
            Self::DelPolicy(_) | Self::PolicyDeleted(_) => message::DELPOLICY,
            Self::GetPolicy(_) | Self::DumpPolicy => message::GETPOLICY,
            Self::FlushPolicy { .. } => message::FLUSHPOLICY,
            Self::GetSadInfo(_) => message::GETSADINFO,
            Self::NewSadInfo(_) => message::NEWSADINFO,
            Self::GetSpdInfo(_) => message::GETSPDINFO,
            Self::NewSpdInfo(_) => message::NEWSPDINFO,
            Self::NewAe(_) => message::NEWAE,
            Self::GetAe(_) => message::GETAE,
            Self::SetDefault(_) => message::SETDEFAULT,
            Self::GetDefault(_) => message::GETDEFAULT,
            Self::Acquire(_) => message::ACQUIRE,
            Self::Expire(_) => message::EXPIRE,
            Self::PolicyExpire(_) => message::POLEXPIRE,
            Self::Mapping(_) => message::MAPPING,
        }
    }

    /// Returns the group to which Linux sends the message as a notification. Returns `None` for a message that is only a request or an
    /// answer.
    pub const fn group(&self) -> Option<u32> {
        match self {
            Self::NewSa(_) | Self::UpdSa(_) | Self::SaDeleted(_) | Self::FlushSa(_) => Some(group::SA),
            Self::NewPolicy(_)
            | Self::UpdPolicy(_)
            | Self::PolicyDeleted(_)
            | Self::FlushPolicy { .. }
            | Self::SetDefault(_)
            | Self::GetDefault(_) => Some(group::POLICY),
            Self::NewAe(_) => Some(group::AEVENTS),
            Self::Acquire(_) => Some(group::ACQUIRE),
            Self::Expire(_) | Self::PolicyExpire(_) => Some(group::EXPIRE),
            Self::Mapping(_) => Some(group::MAPPING),
            Self::DelSa(_)
            | Self::GetSa(_)
            | Self::DumpSa(_)
            | Self::AllocSpi(_)
            | Self::DelPolicy(_)
            | Self::GetPolicy(_)
            | Self::DumpPolicy
            | Self::GetSadInfo(_)
            | Self::NewSadInfo(_)
            | Self::GetSpdInfo(_)
            | Self::NewSpdInfo(_)
            | Self::GetAe(_) => None,
        }
    }
}

impl Datagram {
    /// Appends `message` with `flags`, `sequence` and `port` of a header. [`Message::DumpSa`] and [`Message::DumpPolicy`] need
    /// NLM_F_DUMP among the flags, because only this flag distinguishes them from requests for one entry.
    pub fn push(&mut self, message: &Message, flags: u16, sequence: u32, port: u32, key_visibility: KeyVisibility) {
        self.begin(Header { kind: message.kind(), flags, sequence, port });
        self.write(message, key_visibility);
        self.end();
    }

    fn write(&mut self, message: &Message, key_visibility: KeyVisibility) {
        match message {
            Message::NewSa(sa) | Message::UpdSa(sa) => {
                sa.write_info(self);
                sa::attributes::write(sa, key_visibility, self);
            }
            Message::DelSa(sa) | Message::GetSa(sa) => sa.write(self),
            Message::SaDeleted(sa) => {
                sa.id.write(self);
                self.attribute(attribute::SA, |to| sa.write_info(to));
                sa::attributes::write(sa, key_visibility, self);
            }
            Message::DumpSa(filter) => filter.write(self),
            Message::FlushSa(protocol) => self.u8(*protocol),
            Message::AllocSpi(request) => {
                request.sa.write_info(self);
                self.u32(request.lowest);
                self.u32(request.highest);
                sa::attributes::write(&request.sa, key_visibility, self);
            }
            Message::NewPolicy(policy) | Message::UpdPolicy(policy) => {
                policy.write_info(self);
                policy.write_attributes(self);
            }
            Message::DelPolicy(policy) | Message::GetPolicy(policy) => policy.write(self),
            Message::PolicyDeleted(policy) => {
                policy::write_id(&policy.selector, policy.index, policy.direction, self);
                self.attribute(attribute::POLICY, |to| policy.write_info(to));
                policy.write_attributes(self);
            }
            Message::DumpPolicy => {}
            Message::FlushPolicy { kind } => policy::write_kind(*kind, self),
            Message::GetSadInfo(flags) | Message::GetSpdInfo(flags) => self.u32(*flags),
            Message::NewSadInfo(info) => info.write(self),
            Message::NewSpdInfo(info) => info.write(self),
            Message::NewAe(event) | Message::GetAe(event) => event.write(self),
            Message::SetDefault(verdicts) | Message::GetDefault(verdicts) => verdicts.write(self),
            Message::Acquire(acquire) => acquire.write(self),
            Message::Expire(expire) => {
                expire.sa.write_info(self);
                self.u8(expire.is_hard.into());
                self.zeros(HARD_SIZE - 1);
                sa::attributes::write_expire_attributes(&expire.sa, self);
            }
            Message::PolicyExpire(expire) => {
                expire.policy.write_info(self);
                self.u8(expire.is_hard.into());
                self.zeros(HARD_SIZE - 1);
                expire.policy.write_attributes(self);
            }
            Message::Mapping(mapping) => mapping.write(self),
        }
    }
}

/// Bytes of the field `hard` and the padding after it, at the end of `struct xfrm_user_expire` and `struct xfrm_user_polexpire`.
const HARD_SIZE: usize = padded(1);

fn read_is_hard(reader: &mut Reader<'_>) -> Result<bool, Error> {
    let is_hard = reader.u8()? != 0;
    reader.skip(HARD_SIZE - 1)?;
    Ok(is_hard)
}

/// Returns the content of the last attribute `kind` after a structure of `size` bytes.
fn find_last_attribute(body: &[u8], size: usize, kind: u16) -> Result<Option<&[u8]>, Error> {
    let mut found = None;
    for attribute in attributes(body.get(size..).ok_or(Error::Short)?) {
        let (number, content) = attribute?;
        found = if number == kind { Some(content) } else { found };
    }
    Ok(found)
}

/// Reads XFRMA_POLICY_TYPE of a FLUSHPOLICY. The body has no structure before its attributes.
fn policy_kind(body: &[u8]) -> Result<u8, Error> {
    let mut found = 0;
    for_each_attribute(body, |kind, reader| {
        found = if kind == attribute::POLICY_TYPE { reader.u8()? } else { found };
        Ok(())
    })?;
    Ok(found)
}

impl SaRef {
    fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let id = SaId::parse(&mut reader)?;
        let mut sa = Self { id, source: None, mark: None, interface_id: 0, unknown: Vec::new() };
        for_each_attribute(reader.0, |kind, reader| {
            match kind {
                attribute::SRCADDR => sa.source = Some(reader.address()?.to_ip(id.family())),
                attribute::MARK => sa.mark = Some(Mark::parse(reader)?),
                attribute::IF_ID => sa.interface_id = reader.u32()?,
                attribute::PAD => {}
                other => sa.unknown.push(other),
            }
            Ok(())
        })?;
        sa.unknown.sort_unstable();
        sa.unknown.dedup();
        Ok(sa)
    }

    fn write(&self, to: &mut Datagram) {
        self.id.write(to);
        if let Some(source) = self.source {
            to.attribute(attribute::SRCADDR, |to| to.address(source));
        }
        write_mark_and_interface_id(self.mark, self.interface_id, to);
        for &unknown in &self.unknown {
            to.attribute(unknown, |_| {});
        }
    }
}
