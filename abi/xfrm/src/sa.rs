//! Security associations.

pub(crate) mod attributes;

use std::net::IpAddr;

use zeroize::Zeroizing;

use crate::Error;
use crate::bytes::{Reader, Write, padded};
use crate::constants::attribute::SET_MARK;
use crate::family::Family;
use crate::netlink::{self, Datagram};
use crate::parts::{Counters, Limits, Mark, SELECTOR_SIZE, Selector};

/// The identity of an SA: `struct xfrm_id`, and the family of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaId {
    /// The destination of the SA's packets.
    pub destination: IpAddr,
    /// The security parameter index; 0 before it is allocated.
    pub spi: u32,
    /// The IP protocol: 50 is ESP, 51 AH, 108 IPComp.
    pub protocol: u8,
}

impl SaId {
    /// Returns the family of the SA's own addresses.
    pub const fn family(&self) -> Family {
        Family::of(self.destination)
    }
}

/// The mode of encapsulation, `XFRM_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The protocol's header follows the packet's own IP header.
    Transport,
    /// The whole packet is encapsulated, after an outer IP header.
    Tunnel,
    /// Bound end-to-end tunnel.
    Beet,
    /// Another mode of Linux: route optimization (2), in trigger (3), IP-TFS (5); or an invalid number.
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

/// A key. It is zeroized on drop, and `Debug` shows its length only.
#[derive(Clone)]
pub struct Key {
    /// The length in bits. Further bits of the last byte are ignored.
    bits: u32,
    bytes: Zeroizing<Vec<u8>>,
}

impl Key {
    /// Maximum length of a key in bytes. One attribute has its header (4 bytes), the name of the algorithm (64), the lengths of key and tag
    /// (4 each), and the key.
    pub const MAX_LEN: usize = 65535 - 4 - 64 - 4 - 4;

    /// Creates a key of whole bytes.
    ///
    /// # Panics
    ///
    /// If the key is longer than [`Key::MAX_LEN`].
    pub fn new(bytes: &[u8]) -> Self {
        assert!(bytes.len() <= Self::MAX_LEN, "a key of {} bytes exceeds the size of an attribute", bytes.len());
        Self { bits: 8 * bytes.len() as u32, bytes: Zeroizing::new(bytes.to_vec()) }
    }

    /// Reads `bits` bits from the front of `bytes`, and ignores the rest, as Linux does.
    pub(crate) fn parse(bits: u32, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..bits.div_ceil(8) as usize).filter(|bytes| bytes.len() <= Self::MAX_LEN)?;
        Some(Self { bits, bytes: Zeroizing::new(bytes.to_vec()) })
    }

    /// Returns the length in bits.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the key. Keys of AEADs and counter mode end with the salt (RFC 4106 and others).
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
    /// Compares all bytes, so that the time does not reveal the first difference.
    fn eq(&self, other: &Self) -> bool {
        let difference = self.bytes.iter().zip(&*other.bytes).fold(0, |difference, (a, b)| difference | (a ^ b));
        self.bits == other.bits && difference == 0
    }
}

impl Eq for Key {}

/// `struct xfrm_algo`: a cipher or a compression, by its name in Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAlgorithm {
    /// The name, at most 63 bytes; for a cipher, one of [`CIPHERS`](crate::CIPHERS).
    pub name: String,
    /// The key; empty if there is none.
    pub key: Key,
}

/// `struct xfrm_algo_auth`: an authentication, by its name in Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAuthentication {
    /// The name, at most 63 bytes, one of [`AUTHENTICATIONS`](crate::AUTHENTICATIONS).
    pub name: String,
    /// The key.
    pub key: Key,
    /// Bits of the tag. `None` stands for the algorithm's default, in an attribute without this field (XFRMA_ALG_AUTH).
    pub icv_bits: Option<u32>,
}

/// `struct xfrm_algo_aead`: an AEAD, by its name in Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAead {
    /// The name, at most 63 bytes, one of [`AEADS`](crate::AEADS).
    pub name: String,
    /// The key, followed by the salt.
    pub key: Key,
    /// Bits of the tag.
    pub icv_bits: u32,
}

/// `struct xfrm_encap_tmpl`: UDP around ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// [`ENCAP_ESPINUDP`](crate::constants::ENCAP_ESPINUDP), or another encapsulation of Linux.
    pub kind: u16,
    /// The source port of packets.
    pub source_port: u16,
    /// The destination port of packets.
    pub destination_port: u16,
    /// The original address of the peer, of the SA's family.
    pub original: IpAddr,
}

/// `struct xfrm_replay_state`: 32-bit packet numbers and a window of up to 32 packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The last number sent.
    pub output: u32,
    /// The highest number received.
    pub input: u32,
    /// The received numbers: bit n is `input - n`.
    pub bitmap: u32,
}

/// `struct xfrm_replay_state_esn`: 64-bit packet numbers, or a larger window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayEsn {
    /// The last number sent. Its upper half is 0 without the flag ESN.
    pub output: u64,
    /// The highest number received. Its upper half is 0 without the flag ESN.
    pub input: u64,
    /// The number of packets in the window, at most 32 times the bitmap's length.
    pub window: u32,
    /// The received numbers; at most [`ReplayEsn::MAX_BITMAP_WORDS`] words.
    pub bitmap: Vec<u32>,
}

impl ReplayEsn {
    /// Maximum number of words of a bitmap: XFRMA_REPLAY_ESN_MAX, 4096, divided by 4 and 8 as in `net/xfrm/xfrm_user.c`.
    pub const MAX_BITMAP_WORDS: usize = 4096 / 4 / 8;
}

/// `struct xfrm_user_offload`: offload to a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offload {
    /// Index of the interface.
    pub interface_index: i32,
    /// Bits `XFRM_OFFLOAD_*`: 1 for IPv6, 2 for incoming packets, 4 for whole packets.
    pub flags: u8,
}

/// `struct xfrm_stats`: counters of refused packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets older than the window.
    pub replay_window: u32,
    /// Packets received before.
    pub replay: u32,
    /// Packets with a wrong tag.
    pub integrity_failed: u32,
}

/// `struct xfrm_usersa_info` and its attributes: a security association. An absent attribute is `None`, or 0 if 0 has the
/// same meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sa {
    /// The SA's identity.
    pub id: SaId,
    /// The source of the SA's packets, of the family of [`SaId::destination`].
    pub source: IpAddr,
    /// The packets to which the SA applies.
    pub selector: Selector,
    /// The limits at which the SA expires.
    pub limits: Limits,
    /// The counters of the SA's packets.
    pub counters: Counters,
    /// The counters of refused packets.
    pub stats: Stats,
    /// The number of the ACQUIRE that the SA answers, or 0.
    pub sequence: u32,
    /// The number by which policies refer to the SA, or 0.
    pub reqid: u32,
    /// The mode of encapsulation.
    pub mode: Mode,
    /// The number of packets in the window, 0 to 32; ignored with [`Self::replay_esn`].
    pub replay_window: u8,
    /// Bits of [`constants::state`](crate::constants::state).
    pub flags: u8,
    /// Bits of [`constants::extra`](crate::constants::extra).
    pub extra_flags: u32,
    /// The cipher.
    pub cipher: Option<NamedAlgorithm>,
    /// The authentication.
    pub authentication: Option<NamedAuthentication>,
    /// Encryption and authentication in one algorithm.
    pub aead: Option<NamedAead>,
    /// The compression.
    pub compression: Option<NamedAlgorithm>,
    /// UDP around ESP.
    pub encapsulation: Option<Encapsulation>,
    /// The 32-bit replay state.
    pub replay: Option<Replay>,
    /// The replay state with 64-bit numbers or a larger window.
    pub replay_esn: Option<ReplayEsn>,
    /// The number of packets after which an asynchronous event is sent.
    pub replay_threshold: Option<u32>,
    /// The time after which an asynchronous event is sent, in units of 100 ms.
    pub timer_threshold: Option<u32>,
    /// The mark of packets that may use the SA.
    pub mark: Option<Mark>,
    /// The mark that the SA's packets get.
    pub set_mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// The length to which packets are padded (traffic flow confidentiality), in bytes, or 0.
    pub tfc_padding: u32,
    /// The care-of address of Mobile IPv6.
    pub care_of: Option<IpAddr>,
    /// Offload to a network device.
    pub offload: Option<Offload>,
    /// The time after which the mapping of an inbound SA may change again, in seconds.
    pub mapping_threshold: Option<u32>,
    /// XFRMA_SA_DIR: 1 for an inbound SA, 2 for an outbound one.
    pub direction: Option<u8>,
    /// The time of the last use, in seconds since 1970.
    pub last_used: Option<u64>,
    /// Numbers of attributes that this crate does not know, ascending. They are written without content.
    pub unknown: Vec<u16>,
}

/// The form of an SA's keys in a written message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyVisibility {
    /// Keys are written.
    Shown,
    /// Zeros of the same length are written, as by Linux in lockdown.
    Zeros,
}

/// Bytes of `struct xfrm_usersa_info`.
pub(crate) const INFO_SIZE: usize = padded(217);
/// Bytes of `struct xfrm_usersa_id`.
pub(crate) const ID_SIZE: usize = 24;
/// Bytes of `struct xfrm_id`.
pub(crate) const XFRM_ID: usize = 24;

impl Sa {
    /// Creates a transport-mode SA for all packets of the addresses' family, without keys and limits.
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

    /// Returns whether `flag`, one of [`constants::state`](crate::constants::state), is set.
    pub const fn has_flag(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Reads `struct xfrm_usersa_info`, including the padding at its end.
    pub(crate) fn parse_info(reader: &mut Reader<'_>) -> Result<Self, Error> {
        // The family follows the addresses, but is needed to convert them.
        let mut family_reader = *reader;
        family_reader.skip(INFO_FAMILY)?;
        let family = Family::parse(family_reader.u16()?)?;

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
        reader.skip(INFO_SIZE - 217)?;
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
        // Linux ignores a mask without a mark.
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
        to.zeros(INFO_SIZE - 217);
    }
}

/// The offset of `family` in `struct xfrm_usersa_info`. Before it are selector, ID, source, limits, counters, statistics, sequence number
/// and reqid.
const INFO_FAMILY: usize = SELECTOR_SIZE + XFRM_ID + 16 + 64 + 32 + 12 + 4 + 4;

/// `struct xfrm_usersa_id` and its attributes: an SA to return or to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaRef {
    /// The SA's identity.
    pub id: SaId,
    /// The source of the SA's packets, of the family of [`SaId::destination`]. It identifies SAs of protocols without SPIs.
    pub source: Option<IpAddr>,
    /// The mark of the packets.
    pub mark: Option<Mark>,
    /// The XFRM interface, or 0.
    pub interface_id: u32,
    /// Numbers of attributes that this crate does not know, ascending.
    pub unknown: Vec<u16>,
}

impl SaId {
    /// Reads `struct xfrm_usersa_id`.
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

/// `struct xfrm_userspi_info`: a request for an SPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocSpi {
    /// The SA, whose SPI is 0.
    pub sa: Sa,
    /// The lowest SPI allowed.
    pub lowest: u32,
    /// The highest SPI allowed.
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
