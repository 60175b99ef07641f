//! The parameters that both ends of an association share.

mod inbound;
mod outbound;

pub use inbound::{Inbound, open};
pub use outbound::{Outbound, seal};

use std::fmt;

use gantry_core::{Direction, Esp, Gantry, Process, Session, SessionParams};
use zeroize::Zeroizing;

use super::suite::{Suite, split_salt};
use crate::crypt::Keys;
use crate::ip::Mode;
use crate::whole_packet;
use crate::window::Window;

/// The parameters of an association, from IKE or an operator: one direction, under keys that no other association has.
pub struct Association {
    pub(super) spi: u32,
    pub(super) suite: Suite,
    key: Zeroizing<Vec<u8>>,
    integrity_key: Zeroizing<Vec<u8>>,
    pub(super) mode: Mode,
    pub(super) extended_numbers: bool,
    pub(super) window: u32,
    pub(super) last_number: u64,
}

/// The reason why an association cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The SPI is reserved (RFC 4303, 2.1).
    #[error("SPI {0} is reserved; use 256 or more")]
    Spi(u32),
    /// The window is empty or too large.
    #[error("window of {got} packets; allowed are 1 to {max}")]
    Window {
        /// The given size.
        got: u32,
        /// The largest size.
        max: u32,
    },
    /// A key or the integrity check value has a wrong length, or the suite takes no extended sequence numbers.
    #[error("the suite takes {0}")]
    Keys(&'static str),
    /// The kernel does not show every fork: a child process could then send packets with the same numbers as its parent
    /// ([`Process::current_if_unique`](gantry_core::Process::current_if_unique)).
    #[error("a forked child could reuse packet numbers undetected; Linux 4.14 or later is needed")]
    UndetectedFork,
    /// An error of a session.
    #[error(transparent)]
    Session(#[from] gantry_core::Error),
}

impl Association {
    /// Creates an association in tunnel mode, with sequence numbers of 32 bits and a window of 64 packets.
    pub fn new(spi: u32, suite: Suite, key: &[u8], integrity_key: &[u8]) -> Self {
        let (key, integrity_key) = (Zeroizing::new(key.to_vec()), Zeroizing::new(integrity_key.to_vec()));
        Self { spi, suite, key, integrity_key, mode: Mode::Tunnel, extended_numbers: false, window: 64, last_number: 0 }
    }

    /// Sets the mode: the data that ESP carries, and the headers that stay outside.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Uses sequence numbers of 64 bits, of which packets carry the lower half (RFC 4303, 2.2.1).
    #[must_use]
    pub fn extended_numbers(mut self) -> Self {
        self.extended_numbers = true;
        self
    }

    /// Sets the size of the anti-replay window, which ends at the highest number received. Older packets are refused. The smallest size in
    /// RFC 4303 is 32 (3.4.3), but this implementation takes any size from 1.
    #[must_use]
    pub fn window(mut self, packets: u32) -> Self {
        self.window = packets;
        self
    }

    /// Sets the last number used, to continue an earlier association with the same keys: the next packet has the next number. An inbound
    /// end takes this number as the highest received, and refuses all packets up to this number.
    #[must_use]
    pub fn last_number(mut self, number: u64) -> Self {
        self.last_number = number;
        self
    }

    /// Returns the sending end. Consumes the association, because two senders under one key would use the same nonces.
    ///
    /// # Errors
    /// Fails for keys that the suite does not accept, a reserved SPI, or a system that cannot tell a child process from its parent.
    pub fn outbound(self, gantry: &Gantry) -> Result<Outbound, ParameterError> {
        self.check_parameters()?;
        let process = Process::current_if_unique().ok_or(ParameterError::UndetectedFork)?;
        let (key, salt) = split_salt(self.suite, &self.key);
        let keys = self.suite.keys(gantry, Direction::Encrypt, key, &self.integrity_key, self.extended_numbers)?;
        let keys = self.with_whole_packets(gantry, Direction::Encrypt, keys);
        Ok(Outbound::new(&self, keys, salt, process))
    }

    /// Returns the receiving end.
    ///
    /// # Errors
    /// Fails for keys that the suite does not accept, a reserved SPI, or a window out of range.
    pub fn inbound(self, gantry: &Gantry) -> Result<Inbound, ParameterError> {
        self.check_parameters()?;
        if !(1..=Window::MAX_SIZE).contains(&self.window) {
            return Err(ParameterError::Window { got: self.window, max: Window::MAX_SIZE });
        }
        let (key, salt) = split_salt(self.suite, &self.key);
        let keys = self.suite.keys(gantry, Direction::Decrypt, key, &self.integrity_key, self.extended_numbers)?;
        let keys = self.with_whole_packets(gantry, Direction::Decrypt, keys);
        Ok(Inbound::new(&self, keys, salt))
    }

    /// Adds a session for whole packets to the keys, if a device offers the algorithm.
    fn with_whole_packets(&self, gantry: &Gantry, direction: Direction, keys: Keys) -> Keys {
        match self.whole_packet_session(gantry, direction) {
            Some(whole) => Keys::WholePacket { packet: whole, parts: Box::new(keys) },
            None => keys,
        }
    }

    fn whole_packet_session(&self, gantry: &Gantry, direction: Direction) -> Option<Session> {
        let algorithm = self.suite.whole_packet_algorithm(self.key.len(), self.extended_numbers)?;
        if !whole_packet::is_offered(gantry, algorithm) {
            return None;
        }
        let esp = Esp { spi: self.spi, extended: self.extended_numbers };
        let params = SessionParams::new(algorithm, &self.key).with_mac_key(&self.integrity_key).with_esp(esp);
        gantry.session(params.with_tag_len(self.suite.layout().icv_len).with_direction(direction)).ok()
    }

    fn check_parameters(&self) -> Result<(), ParameterError> {
        match self.suite.unmet_requirement(&self.key, &self.integrity_key, self.extended_numbers) {
            Some(takes) => Err(ParameterError::Keys(takes)),
            None if self.spi < 256 => Err(ParameterError::Spi(self.spi)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Association {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spi, suite, mode, extended_numbers, window, last_number, .. } = self;
        write!(
            f,
            "ESP {spi:#010x} {suite:?} {mode:?}, extended {extended_numbers}, window {window}, from {last_number}"
        )
    }
}
