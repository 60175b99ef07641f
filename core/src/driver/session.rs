//! A session on a device.

use std::any::Any;

use super::operands::Operands;
use super::stream::{AeadStream, CipherStream, DigestStream};
use crate::algorithm::{Fault, Operation, Outcome, Unsupported};

/// A session on a device: immutable, shared by threads.
pub trait DeviceSession: Send + Sync + Any {
    /// Runs one request on the calling thread. Never called with `Update` and `Finish`: those reach the stream itself, or,
    /// in a batch, a queue of the device's own. Allocates nothing, waits for nobody.
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault>;

    /// The start of a message that comes in pieces, of a digest or MAC.
    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Err(Unsupported::because("no streams"))
    }

    /// The start of data that comes in pieces, of a cipher. `iv` has been checked.
    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let _ = (operation, iv);
        Err(Unsupported::because("no streams"))
    }

    /// Messages of an AEAD that come in pieces, one after the other.
    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        let _ = operation;
        Err(Unsupported::because("no streams"))
    }
}

impl Operands<'_> {
    /// Does the work where it stands, by the session that a device opened: or the next step of a stream of that device.
    #[inline]
    pub(crate) fn run_by(self, session: &dyn DeviceSession) -> Result<Outcome, Fault> {
        match self {
            Operands::Update { stream, input } => stream.update(input).map(|()| Outcome::Done),
            Operands::Finish { stream, output } => stream.finish(output).map(|()| Outcome::Done),
            operands => session.run(operands),
        }
    }
}
