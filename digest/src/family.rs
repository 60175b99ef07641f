//! One type for the starts of all hash functions, and one for their streams. A call is dispatched to its function once, not for
//! each message.

use crate::algorithm::Algorithm;
use crate::chain::Chain;
use crate::error::Error;
use crate::internal::dispatch::Hash;
use crate::internal::dispatch::sponge::Function;
use crate::internal::job::Job;
use crate::internal::kernel::blake2b::Blake2b;
use crate::internal::kernel::keccak::{self, Keccak};
use crate::internal::kernel::md5::{self, Md5};
use crate::internal::kernel::sha1::{self, Sha1};
use crate::internal::kernel::sha2::{self, Sha256, Sha512};
use crate::internal::{hash, sponge};
use crate::level::Level;
use crate::messages::Messages;

/// A request to a hash function.
pub(crate) type Piece<'a, F> = Job<'a, <F as Family>::Start, <F as Family>::Stream>;

/// The common interface of the hash functions in `hash` and `sponge`.
pub(crate) trait Family: Sized + 'static {
    type Start: 'static;
    type Stream: Clone;

    /// Prepares HMAC with a key of any length over the function that starts as `plain`. Leaves copies of the key on the stack.
    fn hmac(level: Level, plain: &Self::Start, key: &[u8]) -> Self::Start;

    /// Starts a message.
    fn stream(start: &Self::Start) -> Self::Stream;

    /// Runs pieces side by side. If they are `keyed`, wipes the memory that lanes share. The iterator is `dyn` because
    /// otherwise the engine would be compiled for each type of iterator.
    fn run(level: Level, keyed: bool, pieces: &mut dyn Iterator<Item = Piece<'_, Self>>);

    /// Runs whole messages with a common start side by side, each after the bytes in `prefix`, if there is one.
    fn run_whole(
        level: Level,
        start: &Self::Start,
        prefix: Option<&Self::Stream>,
        messages: &dyn Messages,
        output: &mut [u8],
    );

    /// Advances chains by `steps` steps, side by side. Leaves copies of keys and digests on the stack.
    fn iterate(level: Level, chains: &mut [Chain<'_, Self::Start>], steps: u64);

    /// Runs one piece alone.
    fn run_one(level: Level, piece: Piece<'_, Self>);

    /// Appends a piece to a message. Takes the level only if it needs a kernel.
    fn append(level: impl FnOnce() -> Level, start: &Self::Start, stream: &mut Self::Stream, input: &[u8]);

    /// Writes the digest of the message in `stream`, which must be reset before it is used again.
    fn digest(level: Level, start: &Self::Start, stream: &mut Self::Stream, output: &mut [u8]);

    /// Returns the start if it belongs to this function.
    fn start_of(start: &Start) -> Option<&Self::Start>;

    /// Returns the stream if it belongs to this function.
    fn stream_of(stream: &mut Stream) -> Option<&mut Self::Stream>;
}

/// Work that is generic over the hash function.
pub(crate) trait Work {
    type Output;

    fn with<F: Family>(self, start: &F::Start) -> Self::Output;
}

macro_rules! functions {
    ($($variant:ident: $function:ty, $module:ident;)*) => {
        /// The starting state of every message of a function, with or without a key.
        pub(crate) enum Start {
            $($variant($module::Start<$function>),)*
        }

        /// A message that arrives in pieces.
        #[derive(Clone)]
        pub(crate) enum Stream {
            $($variant($module::Stream<$function>),)*
        }

        impl Start {
            pub(crate) fn with<W: Work>(&self, work: W) -> W::Output {
                match self {
                    $(Start::$variant(start) => work.with::<$function>(start),)*
                }
            }

            /// Starts a message.
            pub(crate) fn stream(&self) -> Stream {
                match self {
                    $(Start::$variant(start) => Stream::$variant($module::Stream::new(start)),)*
                }
            }

            /// HMAC over this function, with a key of any length. Leaves copies of the key on the stack.
            pub(crate) fn hmac(&self, level: Level, key: &[u8]) -> Start {
                match self {
                    $(Start::$variant(plain) => Start::$variant(<$function>::hmac(level, plain, key)),)*
                }
            }
        }

        $(functions!(@ $module $variant, $function);)*
    };
    (@ hash $variant:ident, $function:ty) => {
        impl Family for $function {
            fn hmac(level: Level, plain: &Self::Start, key: &[u8]) -> Self::Start {
                hash::Start::hmac(<$function>::kernels(level), plain.initial(), plain.size(), key)
            }

            fn run(level: Level, _keyed: bool, pieces: &mut dyn Iterator<Item = Piece<'_, Self>>) {
                hash::run(<$function>::kernels(level), pieces);
            }

            fn append(level: impl FnOnce() -> Level, _: &Self::Start, stream: &mut Self::Stream, input: &[u8]) {
                stream.append(|| <$function>::kernels(level()), input);
            }

            fn digest(level: Level, start: &Self::Start, stream: &mut Self::Stream, output: &mut [u8]) {
                stream.digest(<$function>::kernels(level), start, output);
            }

            functions!(@ hash, $variant, $function);
        }
    };
    (@ sponge $variant:ident, $function:ty) => {
        impl Family for $function {
            fn hmac(level: Level, plain: &Self::Start, key: &[u8]) -> Self::Start {
                sponge::Start::hmac_over(<$function>::kernels(level), plain, key)
            }

            fn run(level: Level, keyed: bool, pieces: &mut dyn Iterator<Item = Piece<'_, Self>>) {
                sponge::run(<$function>::kernels(level), keyed, pieces);
            }

            fn append(level: impl FnOnce() -> Level, start: &Self::Start, stream: &mut Self::Stream, input: &[u8]) {
                Self::run_one(level(), Job { start, stream: Some(stream), input, output: None });
            }

            fn digest(level: Level, start: &Self::Start, stream: &mut Self::Stream, output: &mut [u8]) {
                Self::run_one(level, Job { start, stream: Some(stream), input: &[], output: Some(output) });
            }

            functions!(@ sponge, $variant, $function);
        }
    };
    // The parts that functions of `hash` and of `sponge` have in common.
    (@ $module:ident, $variant:ident, $function:ty) => {
        type Start = $module::Start<$function>;
        type Stream = $module::Stream<$function>;

        fn stream(start: &Self::Start) -> Self::Stream {
            $module::Stream::new(start)
        }

        fn run_whole(
            level: Level,
            start: &Self::Start,
            prefix: Option<&Self::Stream>,
            messages: &dyn Messages,
            output: &mut [u8],
        ) {
            $module::run_whole(level, start, prefix, messages, output);
        }

        fn iterate(level: Level, chains: &mut [Chain<'_, Self::Start>], steps: u64) {
            $module::iterate(level, chains, steps);
        }

        fn run_one(level: Level, piece: Piece<'_, Self>) {
            $module::run_one(<$function>::kernels(level), piece);
        }

        fn start_of(start: &Start) -> Option<&Self::Start> {
            if let Start::$variant(start) = start { Some(start) } else { None }
        }

        fn stream_of(stream: &mut Stream) -> Option<&mut Self::Stream> {
            if let Stream::$variant(stream) = stream { Some(stream) } else { None }
        }
    };
}

functions! {
    Md5: Md5, hash;
    Sha1: Sha1, hash;
    Sha256: Sha256, hash;
    Sha512: Sha512, hash;
    Keccak144: Keccak<144>, sponge;
    Keccak136: Keccak<136>, sponge;
    Keccak104: Keccak<104>, sponge;
    Keccak72: Keccak<72>, sponge;
    Blake2b: Blake2b, sponge;
}

/// The starting state of messages without a key.
pub(crate) fn plain(algorithm: Algorithm) -> &'static Start {
    macro_rules! start {
        ($variant:ident $module:ident, $initial:expr, $digest:literal) => {{
            static START: Start = Start::$variant($module::Start::digest($initial, $digest));
            &START
        }};
    }
    match algorithm {
        Algorithm::Md5 => start!(Md5 hash, md5::INITIAL, 16),
        Algorithm::Sha1 => start!(Sha1 hash, sha1::INITIAL, 20),
        Algorithm::Sha224 => start!(Sha256 hash, sha2::INITIAL_224, 28),
        Algorithm::Sha256 => start!(Sha256 hash, sha2::INITIAL_256, 32),
        Algorithm::Sha384 => start!(Sha512 hash, sha2::INITIAL_384, 48),
        Algorithm::Sha512 => start!(Sha512 hash, sha2::INITIAL_512, 64),
        Algorithm::Sha512_256 => start!(Sha512 hash, sha2::INITIAL_512_256, 32),
        Algorithm::Sha3_224 => start!(Keccak144 sponge, keccak::INITIAL, 28),
        Algorithm::Sha3_256 => start!(Keccak136 sponge, keccak::INITIAL, 32),
        Algorithm::Sha3_384 => start!(Keccak104 sponge, keccak::INITIAL, 48),
        Algorithm::Sha3_512 => start!(Keccak72 sponge, keccak::INITIAL, 64),
        Algorithm::Keccak256 => {
            static START: Start = Start::Keccak136(sponge::Start::xof(32, 0, keccak::KECCAK));
            &START
        }
        Algorithm::Blake2b256 => start!(Blake2b sponge, Blake2b::initial(32), 32),
        Algorithm::Blake2b512 => start!(Blake2b sponge, Blake2b::initial(64), 64),
    }
}

/// Checks that `output` has the length of the digests of `messages` messages.
pub(crate) fn check_output(algorithm: Algorithm, messages: usize, output: &[u8]) -> Result<(), Error> {
    let needed = messages.checked_mul(algorithm.digest_size()).ok_or(Error::TooMany)?;
    if output.len() == needed { Ok(()) } else { Err(Error::OutputLength { needed, found: output.len() }) }
}
