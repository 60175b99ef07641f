//! Errors, grouped by cause.
//!
//! * [`Misuse`]: a mistake of the caller, visible in its code. Untrusted data cannot cause it.
//! * [`Outcome`]: the result of a request that ran, such as a wrong tag or an impossible length.
//! * [`Fault`]: a failure of a device. Core retries elsewhere. A caller gets a fault only if no device is left, or if the data or stream of
//!   the request may be damaged.
//! * [`Refusal`]: the reason why a device opened no session. The device never serves such a session ([`Unsupported`]), or has a fault.

use std::borrow::Cow;
use std::fmt;

use super::ids::Algorithm;
use super::lengths::Lengths;
use super::operation::Operation;
use super::shape::Shape;

/// The result of a call into core.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was wrong.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The request ran, but its input was refused. The outcome is never [`Outcome::Done`].
    #[error("{0}")]
    Refused(Outcome),
    /// Every device that could serve the request failed, or one failed in a way that may have damaged the data or stream of the request.
    #[error("{algorithm}: no device could run the request: {last}")]
    Device {
        /// The requested algorithm.
        algorithm: Algorithm,
        /// The fault of the last device.
        last: Fault,
    },
    /// No device serves the algorithm or the request.
    #[error("{algorithm}: no device serves {operation} here{}", in_parentheses(.reasons))]
    Unserved {
        /// The requested algorithm.
        algorithm: Algorithm,
        /// The requested operation.
        operation: Operation,
        /// The reason of each device, with its name.
        reasons: Vec<String>,
    },
}

fn in_parentheses(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

/// A mistake in the calling code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// The key of a session has a length that the algorithm does not allow.
    #[error("{algorithm}: a key of {got} bytes; it takes {takes}")]
    KeyLength {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The values that the algorithm allows.
        takes: Lengths,
    },
    /// The second key of an encrypt-then-authenticate session has a length that the algorithm does not allow.
    #[error("{algorithm}: a MAC key of {got} bytes; it takes {takes}")]
    MacKeyLength {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The values that the algorithm allows.
        takes: Lengths,
    },
    /// Both halves of an XTS key are the same, which voids its security (FIPS 140-3 IG C.I).
    #[error("{algorithm}: both halves of the key are the same")]
    XtsKeyHalves {
        /// The algorithm of the session.
        algorithm: Algorithm,
    },
    /// The IV or nonce of a request has a length that the session does not allow.
    #[error("{algorithm}: an IV of {got} bytes; it takes {takes}")]
    IvLength {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The values that the algorithm allows.
        takes: Lengths,
    },
    /// The algorithm does not allow the tag length of a session.
    #[error("{algorithm}: a tag of {got} bytes; it takes {takes}")]
    TagLength {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The values that the algorithm allows.
        takes: Lengths,
    },
    /// The context string of a session that signs or verifies has a length that the algorithm does not allow.
    #[error("{algorithm}: a context of {got} bytes; it takes {takes}")]
    ContextLength {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The values that the algorithm allows.
        takes: Lengths,
    },
    /// The algorithm does not support the session's prehash mode.
    #[error("{algorithm}: unsupported prehash mode")]
    Prehash {
        /// The algorithm of the session.
        algorithm: Algorithm,
    },
    /// The algorithm does not have the compression level of a session.
    #[error("{algorithm}: level {got}; it takes {takes}")]
    Level {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The values that the algorithm allows.
        takes: Lengths,
    },
    /// The SPI of a session for packets of ESP is missing (0) or reserved (RFC 4303, 2.1), or a session of another kind has an SPI.
    #[error("{algorithm}: an SPI of {got}; sessions for packets take one of 256 or more, and others take none")]
    Spi {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: u32,
    },
    /// The number of a packet is 0, or beyond the last number.
    #[error("{algorithm}: a packet with the number {got}; numbers are 1 to {last}")]
    Number {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: u64,
        /// The last number of a session.
        last: u64,
    },
    /// The random bytes of a request that generates keys or encapsulates have a wrong length.
    #[error("{algorithm}: {got} random bytes; it takes {takes}, or none where the device is to draw them")]
    SeedLength {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The value that the algorithm takes.
        takes: usize,
    },
    /// The buffer for a result has another length than the result.
    #[error("{algorithm}: an output buffer of {got} bytes for a result of {needs}")]
    OutputLength {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The given value.
        got: usize,
        /// The length of the result.
        needs: usize,
    },
    /// The session's algorithm or direction has no such operation.
    #[error("{algorithm}: a session of this kind does not {operation}")]
    Operation {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The requested operation.
        operation: Operation,
    },
    /// An option of a queue is out of range.
    #[error("a queue with a {what} of {got}; it takes 1 to {max}")]
    Queue {
        /// The name of the option.
        what: &'static str,
        /// The given value.
        got: usize,
        /// The maximum.
        max: usize,
    },
    /// The queue belongs to the process that made this process by `fork` or `clone`.
    #[error("the queue belongs to the parent of this process")]
    Forked,
    /// A queue got a session of another framework, or a batch got sessions of several frameworks. A batch that has more or fewer sessions
    /// than requests also gets this error.
    #[error("{algorithm}: a session that does not belong to the queue or batch")]
    Framework {
        /// The algorithm of the session.
        algorithm: Algorithm,
    },
    /// The stream belongs to another session, or the algorithm has no such stream.
    #[error("{algorithm}: {operation} has no such stream")]
    Stream {
        /// The algorithm of the session.
        algorithm: Algorithm,
        /// The requested operation.
        operation: Operation,
    },
    /// A piece of memory is out of bounds, or has another length than the buffer that it is copied to or from.
    #[error("{len} bytes at offset {offset} do not fit {memory_len} bytes of memory")]
    Bounds {
        /// The offset of the piece.
        offset: usize,
        /// The length of the piece.
        len: usize,
        /// The length of the memory.
        memory_len: usize,
    },
}

/// The outcome of a request. No outcome is a failure of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
#[non_exhaustive]
pub enum Outcome {
    /// The output is complete.
    Done,
    /// The tag or the signature does not match the data. The output holds no plaintext: it is unchanged or zero.
    BadTag,
    /// The algorithm does not accept data of this length. The output is unchanged.
    BadLength,
    /// The peer's public key is invalid. It is not a point of the curve, gives the same secret for every private key (RFC 7748, 6.1), or is
    /// not an encapsulation key (FIPS 203, 7.2). The output is unchanged or zero.
    BadKey,
    /// The input is malformed. Compressed data break the rules of their format, end too early, have a tail, or do not match their checksum;
    /// the output is then undefined. A packet does not belong to its session or has invalid padding; the output is then unchanged or zero.
    /// The input of encipherment or decipherment is not below the modulus or has invalid padding ([`rsa`](crate::rsa)); the output is then
    /// unchanged or zero.
    Malformed,
    /// The result is longer than its buffer, or seems longer because of damaged data. The output is undefined.
    NoRoom,
}

impl Outcome {
    /// Returns an error for every outcome but `Done`.
    pub fn ok(self) -> Result<()> {
        if self == Outcome::Done { Ok(()) } else { Err(Error::Refused(self)) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Done => "done",
            Outcome::BadTag => "the tag does not match the data",
            Outcome::BadLength => "the algorithm does not accept data of this length",
            Outcome::BadKey => "the peer's public key is invalid",
            Outcome::Malformed => "the data is malformed or damaged",
            Outcome::NoRoom => "the output buffer is too small for the result",
        })
    }
}

/// The reason why a device gave no result. Core runs the device's requests elsewhere, unless their data or streams may be damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The device gave a request back without a result.
    #[error("the device lost a request")]
    Lost,
    /// The device failed, with this message.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The driver panicked. A request in place is then not run elsewhere, because its data are unknown.
    #[error("the driver panicked")]
    Panicked,
    /// The device works, but does not take a nonce or associated data of this request's length. The device read and wrote nothing. Core
    /// runs the request elsewhere, and does not count a failure of the device.
    #[error("{0}")]
    Declined(&'static str),
}

impl Fault {
    /// Makes a fault with the device's own message.
    pub fn failed(reason: impl Into<Cow<'static, str>>) -> Self {
        Fault::Failed(reason.into())
    }

    /// Returns whether the data of a request may have changed, so that no other device can run it.
    pub(crate) fn corrupts_data(&self, shape: Shape) -> bool {
        *self == Fault::Panicked && shape.in_place
    }
}

/// The reason why a device does not serve a session, for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub Cow<'static, str>);

impl Unsupported {
    /// Makes a reason with the device's own message.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Unsupported(reason.into())
    }
}

/// The reason why a device did not open a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The device works, but does not serve such a session. Core does not ask it again.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The device failed this time. Core asks it again when it has had time to recover.
    #[error(transparent)]
    Fault(#[from] Fault),
}
