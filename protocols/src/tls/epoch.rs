//! What both ends agree on, from one change of keys to the next.

use std::fmt;

use gantry_core::{Direction, Gantry, Process};
use zeroize::Zeroizing;

use super::inbound::Inbound;
use super::outbound::Outbound;
use super::protection::Protection;
use super::record::MOST;
use super::suite::Suite;

/// The keys of one direction of a connection, with which its records are protected until it gets others.
pub struct Epoch {
    suite: Suite,
    key: Zeroizing<Vec<u8>>,
    iv: Zeroizing<Vec<u8>>,
    mac_key: Zeroizing<Vec<u8>>,
    pub(super) number: u64,
    pub(super) pad_to: usize,
}

/// Why there are no records under such keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Something of the keys.
    #[error("the suite takes {0}")]
    Keys(&'static str),
    /// Records cannot be padded so: only those of TLS 1.3 can be, and to a multiple of 1 to 2^14 bytes.
    #[error("padding to a multiple of {0} bytes; TLS 1.3 has 1 to {MOST}, and TLS 1.2 only 1")]
    Padding(usize),
    /// The connection has failed, so it gets no new keys.
    #[error("the connection has failed")]
    Broken,
    /// The system does not tell every child of the process from it, and both would use the same numbers
    /// ([`Process::certain`](gantry_core::Process::certain)).
    #[error("a child of this process would use the same numbers unseen: that is known with Linux 4.14 and later")]
    Children,
    /// What a session says.
    #[error(transparent)]
    Session(#[from] gantry_core::Error),
}

impl Epoch {
    /// Keys whose first record has the number 0. Of AEADs, `iv` is the IV that the key schedule gives (of TLS 1.2, the implicit part);
    /// of AES-CBC there is none.
    pub fn new(suite: Suite, key: &[u8], iv: &[u8]) -> Self {
        let [key, iv, mac_key] = [key, iv, &[]].map(|bytes| Zeroizing::new(bytes.to_vec()));
        Self { suite, key, iv, mac_key, number: 0, pad_to: 1 }
    }

    /// The key of the MAC, beside AES-CBC.
    #[must_use]
    pub fn mac_key(mut self, key: &[u8]) -> Self {
        self.mac_key = Zeroizing::new(key.to_vec());
        self
    }

    /// The number of the next record, of keys that somebody else has used before.
    #[must_use]
    pub fn number(mut self, number: u64) -> Self {
        self.number = number;
        self
    }

    /// Pads what is sealed with zeros to a multiple of so many bytes, with the type (RFC 8446, 5.4).
    #[must_use]
    pub fn pad_to(mut self, bytes: usize) -> Self {
        self.pad_to = bytes;
        self
    }

    /// The end that sends. It takes the keys, because two that send under the same would use the same nonces.
    ///
    /// # Errors
    /// Keys that the suite does not take, padding that it does not have, or a system that does not tell children from their parents.
    pub fn outbound(self, gantry: &Gantry) -> Result<Outbound, Unfit> {
        let most = if self.suite.layout().is_13 { MOST } else { 1 };
        if !(1..=most).contains(&self.pad_to) {
            return Err(Unfit::Padding(self.pad_to));
        }
        let process = Process::certain().ok_or(Unfit::Children)?;
        let protection = self.protection(gantry, Direction::Encrypt)?;
        Ok(Outbound::new(&self, protection, process))
    }

    /// The end that receives.
    ///
    /// # Errors
    /// Keys that the suite does not take.
    pub fn inbound(self, gantry: &Gantry) -> Result<Inbound, Unfit> {
        let protection = self.protection(gantry, Direction::Decrypt)?;
        Ok(Inbound::new(&self, protection))
    }

    fn protection(&self, gantry: &Gantry, direction: Direction) -> Result<Protection, Unfit> {
        let Self { suite, key, iv, mac_key, .. } = self;
        match suite.misfit(key, iv, mac_key) {
            Some(takes) => Err(Unfit::Keys(takes)),
            None => Ok(Protection::new(*suite, suite.keys(gantry, direction, key, mac_key)?, iv)),
        }
    }
}

impl fmt::Debug for Epoch {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { suite, number, pad_to, .. } = self;
        write!(f, "TLS {suite:?}, from {number}, padded to {pad_to}")
    }
}
