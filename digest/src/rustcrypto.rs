//! RustCrypto's traits: [`Digest`] of `digest` 0.11 and the traits it wraps, for one message; [`MultiDigest`], for many messages.
//!
//! ```
//! use gantry_digest::{Digest, Sha256};
//!
//! let digest = Sha256::digest(b"abc");
//! assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
//! ```
//!
//! MD5, SHA-1 and SHA-2 have the block-level types that `Hmac` of the crate `hmac` needs. `SimpleHmac` takes every type here. States are
//! wiped on drop.

use core::fmt;

use digest::block_api::{AlgorithmName, Buffer, BufferKindUser, CoreProxy, Eager, FixedOutputCore, UpdateCore};
use digest::common::BlockSizeUser;
use digest::consts::{U16, U20, U28, U32, U48, U64, U72, U104, U128, U136, U144};
use digest::zeroize::ZeroizeOnDrop;
use digest::{Digest, FixedOutput, FixedOutputReset, HashMarker, Output, OutputSizeUser, Reset, Update};

use crate::algorithm::Algorithm;
use crate::hash_function::{HashFunction, plain_setup};
use crate::internal::dispatch::Hash;
use crate::internal::kernel::blake2b::Blake2b;
use crate::internal::kernel::keccak::Keccak;
use crate::internal::{hash, kernel};
use crate::level::Level;
use crate::messages::Slices;

/// Digests of many messages side by side. RustCrypto has no such trait yet: the method comes from the proposal
/// <https://github.com/RustCrypto/traits/issues/2478>.
///
/// ```
/// use gantry_digest::digest::Output;
/// use gantry_digest::{Digest, MultiDigest, Sha256};
///
/// fn all<D: MultiDigest>(messages: &[&[u8]]) -> Vec<Output<D>> {
///     let mut digests = vec![Output::<D>::default(); messages.len()];
///     D::multi_digest(messages, &mut digests);
///     digests
/// }
/// assert_eq!(all::<Sha256>(&[b"a", b"bc"]), [Sha256::digest(b"a"), Sha256::digest(b"bc")]);
/// ```
pub trait MultiDigest: Digest {
    /// Writes the digest of each message. The messages may have different lengths.
    ///
    /// # Panics
    /// If there are not as many digests as messages.
    fn multi_digest(messages: &[&[u8]], digests: &mut [Output<Self>]);
}

/// The setup of a function without a key.
pub(crate) fn setup<F: HashFunction>(algorithm: Algorithm) -> &'static F::Setup {
    match F::setup_of(plain_setup(algorithm)) {
        Some(setup) => setup,
        None => unreachable!("the table below names the function of each algorithm"),
    }
}

macro_rules! rustcrypto {
    ($($name:ident $function:ty, $digest:ident $block:ident $(core $core:ident)?;)*) => { $(
        #[doc = concat!("[`Algorithm::", stringify!($name), "`].")]
        #[derive(Clone)]
        pub struct $name(<$function as HashFunction>::Stream);

        impl Default for $name {
            fn default() -> Self {
                $name(<$function>::stream(setup::<$function>(Algorithm::$name)))
            }
        }

        impl fmt::Debug for $name {
            /// Omits the state.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl HashMarker for $name {}
        impl ZeroizeOnDrop for $name {}

        impl AlgorithmName for $name {
            fn write_alg_name(f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl OutputSizeUser for $name {
            type OutputSize = $digest;
        }

        impl BlockSizeUser for $name {
            type BlockSize = $block;
        }

        impl Update for $name {
            fn update(&mut self, data: &[u8]) {
                <$function>::append(Level::in_use, setup::<$function>(Algorithm::$name), &mut self.0, data);
            }
        }

        impl FixedOutput for $name {
            fn finalize_into(mut self, out: &mut Output<Self>) {
                <$function>::digest(Level::in_use(), setup::<$function>(Algorithm::$name), &mut self.0, out);
            }
        }

        impl Reset for $name {
            fn reset(&mut self) {
                *self = Self::default();
            }
        }

        impl FixedOutputReset for $name {
            fn finalize_into_reset(&mut self, out: &mut Output<Self>) {
                <$function>::digest(Level::in_use(), setup::<$function>(Algorithm::$name), &mut self.0, out);
                Reset::reset(self);
            }
        }

        impl MultiDigest for $name {
            fn multi_digest(messages: &[&[u8]], digests: &mut [Output<Self>]) {
                assert_eq!(messages.len(), digests.len(), "there is a digest for each message");
                let output = digest::array::Array::cast_slice_to_core_mut(digests).as_flattened_mut();
                let setup = setup::<$function>(Algorithm::$name);
                <$function>::run_whole(Level::in_use(), setup, None, &Slices(messages), output);
            }
        }

        $(rustcrypto!(@ $name $core $function, $digest $block);)?
    )* };
    (@ $name:ident $core:ident $function:ty, $digest:ident $block:ident) => {
        #[doc = concat!("The state of [`", stringify!($name), "`] after whole blocks.")]
        #[derive(Clone)]
        pub struct $core(hash::WholeBlocks<$function>);

        impl Default for $core {
            fn default() -> Self {
                $core(hash::WholeBlocks::new(setup::<$function>(Algorithm::$name)))
            }
        }

        impl fmt::Debug for $core {
            /// Omits the state.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($core)).finish_non_exhaustive()
            }
        }

        impl HashMarker for $core {}
        impl ZeroizeOnDrop for $core {}

        impl AlgorithmName for $core {
            fn write_alg_name(f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl OutputSizeUser for $core {
            type OutputSize = $digest;
        }

        impl BlockSizeUser for $core {
            type BlockSize = $block;
        }

        impl BufferKindUser for $core {
            type BufferKind = Eager;
        }

        impl UpdateCore for $core {
            fn update_blocks(&mut self, blocks: &[digest::block_api::Block<Self>]) {
                let blocks = digest::array::Array::cast_slice_to_core(blocks).as_flattened();
                self.0.append(<$function as Hash>::kernels(Level::in_use()), blocks);
            }
        }

        impl FixedOutputCore for $core {
            fn finalize_fixed_core(&mut self, buffer: &mut Buffer<Self>, out: &mut Output<Self>) {
                let kernels = <$function as Hash>::kernels(Level::in_use());
                self.0.digest(kernels, setup::<$function>(Algorithm::$name), buffer.get_data(), out);
            }
        }

        impl Reset for $core {
            fn reset(&mut self) {
                *self = Self::default();
            }
        }

        impl CoreProxy for $name {
            type Core = $core;

            fn compose(core: $core, buffer: Buffer<$core>) -> Self {
                $name(core.0.with_rest(buffer.get_data()))
            }

            fn decompose(self) -> ($core, Buffer<$core>) {
                ($core(self.0.whole_blocks()), Buffer::<$core>::new(self.0.buffered()))
            }
        }
    };
}

rustcrypto! {
    Md5 kernel::md5::Md5, U16 U64 core Md5Core;
    Sha1 kernel::sha1::Sha1, U20 U64 core Sha1Core;
    Sha224 kernel::sha2::Sha256, U28 U64 core Sha224Core;
    Sha256 kernel::sha2::Sha256, U32 U64 core Sha256Core;
    Sha384 kernel::sha2::Sha512, U48 U128 core Sha384Core;
    Sha512 kernel::sha2::Sha512, U64 U128 core Sha512Core;
    Sha512_256 kernel::sha2::Sha512, U32 U128 core Sha512_256Core;
    Sha3_224 Keccak<144>, U28 U144;
    Sha3_256 Keccak<136>, U32 U136;
    Sha3_384 Keccak<104>, U48 U104;
    Sha3_512 Keccak<72>, U64 U72;
    Keccak256 Keccak<136>, U32 U136;
    Blake2b256 Blake2b, U32 U128;
    Blake2b512 Blake2b, U64 U128;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares digests of pieces with digests of `sha2`, and sizes with the sizes of the algorithm.
    #[test]
    fn rustcrypto_digests_equal_those_of_sha2() {
        fn check<A: Digest + FixedOutputReset + BlockSizeUser + Clone, B: Digest>(algorithm: Algorithm) {
            assert_eq!(
                (<A as Digest>::output_size(), A::block_size()),
                (algorithm.digest_size(), algorithm.block_size())
            );
            for length in [0usize, 1, 55, 56, 64, 111, 112, 128, 1000] {
                let data: Vec<u8> = (0..length).map(|i| i as u8).collect();
                let mut hasher = A::new();
                for piece in data.chunks(13) {
                    Digest::update(&mut hasher, piece);
                }
                let again = hasher.clone();
                assert_eq!(hasher.finalize_reset()[..], B::digest(&data)[..], "{algorithm}, {length}");
                assert_eq!(again.finalize()[..], B::digest(&data)[..], "{algorithm}, {length}");
                assert_eq!(hasher.finalize()[..], B::digest([])[..], "{algorithm}, {length}");
            }
        }
        check::<Sha224, sha2::Sha224>(Algorithm::Sha224);
        check::<Sha256, sha2::Sha256>(Algorithm::Sha256);
        check::<Sha384, sha2::Sha384>(Algorithm::Sha384);
        check::<Sha512, sha2::Sha512>(Algorithm::Sha512);
        check::<Sha512_256, sha2::Sha512_256>(Algorithm::Sha512_256);
    }

    /// RFC 4231, test cases 2 and 6.
    #[test]
    fn hmac_of_rustcrypto_takes_the_types() {
        use hmac::{KeyInit, Mac};
        let mac = |key: &[u8], message: &[u8]| {
            let mut mac = hmac::Hmac::<Sha256>::new_from_slice(key).unwrap();
            message.chunks(5).for_each(|piece| Mac::update(&mut mac, piece));
            mac.finalize().into_bytes()
        };
        let short = mac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(short[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        let long = mac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(long[..4], [0x60, 0xe4, 0x31, 0x59]);
        let mut ours = [0; 32];
        let key = crate::HmacKey::new(Algorithm::Sha256, &[0xaa; 131]);
        crate::hmac_many(&key, &["Test Using Larger Than Block-Size Key - Hash Key First"], &mut ours).unwrap();
        assert_eq!(long[..], ours);
    }

    #[test]
    fn a_hasher_is_composed_of_its_blocks_and_its_buffer() {
        let hasher = Sha512::new_with_prefix([7; 300]);
        let (core, buffer) = hasher.clone().decompose();
        assert_eq!(buffer.get_data(), [7; 300 - 256]);
        assert_eq!(Sha512::compose(core, buffer).finalize(), hasher.finalize());
    }

    #[test]
    fn many_digests_equal_single_ones() {
        fn check<D: MultiDigest>(algorithm: Algorithm) {
            let bytes = [7; 300];
            for count in [0, 1, 2, 40] {
                let messages: Vec<&[u8]> = (0..count).map(|i| &bytes[..7 * i]).collect();
                let mut digests = vec![Output::<D>::default(); count];
                D::multi_digest(&messages, &mut digests);
                for (message, digest) in messages.iter().zip(&digests) {
                    assert_eq!(*digest, D::digest(message), "{algorithm}, {count}");
                }
            }
        }
        macro_rules! all {
            ($($name:ident)*) => { $( check::<$name>(Algorithm::$name); )* };
        }
        all!(Md5 Sha1 Sha224 Sha256 Sha384 Sha512 Sha512_256 Sha3_224 Sha3_256 Sha3_384 Sha3_512 Keccak256 Blake2b256 Blake2b512);
    }

    #[test]
    #[should_panic(expected = "a digest for each message")]
    fn messages_without_a_place_for_their_digest_are_refused() {
        Sha256::multi_digest(&[b"a", b"b"], &mut [Output::<Sha256>::default()]);
    }

    #[test]
    fn rustcrypto_sizes_match_the_algorithms() {
        macro_rules! sizes {
            ($($name:ident)*) => { $(
                assert_eq!(<$name as Digest>::output_size(), Algorithm::$name.digest_size());
                assert_eq!(<$name as BlockSizeUser>::block_size(), Algorithm::$name.block_size());
            )* };
        }
        sizes!(Md5 Sha1 Sha224 Sha256 Sha384 Sha512 Sha512_256 Sha3_224 Sha3_256 Sha3_384 Sha3_512 Keccak256 Blake2b256 Blake2b512);
    }
}
