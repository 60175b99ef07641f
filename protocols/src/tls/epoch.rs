//! The parameters that both ends share between two key changes.

mod inbound;
mod outbound;
mod protection;

pub use inbound::{Inbound, open};
pub use outbound::{Outbound, seal};

use std::fmt;

use gantry_core::{Direction, Gantry, Process};
use zeroize::Zeroizing;

use self::protection::Protection;
use super::record::MAX_CONTENT;
use super::suite::Suite;

/// The keys of one direction of a connection, until the next key change.
pub struct Epoch {
    suite: Suite,
    key: Zeroizing<Vec<u8>>,
    iv: Zeroizing<Vec<u8>>,
    mac_key: Zeroizing<Vec<u8>>,
    pub(super) number: u64,
    pub(super) pad_to: usize,
}

/// The reason why the keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A key, IV or MAC key is unsuitable.
    #[error("the suite takes {0}")]
    Keys(&'static str),
    /// The padding is out of range: TLS 1.3 can pad to a multiple of 1 to 2^14 bytes, and TLS 1.2 cannot pad.
    #[error("padding to a multiple of {0} bytes; TLS 1.3 allows 1 to {MAX_CONTENT}, and TLS 1.2 only 1")]
    Padding(usize),
    /// The connection has failed, so it cannot get new keys.
    #[error("the connection has failed")]
    Broken,
    /// The system cannot tell every child process from its parent, and both would use the same numbers
    /// ([`Process::current_if_unique`](gantry_core::Process::current_if_unique)).
    #[error("a forked child could reuse packet numbers undetected; Linux 4.14 or later is needed")]
    UndetectedFork,
    /// An error of a session.
    #[error(transparent)]
    Session(#[from] gantry_core::Error),
}

impl Epoch {
    /// Creates keys whose first record has the number 0. For an AEAD, `iv` is the key schedule's IV (TLS 1.2: the implicit part). For
    /// AES-CBC it is empty.
    pub fn new(suite: Suite, key: &[u8], iv: &[u8]) -> Self {
        let [key, iv, mac_key] = [key, iv, &[]].map(|bytes| Zeroizing::new(bytes.to_vec()));
        Self { suite, key, iv, mac_key, number: 0, pad_to: 1 }
    }

    /// Sets the MAC key, for AES-CBC.
    #[must_use]
    pub fn mac_key(mut self, key: &[u8]) -> Self {
        self.mac_key = Zeroizing::new(key.to_vec());
        self
    }

    /// Sets the number of the next record, for keys that an earlier end has used.
    #[must_use]
    pub fn number(mut self, number: u64) -> Self {
        self.number = number;
        self
    }

    /// Pads the content and the type of each record with zeros to a multiple of `bytes` bytes (RFC 8446, 5.4).
    #[must_use]
    pub fn pad_to(mut self, bytes: usize) -> Self {
        self.pad_to = bytes;
        self
    }

    /// Returns the sending end. Consumes the keys, because two senders under the same keys would use the same nonces.
    ///
    /// # Errors
    /// Fails for keys or padding that the suite does not accept, or a system that cannot tell a child process from its parent.
    pub fn outbound(self, gantry: &Gantry) -> Result<Outbound, ParameterError> {
        let max_padding = if self.suite.layout().is_13 { MAX_CONTENT } else { 1 };
        if !(1..=max_padding).contains(&self.pad_to) {
            return Err(ParameterError::Padding(self.pad_to));
        }
        let process = Process::current_if_unique().ok_or(ParameterError::UndetectedFork)?;
        let protection = self.protection(gantry, Direction::Encrypt)?;
        Ok(Outbound::new(&self, protection, process))
    }

    /// Returns the receiving end.
    ///
    /// # Errors
    /// Fails for keys that the suite does not accept.
    pub fn inbound(self, gantry: &Gantry) -> Result<Inbound, ParameterError> {
        let protection = self.protection(gantry, Direction::Decrypt)?;
        Ok(Inbound::new(&self, protection))
    }

    fn protection(&self, gantry: &Gantry, direction: Direction) -> Result<Protection, ParameterError> {
        let Self { suite, key, iv, mac_key, .. } = self;
        match suite.unmet_requirement(key, iv, mac_key) {
            Some(takes) => Err(ParameterError::Keys(takes)),
            None => Ok(Protection::new(*suite, suite.keys(gantry, direction, key, mac_key)?, iv)),
        }
    }
}

impl fmt::Debug for Epoch {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, number, pad_to, .. } = self;
        write!(f, "TLS {suite:?}, from {number}, padded to {pad_to}")
    }
}
