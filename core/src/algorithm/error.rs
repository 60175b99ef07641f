//! What can go wrong, grouped by whose fault it is.
//!
//! * [`Misuse`]: the caller's. Reading the calling code would have told; no untrusted data can cause it.
//! * [`Outcome`]: nobody's. The request ran and this is its result: a tag that does not fit, a length that cannot be.
//! * [`Fault`]: the device's. Core retries elsewhere, so a caller meets one only when no device is left.
//! * [`Refusal`]: why a device did not open a session: one that it never serves ([`Unsupported`]), or a fault.

use std::borrow::Cow;
use std::fmt;

use super::ids::Algorithm;
use super::lengths::Lengths;
use super::operation::Operation;
use super::shape::Shape;

/// The result of a call into core.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was wrong.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The request was run and refused its input: never [`Outcome::Done`].
    #[error("{0}")]
    Refused(Outcome),
    /// Every device that could serve the request failed.
    #[error("{algorithm}: no device is left: {last}")]
    Device {
        /// What was asked for.
        algorithm: Algorithm,
        /// What the last device said.
        last: Fault,
    },
    /// No device serves the algorithm or the request.
    #[error("{algorithm}: no device serves {operation} here{}", list(.reasons))]
    Unserved {
        /// What was asked for.
        algorithm: Algorithm,
        /// What was asked for.
        operation: Operation,
        /// What each device said, with its name.
        reasons: Vec<String>,
    },
}

fn list(reasons: &[String]) -> String {
    if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) }
}

/// A mistake in the calling code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// The key of a session.
    #[error("{algorithm}: a key of {got} bytes; it takes {takes}")]
    KeyLength {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the algorithm allows.
        takes: Lengths,
    },
    /// The second key of an encrypt-then-authenticate session.
    #[error("{algorithm}: a MAC key of {got} bytes; it takes {takes}")]
    MacKeyLength {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the algorithm allows.
        takes: Lengths,
    },
    /// Both halves of an XTS key are the same, which voids its security (FIPS 140-3 IG C.I).
    #[error("{algorithm}: both halves of the key are the same")]
    XtsKeyHalves {
        /// Of the session.
        algorithm: Algorithm,
    },
    /// The IV or nonce of a request.
    #[error("{algorithm}: an IV of {got} bytes; it takes {takes}")]
    IvLength {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the algorithm allows.
        takes: Lengths,
    },
    /// The tag length of a session.
    #[error("{algorithm}: a tag of {got} bytes; it takes {takes}")]
    TagLength {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the algorithm allows.
        takes: Lengths,
    },
    /// The context string of a session that signs or verifies.
    #[error("{algorithm}: a context of {got} bytes; it takes {takes}")]
    ContextLength {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the algorithm allows.
        takes: Lengths,
    },
    /// The session would sign or verify something of a message that the algorithm does not.
    #[error("{algorithm}: it does not sign what this session would sign of a message")]
    Prehash {
        /// Of the session.
        algorithm: Algorithm,
    },
    /// The level of a session that compresses.
    #[error("{algorithm}: level {got}; it has {has}")]
    Level {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the algorithm has.
        has: Lengths,
    },
    /// The SPI of a session for packets of ESP is missing (0) or reserved (RFC 4303, 2.1), or a session for something else has one.
    #[error("{algorithm}: an SPI of {got}; sessions for packets have one of 256 or more, and no others have one")]
    Spi {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: u32,
    },
    /// The number of a packet: 0, or beyond the last.
    #[error("{algorithm}: a packet with the number {got}; numbers are 1 to {last}")]
    Number {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: u64,
        /// The last that a session has.
        last: u64,
    },
    /// The random bytes of a request for keys, or to encapsulate.
    #[error("{algorithm}: {got} random bytes; it takes {takes}, or none where the device is to draw them")]
    SeedLength {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the algorithm takes.
        takes: usize,
    },
    /// The buffer for a result has another length than the result.
    #[error("{algorithm}: an output buffer of {got} bytes for a result of {needs}")]
    OutputLength {
        /// Of the session.
        algorithm: Algorithm,
        /// What was given.
        got: usize,
        /// What the result needs.
        needs: usize,
    },
    /// The session's algorithm or direction has no such operation.
    #[error("{algorithm}: a session of this kind does not {operation}")]
    Operation {
        /// Of the session.
        algorithm: Algorithm,
        /// What was asked for.
        operation: Operation,
    },
    /// An option of a queue.
    #[error("a queue with a {what} of {got}; it is 1 to {most}")]
    Queue {
        /// Which option.
        what: &'static str,
        /// What was given.
        got: usize,
        /// The most that it can be.
        most: usize,
    },
    /// A queue of the process that made this one, by `fork` or `clone`.
    #[error("the queue belongs to the parent of this process")]
    Forked,
    /// A queue of one framework got a session of another, whose devices are others; or the sessions of a batch are not of one framework,
    /// or not one for each request.
    #[error("{algorithm}: a session that does not belong to the queue or batch")]
    Framework {
        /// Of the session.
        algorithm: Algorithm,
    },
    /// Streams of another session, or a stream that an algorithm does not have.
    #[error("{algorithm}: {operation} has no such stream")]
    Stream {
        /// Of the session.
        algorithm: Algorithm,
        /// What was asked for.
        operation: Operation,
    },
    /// A piece of memory that does not lie where it should, or has another length than what it is copied to.
    #[error("{len} bytes at {offset} of {of}")]
    Bounds {
        /// Where it would begin.
        offset: usize,
        /// How long it would be.
        len: usize,
        /// How many bytes there are.
        of: usize,
    },
}

/// How a request ended. None of these is a failure of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
#[non_exhaustive]
pub enum Outcome {
    /// The output is complete.
    Done,
    /// The tag is not the tag of this data, or the signature not the signature. The output holds no plaintext: it is as it was,
    /// or zeros.
    BadTag,
    /// The data has a length that the algorithm cannot have. The output is as it was.
    BadLength,
    /// The peer's public key is no point of the curve, or one with which any private key leads to the same secret (RFC 7748, 6.1), or
    /// no encapsulation key (FIPS 203, 7.2). The output is as it was, or zeros.
    BadKey,
    /// What was to be decompressed is nothing that was compressed: it breaks the rules of its format, ends too early, goes on behind its
    /// end, or its checksum does not fit. What the output holds says nothing. Or a packet is none of its session, or its padding is
    /// none: what is left of it is what came, or zeros. Or what was to be enciphered or deciphered is no number below the modulus, or
    /// its padding is none ([`rsa`](crate::rsa)): the output is as it was, or zeros.
    Malformed,
    /// The result has more bytes than the buffer for it; damaged data may seem so, too. What the output holds says nothing.
    NoRoom,
}

impl Outcome {
    /// `Done`, or the error that says why not.
    pub fn ok(self) -> Result<()> {
        if self == Outcome::Done { Ok(()) } else { Err(Error::Refused(self)) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Done => "done",
            Outcome::BadTag => "the tag does not fit the data",
            Outcome::BadLength => "the algorithm has no data of this length",
            Outcome::BadKey => "the peer's public key makes no secret",
            Outcome::Malformed => "the data were not compressed like this, or are damaged",
            Outcome::NoRoom => "the result is longer than the buffer for it",
        })
    }
}

/// A device failed. What it had in hand is run elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The device gave a request back without a result.
    #[error("the device lost a request")]
    Lost,
    /// The device says what happened.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The driver panicked. What it was to change in place is unknown, so such a request is not run elsewhere.
    #[error("the driver panicked")]
    Panicked,
    /// The device is well, and does not do this very request: its nonce or its associated data has a length that the
    /// device does not take. Nothing was read or written. Core runs it elsewhere, and holds nothing against the device.
    #[error("{0}")]
    Declined(&'static str),
}

impl Fault {
    /// A fault in the device's own words.
    pub fn failed(reason: impl Into<Cow<'static, str>>) -> Self {
        Fault::Failed(reason.into())
    }

    /// Whether the data of a request may no longer be what they were, so that nobody else can be asked.
    pub(crate) fn spoils(&self, shape: Shape) -> bool {
        *self == Fault::Panicked && shape.in_place
    }
}

/// Why a device does not serve a session, in words for its operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub Cow<'static, str>);

impl Unsupported {
    /// In the device's own words.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Unsupported(reason.into())
    }
}

/// Why a device did not open a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The device is well, and does not serve such a session: it is not asked again.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The device failed this time. It is asked again when it has had time to recover.
    #[error(transparent)]
    Fault(#[from] Fault),
}
