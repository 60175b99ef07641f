//! One type for the setups of all hash functions, and one for their streams. A call is dispatched to its function once, not for
//! each message.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::hmac_chain::HmacChain;
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
pub(crate) type FunctionJob<'a, F> = Job<'a, <F as HashFunction>::Setup, <F as HashFunction>::Stream>;

/// The common interface of the hash functions in `hash` and `sponge`.
pub(crate) trait HashFunction: Sized + 'static {
    type Setup: 'static;
    type Stream: Clone;

    /// Prepares HMAC over this function, with a key of any length. `plain` is the setup without a key. Leaves copies of the key on the
    /// stack.
    fn hmac(level: Level, plain: &Self::Setup, key: &[u8]) -> Self::Setup;

    /// Starts a message.
    fn stream(setup: &Self::Setup) -> Self::Stream;

    /// Runs jobs side by side. If `is_keyed`, functions of `sponge` wipe the stack afterwards. The iterator is `dyn` because otherwise the
    /// engine would be compiled for each type of iterator.
    fn run(level: Level, is_keyed: bool, jobs: &mut dyn Iterator<Item = FunctionJob<'_, Self>>);

    /// Runs whole messages with a common setup side by side, each after the bytes in `prefix`, if there is one.
    fn run_whole(
        level: Level,
        setup: &Self::Setup,
        prefix: Option<&Self::Stream>,
        messages: &dyn Messages,
        output: &mut [u8],
    );

    /// Advances chains by `steps` steps, side by side. Leaves copies of keys and digests on the stack.
    fn iterate(level: Level, chains: &mut [HmacChain<'_, Self::Setup>], steps: u64);

    /// Runs one job alone.
    fn run_one(level: Level, job: FunctionJob<'_, Self>);

    /// Appends a piece to a message. Functions of `hash` call `level` only if a block is full, those of `sponge` always.
    fn append(level: impl FnOnce() -> Level, setup: &Self::Setup, stream: &mut Self::Stream, input: &[u8]);

    /// Writes the digest of the message in `stream`. The stream must be reset before it is used again: some functions restart it here,
    /// others do not.
    fn digest(level: Level, setup: &Self::Setup, stream: &mut Self::Stream, output: &mut [u8]);

    /// Returns the setup if it belongs to this function.
    fn setup_of(setup: &AnySetup) -> Option<&Self::Setup>;

    /// Returns the stream if it belongs to this function.
    fn stream_of(stream: &mut AnyStream) -> Option<&mut Self::Stream>;
}

/// Work that is generic over the hash function.
pub(crate) trait GenericWork {
    type Output;

    fn run<F: HashFunction>(self, setup: &F::Setup) -> Self::Output;
}

macro_rules! functions {
    ($($variant:ident: $function:ty, $module:ident;)*) => {
        /// The starting state of every message of a function, with or without a key.
        pub(crate) enum AnySetup {
            $($variant($module::Setup<$function>),)*
        }

        /// A message that arrives in pieces.
        #[derive(Clone)]
        pub(crate) enum AnyStream {
            $($variant($module::Stream<$function>),)*
        }

        impl AnySetup {
            pub(crate) fn run<W: GenericWork>(&self, work: W) -> W::Output {
                match self {
                    $(AnySetup::$variant(setup) => work.run::<$function>(setup),)*
                }
            }

            /// Starts a message.
            pub(crate) fn stream(&self) -> AnyStream {
                match self {
                    $(AnySetup::$variant(setup) => AnyStream::$variant($module::Stream::new(setup)),)*
                }
            }

            /// HMAC over this function, with a key of any length. Leaves copies of the key on the stack.
            pub(crate) fn hmac(&self, level: Level, key: &[u8]) -> AnySetup {
                match self {
                    $(AnySetup::$variant(plain) => AnySetup::$variant(<$function>::hmac(level, plain, key)),)*
                }
            }
        }

        $(functions!(@ $module $variant, $function);)*
    };
    (@ hash $variant:ident, $function:ty) => {
        impl HashFunction for $function {
            fn hmac(level: Level, plain: &Self::Setup, key: &[u8]) -> Self::Setup {
                hash::Setup::hmac(<$function>::kernels(level), plain.initial(), plain.digest_size(), key)
            }

            fn run(level: Level, _is_keyed: bool, jobs: &mut dyn Iterator<Item = FunctionJob<'_, Self>>) {
                hash::run(<$function>::kernels(level), jobs);
            }

            fn append(level: impl FnOnce() -> Level, _: &Self::Setup, stream: &mut Self::Stream, input: &[u8]) {
                stream.append(|| <$function>::kernels(level()), input);
            }

            fn digest(level: Level, setup: &Self::Setup, stream: &mut Self::Stream, output: &mut [u8]) {
                stream.digest(<$function>::kernels(level), setup, output);
            }

            functions!(@ hash, $variant, $function);
        }
    };
    (@ sponge $variant:ident, $function:ty) => {
        impl HashFunction for $function {
            fn hmac(level: Level, plain: &Self::Setup, key: &[u8]) -> Self::Setup {
                sponge::Setup::hmac_over(<$function>::kernels(level), plain, key)
            }

            fn run(level: Level, is_keyed: bool, jobs: &mut dyn Iterator<Item = FunctionJob<'_, Self>>) {
                sponge::run(<$function>::kernels(level), is_keyed, jobs);
            }

            fn append(level: impl FnOnce() -> Level, setup: &Self::Setup, stream: &mut Self::Stream, input: &[u8]) {
                Self::run_one(level(), Job { setup, stream: Some(stream), input, output: None });
            }

            fn digest(level: Level, setup: &Self::Setup, stream: &mut Self::Stream, output: &mut [u8]) {
                Self::run_one(level, Job { setup, stream: Some(stream), input: &[], output: Some(output) });
            }

            functions!(@ sponge, $variant, $function);
        }
    };
    // The parts that functions of `hash` and of `sponge` have in common.
    (@ $module:ident, $variant:ident, $function:ty) => {
        type Setup = $module::Setup<$function>;
        type Stream = $module::Stream<$function>;

        fn stream(setup: &Self::Setup) -> Self::Stream {
            $module::Stream::new(setup)
        }

        fn run_whole(
            level: Level,
            setup: &Self::Setup,
            prefix: Option<&Self::Stream>,
            messages: &dyn Messages,
            output: &mut [u8],
        ) {
            $module::run_whole(level, setup, prefix, messages, output);
        }

        fn iterate(level: Level, chains: &mut [HmacChain<'_, Self::Setup>], steps: u64) {
            $module::iterate(level, chains, steps);
        }

        fn run_one(level: Level, job: FunctionJob<'_, Self>) {
            $module::run_one(<$function>::kernels(level), job);
        }

        fn setup_of(setup: &AnySetup) -> Option<&Self::Setup> {
            if let AnySetup::$variant(setup) = setup { Some(setup) } else { None }
        }

        fn stream_of(stream: &mut AnyStream) -> Option<&mut Self::Stream> {
            if let AnyStream::$variant(stream) = stream { Some(stream) } else { None }
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
pub(crate) fn plain_setup(algorithm: Algorithm) -> &'static AnySetup {
    macro_rules! setup {
        ($variant:ident $module:ident, $initial:expr, $digest:literal) => {{
            static SETUP: AnySetup = AnySetup::$variant($module::Setup::digest($initial, $digest));
            &SETUP
        }};
    }
    match algorithm {
        Algorithm::Md5 => setup!(Md5 hash, md5::INITIAL, 16),
        Algorithm::Sha1 => setup!(Sha1 hash, sha1::INITIAL, 20),
        Algorithm::Sha224 => setup!(Sha256 hash, sha2::INITIAL_224, 28),
        Algorithm::Sha256 => setup!(Sha256 hash, sha2::INITIAL_256, 32),
        Algorithm::Sha384 => setup!(Sha512 hash, sha2::INITIAL_384, 48),
        Algorithm::Sha512 => setup!(Sha512 hash, sha2::INITIAL_512, 64),
        Algorithm::Sha512_256 => setup!(Sha512 hash, sha2::INITIAL_512_256, 32),
        Algorithm::Sha3_224 => setup!(Keccak144 sponge, keccak::INITIAL, 28),
        Algorithm::Sha3_256 => setup!(Keccak136 sponge, keccak::INITIAL, 32),
        Algorithm::Sha3_384 => setup!(Keccak104 sponge, keccak::INITIAL, 48),
        Algorithm::Sha3_512 => setup!(Keccak72 sponge, keccak::INITIAL, 64),
        Algorithm::Keccak256 => {
            static SETUP: AnySetup = AnySetup::Keccak136(sponge::Setup::xof(32, 0, keccak::DOMAIN_KECCAK));
            &SETUP
        }
        Algorithm::Blake2b256 => setup!(Blake2b sponge, Blake2b::initial(32), 32),
        Algorithm::Blake2b512 => setup!(Blake2b sponge, Blake2b::initial(64), 64),
    }
}

/// Checks that `output` has the length of the digests of `messages` messages.
pub(crate) fn check_output(algorithm: Algorithm, messages: usize, output: &[u8]) -> Result<(), Error> {
    let needed = messages.checked_mul(algorithm.digest_size()).ok_or(Error::TooManyMessages)?;
    if output.len() == needed { Ok(()) } else { Err(Error::OutputLength { needed, found: output.len() }) }
}
