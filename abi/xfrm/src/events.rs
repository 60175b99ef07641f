//! Notifications of a kernel, and counters.

use std::net::IpAddr;

use crate::Error;
use crate::bytes::{Reader, Write};
use crate::constants::{aevent, attribute};
use crate::family::Family;
use crate::netlink::{Datagram, attributes};
use crate::parts::{Counters, Mark, Prefix, Selector, write_mark_and_interface_id};
use crate::policy::Policy;
use crate::sa::attributes::{parse_replay, parse_replay_esn, write_replay};
use crate::sa::{Replay, ReplayEsn, Sa, SaId};

/// `struct xfrm_user_acquire` and its attributes: packets match a policy that has no SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The requested SA, whose SPI is 0.
    pub id: SaId,
    /// The source of the SA's packets, of the family of [`SaId::destination`].
    pub source: IpAddr,
    /// The addresses, ports and protocol of the packet.
    pub selector: Selector,
    /// The policy that the packet matches. The attributes of the message are its kind, mark, interface and one template.
    pub policy: Policy,
    /// The allowed authentications: a bit for each number of PF_KEY.
    pub authentications: u32,
    /// The allowed ciphers.
    pub ciphers: u32,
    /// The allowed compressions.
    pub compressions: u32,
    /// A number, which the SA in the daemon's answer repeats.
    pub sequence: u32,
}

impl Acquire {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let destination = reader.address()?;
        let (spi, protocol) = (reader.be32()?, reader.u8()?);
        reader.skip(3)?;
        let source = reader.address()?;
        let selector = Selector::parse(&mut reader, None)?;
        let mut policy = Policy::parse_info(&mut reader)?;
        let (authentications, ciphers, compressions) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let sequence = reader.u32()?;
        policy.parse_attributes(reader.0)?;
        // The structure lacks the family of the SA's addresses, which is that of the template.
        let family = policy.templates.first().map_or(selector.family(), |template| template.id.family());
        Ok(Self {
            id: SaId { destination: destination.to_ip(family), spi, protocol },
            source: source.to_ip(family),
            selector,
            policy,
            authentications,
            ciphers,
            compressions,
            sequence,
        })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        to.address(self.id.destination);
        to.be32(self.id.spi);
        to.u8(self.id.protocol);
        to.zeros(3);
        to.address(self.source);
        self.selector.write(to);
        self.policy.write_info(to);
        for value in [self.authentications, self.ciphers, self.compressions, self.sequence] {
            to.u32(value);
        }
        self.policy.write_attributes(to);
    }
}

/// `struct xfrm_user_expire`: an SA has reached a limit. The message contains the attributes that identify the SA: mark, interface,
/// direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expire {
    /// The SA.
    pub sa: Sa,
    /// True if the limit is hard. The SA has then been deleted.
    pub is_hard: bool,
}

/// `struct xfrm_user_polexpire` and its attributes: a policy has reached a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyExpire {
    /// The policy.
    pub policy: Policy,
    /// True if the limit is hard. The policy has then been deleted.
    pub is_hard: bool,
}

/// `struct xfrm_user_mapping`: an SA's peer has a new address or port behind its NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The inbound SA.
    pub id: SaId,
    /// The SA's reqid.
    pub reqid: u32,
    /// The peer's old address, of the family of [`SaId::destination`].
    pub old_source: IpAddr,
    /// The source address of the last packet.
    pub new_source: IpAddr,
    /// The peer's old port.
    pub old_port: u16,
    /// The source port of the last packet.
    pub new_port: u16,
}

impl Mapping {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let id = SaId::parse(&mut reader)?;
        let reqid = reader.u32()?;
        let old_source = reader.address()?.to_ip(id.family());
        let new_source = reader.address()?.to_ip(id.family());
        let (old_port, new_port) = (reader.be16()?, reader.be16()?);
        Ok(Self { id, reqid, old_source, new_source, old_port, new_port })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        self.id.write(to);
        to.u32(self.reqid);
        to.address(self.old_source);
        to.address(self.new_source);
        to.be16(self.old_port);
        to.be16(self.new_port);
    }
}

/// `struct xfrm_aevent_id` and its attributes, of NEWAE and GETAE: the packet numbers and counters of an SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// The SA.
    pub id: SaId,
    /// The source of the SA's packets, of the family of [`SaId::destination`].
    pub source: IpAddr,
    /// Bits of [`constants::aevent`](crate::constants::aevent): the reason of the message, or the requested fields.
    pub flags: u32,
    /// The SA's reqid.
    pub reqid: u32,
    /// The 32-bit replay state.
    pub replay: Option<Replay>,
    /// The replay state with 64-bit numbers or a larger window.
    pub replay_esn: Option<ReplayEsn>,
    /// The counters of the SA.
    pub counters: Option<Counters>,
    /// The number of packets after which an event is sent.
    pub replay_threshold: Option<u32>,
    /// The time after which an event is sent, in units of 100 ms.
    pub timer_threshold: Option<u32>,
    /// The mark of packets.
    pub mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// Numbers of attributes that this crate does not know, ascending.
    pub unknown: Vec<u16>,
}

impl AsyncEvent {
    /// Returns the kernel's answer for `sa`: the packet numbers and counters of the SA, and the thresholds that `flags` request.
    pub fn of(sa: &Sa, flags: u32) -> Self {
        Self {
            id: sa.id,
            source: sa.source,
            flags,
            reqid: sa.reqid,
            replay: sa.replay.filter(|_| sa.replay_esn.is_none()),
            replay_esn: sa.replay_esn.clone(),
            counters: Some(sa.counters),
            replay_threshold: sa.replay_threshold.filter(|_| flags & aevent::RTHR != 0),
            timer_threshold: sa.timer_threshold.filter(|_| flags & aevent::ETHR != 0),
            mark: sa.mark,
            interface_id: sa.interface_id,
            unknown: Vec::new(),
        }
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let id = SaId::parse(&mut reader)?;
        let source = reader.address()?.to_ip(id.family());
        let (flags, reqid) = (reader.u32()?, reader.u32()?);
        let mut event = Self {
            id,
            source,
            flags,
            reqid,
            replay: None,
            replay_esn: None,
            counters: None,
            replay_threshold: None,
            timer_threshold: None,
            mark: None,
            interface_id: 0,
            unknown: Vec::new(),
        };
        for_each_attribute(reader.0, |kind, reader| event.parse_attribute(kind, reader))?;
        event.unknown.sort_unstable();
        event.unknown.dedup();
        Ok(event)
    }

    fn parse_attribute(&mut self, kind: u16, reader: &mut Reader<'_>) -> Result<(), Error> {
        match kind {
            attribute::REPLAY_VAL => self.replay = Some(parse_replay(reader)?),
            attribute::REPLAY_ESN_VAL => self.replay_esn = Some(parse_replay_esn(kind, reader)?),
            attribute::LTIME_VAL => self.counters = Some(Counters::parse(reader)?),
            attribute::REPLAY_THRESH => self.replay_threshold = Some(reader.u32()?),
            attribute::ETIMER_THRESH => self.timer_threshold = Some(reader.u32()?),
            attribute::MARK => self.mark = Some(Mark::parse(reader)?),
            attribute::IF_ID => self.interface_id = reader.u32()?,
            attribute::PAD => {}
            other => self.unknown.push(other),
        }
        Ok(())
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        self.id.write(to);
        to.address(self.source);
        to.u32(self.flags);
        to.u32(self.reqid);
        write_replay(self.replay.as_ref(), self.replay_esn.as_ref(), to);
        if let Some(counters) = &self.counters {
            to.attribute(attribute::LTIME_VAL, |to| counters.write(to));
        }
        for (kind, threshold) in
            [(attribute::REPLAY_THRESH, self.replay_threshold), (attribute::ETIMER_THRESH, self.timer_threshold)]
        {
            if let Some(threshold) = threshold {
                to.attribute(kind, |to| to.u32(threshold));
            }
        }
        write_mark_and_interface_id(self.mark, self.interface_id, to);
        for &unknown in &self.unknown {
            to.attribute(unknown, |_| {});
        }
    }
}

/// The filter of a GETSA for all SAs, which is in the attributes of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressFilter {
    /// The protocol of the SAs; 0 for all.
    pub protocol: u8,
    /// XFRMA_ADDRESS_FILTER: the prefixes of the SAs' source and destination, of the same family.
    pub addresses: Option<(Prefix, Prefix)>,
}

impl AddressFilter {
    /// Returns whether a dump includes `sa`.
    pub fn matches(&self, sa: &Sa) -> bool {
        let protocol = self.protocol == 0 || self.protocol == sa.id.protocol;
        protocol
            && self.addresses.is_none_or(|(source, destination)| {
                source.contains(sa.source) && destination.contains(sa.id.destination)
            })
    }

    /// Reads the attributes. The body has no structure before them, but some programs send a structure of zeros. Zeros are a malformed
    /// attribute, at which the filter ends, as in Linux.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut filter = Self::default();
        for (kind, content) in attributes(bytes).map_while(Result::ok) {
            let reader = &mut Reader(content);
            match kind {
                attribute::PROTO => filter.protocol = reader.u8().map_err(|_| Error::Attribute(kind))?,
                attribute::ADDRESS_FILTER => {
                    filter.addresses = addresses(reader).map_err(|_| Error::Attribute(kind))?;
                }
                _ => {}
            }
        }
        Ok(filter)
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        if self.protocol != 0 {
            to.attribute(attribute::PROTO, |to| to.u8(self.protocol));
        }
        if let Some((source, destination)) = self.addresses {
            to.attribute(attribute::ADDRESS_FILTER, |to| {
                to.address(source.address);
                to.address(destination.address);
                to.u16(Family::of(source.address).number());
                to.u8(source.length);
                to.u8(destination.length);
            });
        }
    }
}

/// Reads `struct xfrm_address_filter`. Without a family, as `ip xfrm state` sends it, the filter matches all addresses.
fn addresses(reader: &mut Reader<'_>) -> Result<Option<(Prefix, Prefix)>, Error> {
    let (source, destination) = (reader.address()?, reader.address()?);
    let family = reader.u16()?;
    let (source_length, destination_length) = (reader.u8()?, reader.u8()?);
    if family == 0 {
        return Ok(None);
    }
    let family = Family::parse(family)?;
    if source_length.max(destination_length) > family.bits() {
        return Err(Error::Value("plen"));
    }
    let source = Prefix { address: source.to_ip(family), length: source_length };
    Ok(Some((source, Prefix { address: destination.to_ip(family), length: destination_length })))
}

/// NEWSADINFO: the number of SAs, and the size of their hash table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SadInfo {
    /// The number in the request, which the answer repeats.
    pub flags: u32,
    /// The number of SAs.
    pub count: u32,
    /// The number of buckets in the hash table.
    pub buckets: u32,
    /// The most buckets that the hash table may have.
    pub max_buckets: u32,
}

impl SadInfo {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut info = Self { flags: reader.u32()?, ..Self::default() };
        for_each_attribute(reader.0, |kind, reader| {
            match kind {
                attribute::SAD_CNT => info.count = reader.u32()?,
                attribute::SAD_HINFO => (info.buckets, info.max_buckets) = (reader.u32()?, reader.u32()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(info)
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        to.u32(self.flags);
        to.attribute(attribute::SAD_CNT, |to| to.u32(self.count));
        to.attribute(attribute::SAD_HINFO, |to| {
            to.u32(self.buckets);
            to.u32(self.max_buckets);
        });
    }
}

/// NEWSPDINFO: the number of policies; as a request, the prefix lengths from which policies are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpdInfo {
    /// The number in the request, which the answer repeats.
    pub flags: u32,
    /// The numbers of policies for input, output and forwarding, and then of the sockets' policies in the same order.
    pub counts: Option<[u32; 6]>,
    /// The number of buckets in the hash table, and the maximum number.
    pub buckets: Option<[u32; 2]>,
    /// The shortest local and remote prefixes of IPv4 for which policies are hashed, in bits.
    pub ipv4_threshold: Option<[u8; 2]>,
    /// The shortest local and remote prefixes of IPv6 for which policies are hashed, in bits.
    pub ipv6_threshold: Option<[u8; 2]>,
}

impl SpdInfo {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut info = Self { flags: reader.u32()?, ..Self::default() };
        for_each_attribute(reader.0, |kind, reader| {
            match kind {
                attribute::SPD_INFO => {
                    let mut counts = [0; 6];
                    for count in &mut counts {
                        *count = reader.u32()?;
                    }
                    info.counts = Some(counts);
                }
                attribute::SPD_HINFO => info.buckets = Some([reader.u32()?, reader.u32()?]),
                attribute::SPD_IPV4_HTHRESH => info.ipv4_threshold = Some([reader.u8()?, reader.u8()?]),
                attribute::SPD_IPV6_HTHRESH => info.ipv6_threshold = Some([reader.u8()?, reader.u8()?]),
                _ => {}
            }
            Ok(())
        })?;
        Ok(info)
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        let write_numbers = |to: &mut Datagram, kind, numbers: Option<&[u32]>| {
            if let Some(numbers) = numbers {
                to.attribute(kind, |to| numbers.iter().for_each(|&number| to.u32(number)));
            }
        };
        to.u32(self.flags);
        write_numbers(to, attribute::SPD_INFO, self.counts.as_ref().map(<[_; 6]>::as_slice));
        write_numbers(to, attribute::SPD_HINFO, self.buckets.as_ref().map(<[_; 2]>::as_slice));
        for (kind, threshold) in
            [(attribute::SPD_IPV4_HTHRESH, self.ipv4_threshold), (attribute::SPD_IPV6_HTHRESH, self.ipv6_threshold)]
        {
            if let Some(threshold) = threshold {
                to.attribute(kind, |to| to.bytes(&threshold));
            }
        }
    }
}

/// The action for packets that match no policy, `XFRM_USERPOLICY_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Not specified: a request leaves the action unchanged.
    Unspecified,
    /// Packets are dropped.
    Block,
    /// Packets pass.
    Accept,
    /// An invalid number, which Linux takes for [`Self::Unspecified`].
    Other(u8),
}

/// `struct xfrm_userpolicy_default`, of SETDEFAULT and GETDEFAULT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// The action for incoming packets.
    pub input: Verdict,
    /// The action for forwarded packets.
    pub forward: Verdict,
    /// The action for outgoing packets.
    pub output: Verdict,
}

impl Verdicts {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut verdict = || {
            reader.u8().map(|number| match number {
                0 => Verdict::Unspecified,
                1 => Verdict::Block,
                2 => Verdict::Accept,
                other => Verdict::Other(other),
            })
        };
        Ok(Self { input: verdict()?, forward: verdict()?, output: verdict()? })
    }

    pub(crate) fn write(self, to: &mut Datagram) {
        for verdict in [self.input, self.forward, self.output] {
            to.u8(match verdict {
                Verdict::Unspecified => 0,
                Verdict::Block => 1,
                Verdict::Accept => 2,
                Verdict::Other(number) => number,
            });
        }
    }
}

/// Calls `parse` for each attribute. Returns [`Error::Attribute`] for an attribute that is too short.
pub(crate) fn for_each_attribute(
    bytes: &[u8],
    mut parse: impl FnMut(u16, &mut Reader<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    for attribute in attributes(bytes) {
        let (kind, content) = attribute?;
        parse(kind, &mut Reader(content)).map_err(|error| match error {
            Error::Short => Error::Attribute(kind),
            other => other,
        })?;
    }
    Ok(())
}
