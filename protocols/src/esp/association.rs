//! What both ends of an association agree on.

use std::fmt;

use gantry_core::{Direction, Esp, Gantry, Process, Session, SessionParams};
use zeroize::Zeroizing;

use super::inbound::Inbound;
use super::outbound::Outbound;
use super::suite::{Suite, salted};
use crate::crypt::Keys;
use crate::ip::Mode;
use crate::whole;
use crate::window::Window;

/// What an association is made from, as IKE or an operator says: one direction, under keys that no other one has.
pub struct Association {
    pub(super) spi: u32,
    pub(super) suite: Suite,
    key: Zeroizing<Vec<u8>>,
    integrity_key: Zeroizing<Vec<u8>>,
    pub(super) mode: Mode,
    pub(super) extended: bool,
    pub(super) window: u32,
    pub(super) last: u64,
}

/// Why there is no such association.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The SPI is reserved (RFC 4303, 2.1).
    #[error("an SPI of {0}; those below 256 are reserved")]
    Spi(u32),
    /// The window is empty, or larger than one can be.
    #[error("a window of {got}; it is 1 to {most}")]
    Window {
        /// What was given.
        got: u32,
        /// The most that it can be.
        most: u32,
    },
    /// Something of the keys.
    #[error("the suite takes {0}")]
    Keys(&'static str),
    /// The system does not tell every child of the process from it, and both would use the same numbers
    /// ([`Process::certain`](gantry_core::Process::certain)).
    #[error("a child of this process would use the same numbers unseen: that is known with Linux 4.14 and later")]
    Children,
    /// What a session says.
    #[error(transparent)]
    Session(#[from] gantry_core::Error),
}

impl Association {
    /// An association in tunnel mode, with sequence numbers of 32 bits and a window of 64 packets.
    pub fn new(spi: u32, suite: Suite, key: &[u8], integrity_key: &[u8]) -> Self {
        let (key, integrity_key) = (Zeroizing::new(key.to_vec()), Zeroizing::new(integrity_key.to_vec()));
        Self { spi, suite, key, integrity_key, mode: Mode::Tunnel, extended: false, window: 64, last: 0 }
    }

    /// What is within ESP, and what around it.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sequence numbers of 64 bits, of which packets carry the lower half (RFC 4303, 2.2.1).
    #[must_use]
    pub fn extended_numbers(mut self) -> Self {
        self.extended = true;
        self
    }

    /// By how many packets one may be behind another that overtook it. Some implementations take 32 at least.
    #[must_use]
    pub fn window(mut self, packets: u32) -> Self {
        self.window = packets;
        self
    }

    /// The last number that was used, of an association that goes on from elsewhere: the next packet has the next one. For
    /// an inbound one it is the highest that has come, and no packet before it is taken any more.
    #[must_use]
    pub fn last_number(mut self, number: u64) -> Self {
        self.last = number;
        self
    }

    /// The end that sends. It takes the association, because two that send under one key would use the same nonces.
    ///
    /// # Errors
    /// Keys that the suite does not take, a reserved SPI, or a system that does not tell children from their parents.
    pub fn outbound(self, gantry: &Gantry) -> Result<Outbound, Unfit> {
        self.check()?;
        let process = Process::certain().ok_or(Unfit::Children)?;
        let (key, salt) = salted(self.suite, &self.key);
        let keys = self.suite.keys(gantry, Direction::Encrypt, key, &self.integrity_key, self.extended)?;
        let keys = self.or_whole(gantry, Direction::Encrypt, keys);
        Ok(Outbound::new(&self, keys, salt, process))
    }

    /// The end that receives.
    ///
    /// # Errors
    /// Keys that the suite does not take, a reserved SPI, or a window that cannot be.
    pub fn inbound(self, gantry: &Gantry) -> Result<Inbound, Unfit> {
        self.check()?;
        if !(1..=Window::MOST).contains(&self.window) {
            return Err(Unfit::Window { got: self.window, most: Window::MOST });
        }
        let (key, salt) = salted(self.suite, &self.key);
        let keys = self.suite.keys(gantry, Direction::Decrypt, key, &self.integrity_key, self.extended)?;
        let keys = self.or_whole(gantry, Direction::Decrypt, keys);
        Ok(Inbound::new(&self, keys, salt))
    }

    /// The keys, and beside them a session of whole packets where a device offers them.
    fn or_whole(&self, gantry: &Gantry, direction: Direction, keys: Keys) -> Keys {
        match self.whole(gantry, direction) {
            Some(whole) => Keys::Whole { whole, parts: Box::new(keys) },
            None => keys,
        }
    }

    fn whole(&self, gantry: &Gantry, direction: Direction) -> Option<Session> {
        let algorithm = self.suite.whole(self.key.len(), self.extended)?;
        if !whole::is_there(gantry, algorithm) {
            return None;
        }
        let esp = Esp { spi: self.spi, extended: self.extended };
        let params = SessionParams::new(algorithm, &self.key).mac_key(&self.integrity_key).esp(esp);
        gantry.session(params.tag_len(self.suite.layout().icv).direction(direction)).ok()
    }

    fn check(&self) -> Result<(), Unfit> {
        match self.suite.misfit(&self.key, &self.integrity_key) {
            Some(takes) => Err(Unfit::Keys(takes)),
            None if self.spi < 256 => Err(Unfit::Spi(self.spi)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Association {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spi, suite, mode, extended, window, last, .. } = self;
        write!(f, "ESP {spi:#010x} {suite:?} {mode:?}, extended {extended}, window {window}, from {last}")
    }
}
