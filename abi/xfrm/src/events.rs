use std::net::IpAddr;

use crate::Error;
use crate::bytes::{Reader, Write};
use crate::constants::{aevent, attribute as number};
use crate::family::Family;
use crate::netlink::{Datagram, attributes};
use crate::parts::{Counters, Mark, Prefix, Selector, write_mark_and_interface};
use crate::policy::Policy;
use crate::sa::attributes::{replay, replay_esn, write_replay};
use crate::sa::{Replay, ReplayEsn, Sa, SaId};

/// `struct xfrm_user_acquire` and its attributes: packets match a policy that has no SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The SA that is wanted, whose SPI is 0.
    pub id: SaId,
    /// Where its packets come from, of the family of [`SaId::destination`].
    pub source: IpAddr,
    /// The packet.
    pub selector: Selector,
    /// The policy. A message has the template below, and the policy's kind, mark and interface.
    pub policy: Policy,
    /// Authentications that are allowed, a bit for each number of PF_KEY.
    pub authentications: u32,
    /// Ciphers that are allowed.
    pub ciphers: u32,
    /// Compressions that are allowed.
    pub compressions: u32,
    /// A number, which the SA that answers repeats.
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
        // The structure has no family for the SA's addresses. They are those of the template.
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

/// `struct xfrm_user_expire`: an SA has reached a limit. A message has the attributes that identify the SA: mark, interface, direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expire {
    /// The SA.
    pub sa: Sa,
    /// The limit is a hard one: the SA is no more.
    pub hard: bool,
}

/// `struct xfrm_user_polexpire` and its attributes: a policy has come to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyExpire {
    /// The policy.
    pub policy: Policy,
    /// The limit is a hard one: the policy is no more.
    pub hard: bool,
}

/// `struct xfrm_user_mapping`: an SA's peer has a new address or port behind its NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The SA, whose packets come in.
    pub id: SaId,
    /// Its reqid.
    pub reqid: u32,
    /// The address that it had, of the family of [`SaId::destination`].
    pub old_source: IpAddr,
    /// The address that its last packet has.
    pub new_source: IpAddr,
    /// The port that it had.
    pub old_port: u16,
    /// The port that its last packet has.
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

/// `struct xfrm_aevent_id` and its attributes, of NEWAE and GETAE: numbers and counters of an SA, given or asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// The SA.
    pub id: SaId,
    /// Where its packets come from, of the family of [`SaId::destination`].
    pub source: IpAddr,
    /// Bits of [`constants::aevent`](crate::constants::aevent): the reason of the message, or the requested fields.
    pub flags: u32,
    /// The SA's reqid.
    pub reqid: u32,
    /// Numbers of packets.
    pub replay: Option<Replay>,
    /// Numbers of packets, 64 bits, or of a larger window.
    pub replay_esn: Option<ReplayEsn>,
    /// The counters of the SA.
    pub counters: Option<Counters>,
    /// Packets after which an event is sent.
    pub replay_threshold: Option<u32>,
    /// Time after which an event is sent, in 100 ms.
    pub timer_threshold: Option<u32>,
    /// The mark of packets.
    pub mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// Numbers of attributes that this crate does not know, ascending.
    pub unknown: Vec<u16>,
}

impl AsyncEvent {
    /// Returns the kernel's answer for `sa`: its numbers and counters, and the thresholds that `flags` request.
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
            number::REPLAY_VAL => self.replay = Some(replay(reader)?),
            number::REPLAY_ESN_VAL => self.replay_esn = Some(replay_esn(kind, reader)?),
            number::LTIME_VAL => self.counters = Some(Counters::parse(reader)?),
            number::REPLAY_THRESH => self.replay_threshold = Some(reader.u32()?),
            number::ETIMER_THRESH => self.timer_threshold = Some(reader.u32()?),
            number::MARK => self.mark = Some(Mark::parse(reader)?),
            number::IF_ID => self.interface_id = reader.u32()?,
            number::PAD => {}
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
            to.attribute(number::LTIME_VAL, |to| counters.write(to));
        }
        for (kind, threshold) in
            [(number::REPLAY_THRESH, self.replay_threshold), (number::ETIMER_THRESH, self.timer_threshold)]
        {
            if let Some(threshold) = threshold {
                to.attribute(kind, |to| to.u32(threshold));
            }
        }
        write_mark_and_interface(self.mark, self.interface_id, to);
        for &unknown in &self.unknown {
            to.attribute(unknown, |_| {});
        }
    }
}

/// The attributes of a GETSA for all SAs: which of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressFilter {
    /// Those of a protocol; 0 for all.
    pub protocol: u8,
    /// XFRMA_ADDRESS_FILTER: those whose source and destination have these prefixes, of one family.
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

    /// No structure is before the attributes. Programs that send one send zeros, which end the attributes, as in Linux.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut filter = Self::default();
        for (kind, content) in attributes(bytes).map_while(Result::ok) {
            let reader = &mut Reader(content);
            match kind {
                number::PROTO => filter.protocol = reader.u8().map_err(|_| Error::Attribute(kind))?,
                number::ADDRESS_FILTER => {
                    filter.addresses = addresses(reader).map_err(|_| Error::Attribute(kind))?;
                }
                _ => {}
            }
        }
        Ok(filter)
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        if self.protocol != 0 {
            to.attribute(number::PROTO, |to| to.u8(self.protocol));
        }
        if let Some((source, destination)) = self.addresses {
            to.attribute(number::ADDRESS_FILTER, |to| {
                to.address(source.address);
                to.address(destination.address);
                to.u16(Family::of(source.address).number());
                to.u8(source.length);
                to.u8(destination.length);
            });
        }
    }
}

/// `struct xfrm_address_filter`. Without a family, as `ip xfrm state` sends it, it lets all addresses through.
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

/// NEWSADINFO: the number of SAs. In Linux the table grows; other servers may send any limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SadInfo {
    /// The number that the request has.
    pub flags: u32,
    /// SAs.
    pub count: u32,
    /// Buckets of the hash table.
    pub buckets: u32,
    /// Most buckets that it may have.
    pub most_buckets: u32,
}

impl SadInfo {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut info = Self { flags: reader.u32()?, ..Self::default() };
        for_each_attribute(reader.0, |kind, reader| {
            match kind {
                number::SAD_CNT => info.count = reader.u32()?,
                number::SAD_HINFO => (info.buckets, info.most_buckets) = (reader.u32()?, reader.u32()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(info)
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        to.u32(self.flags);
        to.attribute(number::SAD_CNT, |to| to.u32(self.count));
        to.attribute(number::SAD_HINFO, |to| {
            to.u32(self.buckets);
            to.u32(self.most_buckets);
        });
    }
}

/// NEWSPDINFO: how many policies there are; and as a request, from which lengths of prefixes on they are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpdInfo {
    /// The number that the request has.
    pub flags: u32,
    /// Policies in, out, forward, and the same three of sockets.
    pub counts: Option<[u32; 6]>,
    /// Buckets of the hash table, and most that it may have.
    pub buckets: Option<[u32; 2]>,
    /// Lengths of local and remote prefixes of IPv4.
    pub ipv4_threshold: Option<[u8; 2]>,
    /// Lengths of local and remote prefixes of IPv6.
    pub ipv6_threshold: Option<[u8; 2]>,
}

impl SpdInfo {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut info = Self { flags: reader.u32()?, ..Self::default() };
        for_each_attribute(reader.0, |kind, reader| {
            match kind {
                number::SPD_INFO => {
                    let mut counts = [0; 6];
                    for count in &mut counts {
                        *count = reader.u32()?;
                    }
                    info.counts = Some(counts);
                }
                number::SPD_HINFO => info.buckets = Some([reader.u32()?, reader.u32()?]),
                number::SPD_IPV4_HTHRESH => info.ipv4_threshold = Some([reader.u8()?, reader.u8()?]),
                number::SPD_IPV6_HTHRESH => info.ipv6_threshold = Some([reader.u8()?, reader.u8()?]),
                _ => {}
            }
            Ok(())
        })?;
        Ok(info)
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        let numbers = |to: &mut Datagram, kind, numbers: Option<&[u32]>| {
            if let Some(numbers) = numbers {
                to.attribute(kind, |to| numbers.iter().for_each(|&number| to.u32(number)));
            }
        };
        to.u32(self.flags);
        numbers(to, number::SPD_INFO, self.counts.as_ref().map(<[_; 6]>::as_slice));
        numbers(to, number::SPD_HINFO, self.buckets.as_ref().map(<[_; 2]>::as_slice));
        for (kind, threshold) in
            [(number::SPD_IPV4_HTHRESH, self.ipv4_threshold), (number::SPD_IPV6_HTHRESH, self.ipv6_threshold)]
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
    /// As it is: a request leaves it so.
    Unspecified,
    /// They are dropped.
    Block,
    /// They pass.
    Accept,
    /// A number that there is not, which Linux takes for [`Self::Unspecified`].
    Other(u8),
}

/// `struct xfrm_userpolicy_default`, of SETDEFAULT and GETDEFAULT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// Packets that come in.
    pub input: Verdict,
    /// Packets that are forwarded.
    pub forward: Verdict,
    /// Packets that go out.
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

/// Calls `parse` for each attribute. One that is too short is an error with its number.
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
