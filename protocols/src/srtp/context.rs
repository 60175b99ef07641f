//! What both ends of a context agree on.

use std::fmt;

use gantry_core::{Direction, Gantry, Process};
use zeroize::Zeroizing;

use super::Kind;
use super::channel::Channel;
use super::inbound::Inbound;
use super::keys::SessionKeys;
use super::outbound::Outbound;
use super::streams::{Start, Streams};
use super::suite::Suite;

/// What a cryptographic context is made from: one direction, under a master key that no other one has.
pub struct Context {
    suite: Suite,
    key: Zeroizing<Vec<u8>>,
    salt: Zeroizing<Vec<u8>>,
    mki: Vec<u8>,
    window: u32,
    streams: usize,
    encrypts_control: bool,
    /// How streams begin that do not begin with 0, by SSRC.
    starts: Vec<(u32, Start)>,
    control_starts: Vec<(u32, Start)>,
}

/// Why there is no such context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The length of the master key.
    #[error("a master key of {got} bytes; the suite takes {takes}")]
    Key {
        /// Bytes that were given.
        got: usize,
        /// Bytes that the suite takes.
        takes: usize,
    },
    /// The length of the master salt.
    #[error("a master salt of {got} bytes; the suite takes {takes}")]
    Salt {
        /// Bytes that were given.
        got: usize,
        /// Bytes that the suite takes.
        takes: usize,
    },
    /// The window is empty, or larger than one can be.
    #[error("a window of {got}; it is 1 to {most}")]
    Window {
        /// What was given.
        got: u32,
        /// The most that it can be.
        most: u32,
    },
    /// A last number that no packet has.
    #[error("a last number of {got}; numbers end at {end}")]
    Number {
        /// What was given.
        got: u64,
        /// The highest number.
        end: u64,
    },
    /// The system does not tell every child of the process from it, and both would use the same numbers
    /// ([`Process::certain`](gantry_core::Process::certain)).
    #[error("a child of this process would use the same numbers unseen: that is known with Linux 4.14 and later")]
    Children,
    /// What a session says.
    #[error(transparent)]
    Session(#[from] gantry_core::Error),
}

/// The largest window: half of the sequence numbers, because packets that are further behind are taken for ones to come.
const LARGEST_WINDOW: u32 = 1 << 15;

impl Context {
    /// A context with windows of 64 packets, 4,096 streams at most, and no MKI.
    pub fn new(suite: Suite, master_key: &[u8], master_salt: &[u8]) -> Self {
        Self {
            suite,
            key: Zeroizing::new(master_key.to_vec()),
            salt: Zeroizing::new(master_salt.to_vec()),
            mki: Vec::new(),
            window: 64,
            streams: 4096,
            encrypts_control: true,
            starts: Vec::new(),
            control_starts: Vec::new(),
        }
    }

    /// By how many packets one may be behind another of its stream: that overtook it on the way or, for the end that sends, was sealed
    /// before it. RFC 3711 has 64 at least.
    #[must_use]
    pub fn window(mut self, packets: u32) -> Self {
        self.window = packets;
        self
    }

    /// The most streams of each protocol. Packets of further ones are refused.
    #[must_use]
    pub fn streams(mut self, most: usize) -> Self {
        self.streams = most;
        self
    }

    /// The master key identifier, which every packet then has (RFC 3711, 3.1).
    #[must_use]
    pub fn mki(mut self, identifier: &[u8]) -> Self {
        self.mki = identifier.to_vec();
        self
    }

    /// Packets of RTCP are sent authenticated and not encrypted. Both are received.
    #[must_use]
    pub fn unencrypted_control(mut self) -> Self {
        self.encrypts_control = false;
        self
    }

    /// The last number of a stream of RTP that goes on from elsewhere: its rollover counter, and 16 bits of sequence number behind it.
    /// No packet up to this number is sealed or opened: after a handover, each could be the second with its number.
    #[must_use]
    pub fn last_number(mut self, ssrc: u32, number: u64) -> Self {
        self.starts.push((ssrc, Start::After(number)));
        self
    }

    /// The rollover counter of the next packet of a stream of RTP, for an end that joins late (RFC 3711, 3.3.1). It is 0 for every other
    /// stream. A sender seals no number before that of its first packet.
    #[must_use]
    pub fn rollover_counter(mut self, ssrc: u32, counter: u32) -> Self {
        self.starts.push((ssrc, Start::Counter(counter)));
        self
    }

    /// The last number of the packets of RTCP from a source, which go on from elsewhere. No packet up to this number is opened.
    #[must_use]
    pub fn last_control_number(mut self, ssrc: u32, number: u32) -> Self {
        self.control_starts.push((ssrc, Start::After(number.into())));
        self
    }

    /// The end that sends. It takes the context, because two that send under one master key would use the same numbers.
    ///
    /// # Errors
    /// A key or a salt that the suite does not take, a window or a last number that cannot be, or a system that does not tell children
    /// from their parents.
    pub fn outbound(self, gantry: &Gantry) -> Result<Outbound, Unfit> {
        let process = Process::certain().ok_or(Unfit::Children)?;
        let [media, control] = self.channels(gantry, Direction::Encrypt)?;
        Ok(Outbound::new(self.suite, media, control, self.encrypts_control, process))
    }

    /// The end that receives.
    ///
    /// # Errors
    /// A key or a salt that the suite does not take, or a window or a last number that cannot be.
    pub fn inbound(self, gantry: &Gantry) -> Result<Inbound, Unfit> {
        let [media, control] = self.channels(gantry, Direction::Decrypt)?;
        Ok(Inbound::new(self.suite, media, control))
    }

    fn channels(&self, gantry: &Gantry, direction: Direction) -> Result<[Channel; 2], Unfit> {
        let Self { suite, key, salt, mki, window, streams, .. } = self;
        let row = suite.row();
        if key.len() != row.key {
            return Err(Unfit::Key { got: key.len(), takes: row.key });
        }
        if salt.len() != row.salt {
            return Err(Unfit::Salt { got: salt.len(), takes: row.salt });
        }
        if !(1..=LARGEST_WINDOW).contains(window) {
            return Err(Unfit::Window { got: *window, most: LARGEST_WINDOW });
        }
        let channel = |kind: Kind, starts: &[(u32, Start)]| {
            let end = kind.end();
            for (_, start) in starts {
                if let Start::After(got) = *start
                    && got > end
                {
                    return Err(Unfit::Number { got, end });
                }
            }
            let derived = SessionKeys::derive(gantry, *suite, kind, key, salt)?;
            let keys = derived.sessions(gantry, *suite, kind, direction)?;
            Ok(Channel::new(kind, keys, &derived.salt, mki, Streams::new(kind, *window, *streams, starts)))
        };
        Ok([channel(Kind::Media, &self.starts)?, channel(Kind::Control, &self.control_starts)?])
    }
}

impl fmt::Debug for Context {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, window, streams, mki, .. } = self;
        write!(f, "SRTP {suite:?}, window {window}, {streams} streams at most, {} bytes of MKI", mki.len())
    }
}
