//! The parameters that both ends of a context share.

use std::fmt;

use gantry_core::{Direction, Gantry, Process};
use zeroize::Zeroizing;

use super::Protocol;
use super::channel::Channel;
use super::inbound::Inbound;
use super::keys::SessionKeys;
use super::outbound::Outbound;
use super::streams::{StreamStart, Streams};
use super::suite::Suite;

/// The parameters of a cryptographic context: one direction, under one master key. Senders that share a master key must have no SSRC in
/// common (RFC 3711, 9.1).
pub struct Context {
    suite: Suite,
    key: Zeroizing<Vec<u8>>,
    salt: Zeroizing<Vec<u8>>,
    mki: Vec<u8>,
    window: u32,
    streams: usize,
    encrypts_control: bool,
    /// The starts of RTP streams that do not begin with number 0, by SSRC.
    starts: Vec<(u32, StreamStart)>,
    control_starts: Vec<(u32, StreamStart)>,
}

/// The reason why a context cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The master key has a wrong length.
    #[error("the master key has {got} bytes; the suite takes {takes}")]
    Key {
        /// Length of the given key in bytes.
        got: usize,
        /// Bytes that the suite needs.
        takes: usize,
    },
    /// The master salt has a wrong length.
    #[error("the master salt has {got} bytes; the suite takes {takes}")]
    Salt {
        /// Length of the given salt in bytes.
        got: usize,
        /// Bytes that the suite needs.
        takes: usize,
    },
    /// The window is empty or too large.
    #[error("window of {got} packets; allowed are 1 to {max}")]
    Window {
        /// The given size.
        got: u32,
        /// The largest size.
        max: u32,
    },
    /// The last number is beyond the highest.
    #[error("the last number is {got}, but numbers end at {end}")]
    Number {
        /// The given number.
        got: u64,
        /// The highest number.
        end: u64,
    },
    /// The system cannot tell every child process from its parent, and both would use the same numbers
    /// ([`Process::current_if_unique`](gantry_core::Process::current_if_unique)).
    #[error("a forked child could reuse packet numbers undetected; Linux 4.14 or later is needed")]
    UndetectedFork,
    /// An error of a session.
    #[error(transparent)]
    Session(#[from] gantry_core::Error),
}

/// The largest window: half of the sequence numbers, because packets further behind count as future ones.
const MAX_WINDOW: u32 = 1 << 15;

impl Context {
    /// Creates a context with windows of 64 packets, at most 4,096 streams, and no MKI.
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

    /// Sets how far a packet may lag behind the highest number of its stream, when received or sealed. RFC 3711 requires at least 64.
    #[must_use]
    pub fn window(mut self, packets: u32) -> Self {
        self.window = packets;
        self
    }

    /// Sets the most streams of each protocol. Packets of further streams are refused.
    #[must_use]
    pub fn streams(mut self, max: usize) -> Self {
        self.streams = max;
        self
    }

    /// Sets the master key identifier, which every packet then has (RFC 3711, 3.1).
    #[must_use]
    pub fn mki(mut self, identifier: &[u8]) -> Self {
        self.mki = identifier.to_vec();
        self
    }

    /// Sends RTCP packets authenticated but not encrypted. Receiving ends accept both kinds.
    #[must_use]
    pub fn unencrypted_control(mut self) -> Self {
        self.encrypts_control = false;
        self
    }

    /// Sets the last number of an RTP stream, to continue after an earlier end with the same keys. The number is the rollover counter,
    /// followed by 16 bits of sequence number. No packet up to this number is sealed or opened, because the earlier end may have used it.
    #[must_use]
    pub fn last_number(mut self, ssrc: u32, number: u64) -> Self {
        self.starts.push((ssrc, StreamStart::After(number)));
        self
    }

    /// Sets the rollover counter of an RTP stream's next packet, for an end that joins late (RFC 3711, 3.3.1). Other streams begin with 0.
    /// A sender seals no number before the number of its first packet.
    #[must_use]
    pub fn rollover_counter(mut self, ssrc: u32, counter: u32) -> Self {
        self.starts.push((ssrc, StreamStart::RolloverCounter(counter)));
        self
    }

    /// Sets the last number of a source's RTCP packets, to continue after an earlier end with the same keys. No packet up to this number is
    /// opened.
    #[must_use]
    pub fn last_control_number(mut self, ssrc: u32, number: u32) -> Self {
        self.control_starts.push((ssrc, StreamStart::After(number.into())));
        self
    }

    /// Returns the sending end. Consumes the context, because a second sender could use the same numbers.
    ///
    /// # Errors
    /// Fails for a key or salt that the suite does not accept, or a window or last number out of range. Also fails if the system cannot
    /// tell a child process from its parent.
    pub fn outbound(self, gantry: &Gantry) -> Result<Outbound, ParameterError> {
        let process = Process::current_if_unique().ok_or(ParameterError::UndetectedFork)?;
        let [media, control] = self.channels(gantry, Direction::Encrypt)?;
        Ok(Outbound::new(self.suite, media, control, self.encrypts_control, process))
    }

    /// Returns the receiving end.
    ///
    /// # Errors
    /// Fails for a key or salt that the suite does not accept, or a window or last number out of range.
    pub fn inbound(self, gantry: &Gantry) -> Result<Inbound, ParameterError> {
        let [media, control] = self.channels(gantry, Direction::Decrypt)?;
        Ok(Inbound::new(self.suite, media, control))
    }

    fn channels(&self, gantry: &Gantry, direction: Direction) -> Result<[Channel; 2], ParameterError> {
        let Self { suite, key, salt, mki, window, streams, .. } = self;
        let parameters = suite.parameters();
        if key.len() != parameters.key_len {
            return Err(ParameterError::Key { got: key.len(), takes: parameters.key_len });
        }
        if salt.len() != parameters.salt_len {
            return Err(ParameterError::Salt { got: salt.len(), takes: parameters.salt_len });
        }
        if !(1..=MAX_WINDOW).contains(window) {
            return Err(ParameterError::Window { got: *window, max: MAX_WINDOW });
        }
        let channel = |protocol: Protocol, starts: &[(u32, StreamStart)]| {
            let max = protocol.max_number();
            for (_, start) in starts {
                if let StreamStart::After(got) = *start
                    && got > max
                {
                    return Err(ParameterError::Number { got, end: max });
                }
            }
            let derived = SessionKeys::derive(gantry, *suite, protocol, key, salt)?;
            let keys = derived.sessions(gantry, *suite, protocol, direction)?;
            Ok(Channel::new(protocol, keys, &derived.salt, mki, Streams::new(protocol, *window, *streams, starts)))
        };
        Ok([channel(Protocol::Rtp, &self.starts)?, channel(Protocol::Rtcp, &self.control_starts)?])
    }
}

impl fmt::Debug for Context {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, window, streams, mki, .. } = self;
        write!(f, "SRTP {suite:?}, window {window}, {streams} streams at most, {} bytes of MKI", mki.len())
    }
}
