pub(crate) mod attributes;

use std::net::IpAddr;

use zeroize::Zeroizing;

use crate::Error;
use crate::bytes::{Reader, Write, padded};
use crate::constants::attribute::SET_MARK;
use crate::family::Family;
use crate::netlink::{self, Datagram};
use crate::parts::{Counters, Limits, Mark, SELECTOR, Selector};

/// The identity of an SA: `struct xfrm_id` with its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaId {
    /// Where its packets go.
    pub destination: IpAddr,
    /// Security parameter index, 0 for none yet.
    pub spi: u32,
    /// Protocol of IP: 50 is ESP, 51 AH, 108 IPComp.
    pub protocol: u8,
}

impl SaId {
    /// The family of the SA's own addresses.
    pub const fn family(&self) -> Family {
        Family::of(self.destination)
    }
}

/// How packets are wrapped, `XFRM_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Behind the packet's own header of IP.
    Transport,
    /// In a packet of its own.
    Tunnel,
    /// Bound end-to-end tunnel.
    Beet,
    /// Another of Linux: route optimization (2), in trigger (3), IP-TFS (5); or a number that there is not.
    Other(u8),
}

impl Mode {
    pub(crate) const fn parse(number: u8) -> Self {
        match number {
            0 => Self::Transport,
            1 => Self::Tunnel,
            4 => Self::Beet,
            other => Self::Other(other),
        }
    }

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Transport => 0,
            Self::Tunnel => 1,
            Self::Beet => 4,
            Self::Other(number) => number,
        }
    }
}

/// A key. It is zeroized when it is dropped, and `Debug` shows its length only.
#[derive(Clone)]
pub struct Key {
    /// Bits of it; in the last byte, the rest does not count.
    bits: u32,
    bytes: Zeroizing<Vec<u8>>,
}

impl Key {
    /// Most bytes that fit into an attribute.
    pub const LONGEST: usize = 65535 - 4 - 64 - 4 - 4;

    /// A key of whole bytes.
    ///
    /// # Panics
    ///
    /// When it is longer than [`Key::LONGEST`].
    pub fn new(bytes: &[u8]) -> Self {
        assert!(bytes.len() <= Self::LONGEST, "a key of {} bytes exceeds the size of an attribute", bytes.len());
        Self { bits: 8 * bytes.len() as u32, bytes: Zeroizing::new(bytes.to_vec()) }
    }

    /// Reads `bits` bits from the front of `bytes`, and ignores the rest, as Linux does.
    pub(crate) fn parse(bits: u32, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..bits.div_ceil(8) as usize).filter(|bytes| bytes.len() <= Self::LONGEST)?;
        Some(Self { bits, bytes: Zeroizing::new(bytes.to_vec()) })
    }

    /// Its length in bits.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// The key. AEADs and counter mode have their salt at the end (RFC 4106 and others).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({} bits)", self.bits)
    }
}

impl PartialEq for Key {
    /// Compares all bytes, wherever the first difference is.
    fn eq(&self, other: &Self) -> bool {
        let differ = self.bytes.iter().zip(&*other.bytes).fold(0, |differ, (a, b)| differ | (a ^ b));
        self.bits == other.bits && differ == 0
    }
}

impl Eq for Key {}

/// `struct xfrm_algo`: a cipher, or a compression, by Linux' name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCipher {
    /// The name, at most 63 bytes; [`CIPHERS`](crate::CIPHERS) has those of ciphers.
    pub name: String,
    /// Its key, empty for none.
    pub key: Key,
}

/// `struct xfrm_algo_auth`: an authentication, by Linux' name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAuthentication {
    /// The name, at most 63 bytes, of [`AUTHENTICATIONS`](crate::AUTHENTICATIONS).
    pub name: String,
    /// Its key.
    pub key: Key,
    /// Bits of the tag. `None` is an attribute without it (XFRMA_ALG_AUTH); then the algorithm has its default.
    pub icv_bits: Option<u32>,
}

/// `struct xfrm_algo_aead`: an AEAD, by Linux' name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAead {
    /// The name, at most 63 bytes, of [`AEADS`](crate::AEADS).
    pub name: String,
    /// Its key, with the salt behind it.
    pub key: Key,
    /// Bits of the tag.
    pub icv_bits: u32,
}

/// `struct xfrm_encap_tmpl`: UDP around ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// [`ENCAP_ESPINUDP`](crate::constants::ENCAP_ESPINUDP), or another that Linux has.
    pub kind: u16,
    /// Port that packets come from.
    pub source_port: u16,
    /// Port that packets go to.
    pub destination_port: u16,
    /// The original address of the peer, of the SA's family.
    pub original: IpAddr,
}

/// `struct xfrm_replay_state`: 32-bit numbers and a window of up to 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The last number that was sent.
    pub output: u32,
    /// The highest number that has come.
    pub input: u32,
    /// Which numbers have come: bit n is `input - n`.
    pub bitmap: u32,
}

/// `struct xfrm_replay_state_esn`: 64-bit numbers, or a larger window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayEsn {
    /// The last number that was sent. Its upper half is 0 without the flag ESN.
    pub output: u64,
    /// The highest number that has come. Its upper half is 0 without the flag ESN.
    pub input: u64,
    /// Numbers in the window, at most 32 times the bitmap's length.
    pub window: u32,
    /// Which numbers have come; at most [`ReplayEsn::LONGEST`] words.
    pub bitmap: Vec<u32>,
}

impl ReplayEsn {
    /// Most words of a bitmap: XFRMA_REPLAY_ESN_MAX, 4096, divided by 4 and 8 as in `net/xfrm/xfrm_user.c`.
    pub const LONGEST: usize = 4096 / 4 / 8;
}

/// `struct xfrm_user_offload`: a device that would do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offload {
    /// Index of the interface.
    pub interface: i32,
    /// `XFRM_OFFLOAD_*`: 2 for packets that come in, 4 for whole packets.
    pub flags: u8,
}

/// `struct xfrm_stats`: packets that were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets older than the window.
    pub replay_window: u32,
    /// Packets that had come before.
    pub replay: u32,
    /// Packets with a wrong tag.
    pub integrity_failed: u32,
}

/// `struct xfrm_usersa_info` and its attributes: a security association. An attribute that is absent is `None`, or 0 where
/// 0 says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sa {
    /// Its name.
    pub id: SaId,
    /// Where its packets come from, of the family of [`SaId::destination`].
    pub source: IpAddr,
    /// The packets that it is for.
    pub selector: Selector,
    /// When it expires.
    pub limits: Limits,
    /// The counters of its packets.
    pub counters: Counters,
    /// The counters of refused packets.
    pub stats: Stats,
    /// The number of the ACQUIRE that it answers, or 0.
    pub sequence: u32,
    /// The number by which policies name it, or 0.
    pub reqid: u32,
    /// How packets are wrapped.
    pub mode: Mode,
    /// Numbers in the window, 0 to 32; with [`Self::replay_esn`], that has it.
    pub replay_window: u8,
    /// Bits of [`constants::state`](crate::constants::state).
    pub flags: u8,
    /// Bits of [`constants::extra`](crate::constants::extra).
    pub extra_flags: u32,
    /// The cipher.
    pub cipher: Option<NamedCipher>,
    /// The authentication.
    pub authentication: Option<NamedAuthentication>,
    /// Both in one.
    pub aead: Option<NamedAead>,
    /// The compression.
    pub compression: Option<NamedCipher>,
    /// UDP around it.
    pub encapsulation: Option<Encapsulation>,
    /// Numbers of packets.
    pub replay: Option<Replay>,
    /// Numbers of packets, 64 bits, or of a larger window.
    pub replay_esn: Option<ReplayEsn>,
    /// Packets after which an asynchronous event is sent.
    pub replay_threshold: Option<u32>,
    /// Time after which an asynchronous event is sent, in 100 ms.
    pub timer_threshold: Option<u32>,
    /// The mark of packets that may use it.
    pub mark: Option<Mark>,
    /// The mark that its packets get.
    pub set_mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// Length to which packets are padded (traffic flow confidentiality), in bytes, or 0.
    pub tfc_padding: u32,
    /// Care-of address of Mobile IPv6.
    pub care_of: Option<IpAddr>,
    /// A device that would do the work.
    pub offload: Option<Offload>,
    /// Seconds after which a mapping may change again, of an SA whose packets come in.
    pub mapping_threshold: Option<u32>,
    /// XFRMA_SA_DIR: 1 for packets that come in, 2 for those that go out.
    pub direction: Option<u8>,
    /// When it was used last, in seconds since 1970.
    pub last_used: Option<u64>,
    /// Numbers of attributes that this crate does not know, ascending.
    pub unknown: Vec<u16>,
}

/// The presence of an SA's keys in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keys {
    /// They are written.
    Shown,
    /// Zeros of the same length are written, as by Linux in lockdown.
    Zeros,
}

/// Bytes of `struct xfrm_usersa_info`.
pub(crate) const INFO: usize = padded(217);
/// Bytes of `struct xfrm_usersa_id`.
pub(crate) const ID: usize = 24;
/// Bytes of `struct xfrm_id`.
pub(crate) const XFRM_ID: usize = 24;

impl Sa {
    /// A transport-mode SA for all packets of the addresses' family, without keys and limits.
    pub fn new(id: SaId, source: IpAddr) -> Self {
        Self {
            id,
            source,
            selector: Selector::any(id.family()),
            limits: Limits::NONE,
            counters: Counters::default(),
            stats: Stats::default(),
            sequence: 0,
            reqid: 0,
            mode: Mode::Transport,
            replay_window: 0,
            flags: 0,
            extra_flags: 0,
            cipher: None,
            authentication: None,
            aead: None,
            compression: None,
            encapsulation: None,
            replay: None,
            replay_esn: None,
            replay_threshold: None,
            timer_threshold: None,
            mark: None,
            set_mark: None,
            interface_id: 0,
            tfc_padding: 0,
            care_of: None,
            offload: None,
            mapping_threshold: None,
            direction: None,
            last_used: None,
            unknown: Vec::new(),
        }
    }

    /// Returns whether its flags have `flag`, one of [`constants::state`](crate::constants::state).
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// `struct xfrm_usersa_info`, whose padding may be missing.
    pub(crate) fn parse_info(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let mut later = *reader;
        later.skip(INFO_FAMILY)?;
        let family = Family::parse(later.u16()?)?;

        let selector = Selector::parse(reader, Some(family))?;
        let destination = reader.address()?.to_ip(family);
        let (spi, protocol) = (reader.be32()?, reader.u8()?);
        reader.skip(3)?;
        let source = reader.address()?.to_ip(family);
        let id = SaId { destination, spi, protocol };
        let mut sa = Self::new(id, source);
        sa.selector = selector;
        sa.limits = Limits::parse(reader)?;
        sa.counters = Counters::parse(reader)?;
        sa.stats = Stats { replay_window: reader.u32()?, replay: reader.u32()?, integrity_failed: reader.u32()? };
        sa.sequence = reader.u32()?;
        sa.reqid = reader.u32()?;
        reader.skip(2)?;
        sa.mode = Mode::parse(reader.u8()?);
        sa.replay_window = reader.u8()?;
        sa.flags = reader.u8()?;
        reader.skip(INFO - 217)?;
        Ok(sa)
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut sa = Self::parse_info(&mut reader)?;
        sa.parse_attributes(reader.0)?;
        Ok(sa)
    }

    pub(crate) fn parse_attributes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut marked = false;
        for attribute in netlink::attributes(bytes) {
            let (number, content) = attribute?;
            attributes::parse(self, number, content)?;
            marked |= number == SET_MARK;
        }
        // A mask alone means nothing to Linux.
        self.set_mark = self.set_mark.filter(|_| marked);
        self.unknown.sort_unstable();
        self.unknown.dedup();
        Ok(())
    }

    pub(crate) fn write_info(&self, to: &mut Datagram) {
        self.selector.write(to);
        to.address(self.id.destination);
        to.be32(self.id.spi);
        to.u8(self.id.protocol);
        to.zeros(3);
        to.address(self.source);
        self.limits.write(to);
        self.counters.write(to);
        for value in
            [self.stats.replay_window, self.stats.replay, self.stats.integrity_failed, self.sequence, self.reqid]
        {
            to.u32(value);
        }
        to.u16(self.id.family().number());
        to.u8(self.mode.number());
        to.u8(self.replay_window);
        to.u8(self.flags);
        to.zeros(INFO - 217);
    }
}

/// Where `family` lies in `struct xfrm_usersa_info`.
const INFO_FAMILY: usize = SELECTOR + XFRM_ID + 16 + 64 + 32 + 12 + 4 + 4;

/// `struct xfrm_usersa_id` and its attributes: an SA that is asked for, or to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaRef {
    /// Its name.
    pub id: SaId,
    /// Where its packets come from, of the family of [`SaId::destination`]; for protocols without SPIs.
    pub source: Option<IpAddr>,
    /// The mark of the packets.
    pub mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// Numbers of attributes that this crate does not know, ascending.
    pub unknown: Vec<u16>,
}

impl SaId {
    /// `struct xfrm_usersa_id`.
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let destination = reader.address()?;
        let spi = reader.be32()?;
        let family = Family::parse(reader.u16()?)?;
        let protocol = reader.u8()?;
        reader.skip(1)?;
        Ok(Self { destination: destination.to_ip(family), spi, protocol })
    }

    pub(crate) fn write(&self, to: &mut Datagram) {
        to.address(self.destination);
        to.be32(self.spi);
        to.u16(self.family().number());
        to.u8(self.protocol);
        to.u8(0);
    }
}

/// `struct xfrm_userspi_info`: an SA that is to get an SPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocSpi {
    /// The SA, whose SPI is 0.
    pub sa: Sa,
    /// The lowest SPI that it may get.
    pub lowest: u32,
    /// The highest.
    pub highest: u32,
}

impl AllocSpi {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(body);
        let mut sa = Sa::parse_info(&mut reader)?;
        let (lowest, highest) = (reader.u32()?, reader.u32()?);
        sa.parse_attributes(reader.0)?;
        Ok(Self { sa, lowest, highest })
    }
}
