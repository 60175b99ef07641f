//! What both ends of an association agree on.

use gantry_core::{Algorithm, Session};

use super::inbound::Inbound;
use super::outbound::Outbound;
use crate::ip::Mode;

/// What an association is made from, as IKE or an operator says: one direction, and how its packets are compressed.
#[derive(Clone, Debug)]
pub struct Association {
    pub(super) cpi: u16,
    pub(super) session: Session,
    pub(super) mode: Mode,
    pub(super) threshold: usize,
}

/// Why there is no such association.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The CPI is reserved, or that of another algorithm (RFC 3173, 3.3).
    #[error("a CPI of {0}; those below 256 are reserved, but for 2, which is DEFLATE without negotiation")]
    Cpi(u16),
    /// The session has another algorithm.
    #[error("a session of {0}; IPComp takes one of deflate")]
    Algorithm(Algorithm),
}

impl Association {
    /// The CPI of DEFLATE where nothing was negotiated.
    const WELL_KNOWN: u16 = 2;

    /// An association in tunnel mode that leaves payloads of less than 90 bytes as they are, under the CPI that the receiver chose.
    ///
    /// The session is one of [`Algorithm::Deflate`], with the level at which packets are compressed. Associations may share it.
    pub fn new(cpi: u16, session: &Session) -> Self {
        Self { cpi, session: session.clone(), mode: Mode::Tunnel, threshold: 90 }
    }

    /// What is within IPComp, and what around it.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Bytes of the shortest payload that the sender tries to compress: short ones are likely to become longer (RFC 3173, 2.2).
    #[must_use]
    pub fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes;
        self
    }

    /// The end that sends.
    ///
    /// # Errors
    /// A reserved CPI, or a session of another algorithm.
    pub fn outbound(self) -> Result<Outbound, Unfit> {
        self.check().map(|()| Outbound::new(self))
    }

    /// The end that receives.
    ///
    /// # Errors
    /// As of [`outbound`](Self::outbound).
    pub fn inbound(self) -> Result<Inbound, Unfit> {
        self.check().map(|()| Inbound::new(self))
    }

    fn check(&self) -> Result<(), Unfit> {
        match self.session.params().algorithm() {
            Algorithm::Deflate if self.cpi < 256 && self.cpi != Self::WELL_KNOWN => Err(Unfit::Cpi(self.cpi)),
            Algorithm::Deflate => Ok(()),
            other => Err(Unfit::Algorithm(other)),
        }
    }
}
