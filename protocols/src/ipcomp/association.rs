//! The parameters that both ends of an association share.

mod inbound;
mod outbound;

pub use inbound::{Inbound, decompress};
pub use outbound::{Outbound, compress};

use gantry_core::{Algorithm, Session};

use crate::ip::Mode;

/// The parameters of an association, from IKE or an operator: one direction, and how its packets are compressed.
#[derive(Clone, Debug)]
pub struct Association {
    pub(super) cpi: u16,
    pub(super) session: Session,
    pub(super) mode: Mode,
    pub(super) threshold: usize,
}

/// The reason why an association cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The CPI is reserved, or stands for another algorithm (RFC 3173, 3.3).
    #[error("CPI {0} is reserved; use 256 or more, or 2 for DEFLATE without negotiation")]
    Cpi(u16),
    /// The session's algorithm is not DEFLATE.
    #[error("a session of {0}; IPComp needs one of deflate")]
    Algorithm(Algorithm),
}

impl Association {
    /// The CPI of DEFLATE without negotiation.
    const WELL_KNOWN_CPI: u16 = 2;

    /// Creates an association in tunnel mode, under the CPI that the receiver chose. Payloads below 90 bytes are not compressed.
    ///
    /// The session's algorithm is [`Algorithm::Deflate`], and its level is the level of compression. Associations may share a session.
    pub fn new(cpi: u16, session: &Session) -> Self {
        Self { cpi, session: session.clone(), mode: Mode::Tunnel, threshold: 90 }
    }

    /// Sets the mode: the data that IPComp carries, and the headers that stay outside.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the length, in bytes, of the shortest payload to compress. Short payloads are likely to grow (RFC 3173, 2.2).
    #[must_use]
    pub fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes;
        self
    }

    /// Returns the sending end.
    ///
    /// # Errors
    /// Fails for a reserved CPI, or a session of another algorithm.
    pub fn outbound(self) -> Result<Outbound, ParameterError> {
        self.check_parameters().map(|()| Outbound::new(self))
    }

    /// Returns the receiving end.
    ///
    /// # Errors
    /// Fails like [`outbound`](Self::outbound).
    pub fn inbound(self) -> Result<Inbound, ParameterError> {
        self.check_parameters().map(|()| Inbound::new(self))
    }

    fn check_parameters(&self) -> Result<(), ParameterError> {
        match self.session.params().algorithm() {
            Algorithm::Deflate if self.cpi < 256 && self.cpi != Self::WELL_KNOWN_CPI => {
                Err(ParameterError::Cpi(self.cpi))
            }
            Algorithm::Deflate => Ok(()),
            other => Err(ParameterError::Algorithm(other)),
        }
    }
}
