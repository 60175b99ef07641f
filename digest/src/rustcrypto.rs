//! The traits of RustCrypto for one message: [`Digest`](digest::Digest), and those that it is made of.
//!
//! ```
//! use digest::Digest;
//! use gantry_digest::rustcrypto::Sha256;
//!
//! let digest = Sha256::digest(b"abc");
//! assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
//! ```

use digest::common::BlockSizeUser;
use digest::consts::{U16, U20, U28, U32, U48, U64, U72, U104, U128, U136, U144};
use digest::{FixedOutput, FixedOutputReset, HashMarker, Output, OutputSizeUser, Reset, Update};

use crate::algorithm::Algorithm;
use crate::hasher::Hasher;

macro_rules! rustcrypto {
    ($($name:ident $digest:ident $block:ident;)*) => { $(
        #[doc = concat!("[`Algorithm::", stringify!($name), "`].")]
        #[derive(Clone, Debug)]
        pub struct $name(Hasher<'static>);

        impl Default for $name {
            fn default() -> Self {
                $name(Hasher::new(Algorithm::$name))
            }
        }

        impl HashMarker for $name {}

        impl OutputSizeUser for $name {
            type OutputSize = $digest;
        }

        impl BlockSizeUser for $name {
            type BlockSize = $block;
        }

        impl Update for $name {
            fn update(&mut self, data: &[u8]) {
                self.0.update(data);
            }
        }

        impl FixedOutput for $name {
            fn finalize_into(mut self, out: &mut Output<Self>) {
                self.finalize_into_reset(out);
            }
        }

        impl Reset for $name {
            fn reset(&mut self) {
                self.0.reset();
            }
        }

        impl FixedOutputReset for $name {
            fn finalize_into_reset(&mut self, out: &mut Output<Self>) {
                let finished = self.0.finish(out);
                debug_assert!(finished.is_ok(), "the type of the output has its length");
            }
        }
    )* };
}

rustcrypto! {
    Md5 U16 U64;
    Sha1 U20 U64;
    Sha224 U28 U64;
    Sha256 U32 U64;
    Sha384 U48 U128;
    Sha512 U64 U128;
    Sha512_256 U32 U128;
    Sha3_224 U28 U144;
    Sha3_256 U32 U136;
    Sha3_384 U48 U104;
    Sha3_512 U64 U72;
    Blake2b256 U32 U128;
    Blake2b512 U64 U128;
}

#[cfg(test)]
mod tests {
    use super::*;
    use digest::Digest;

    /// In pieces, against `sha2`, and the sizes against those of the algorithm.
    #[test]
    fn the_traits_of_rustcrypto_give_the_same_digests_as_those_of_sha2() {
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

    #[test]
    fn sizes_of_types_are_those_of_algorithms() {
        macro_rules! sizes {
            ($($name:ident)*) => { $(
                assert_eq!(<$name as Digest>::output_size(), Algorithm::$name.digest_size());
                assert_eq!(<$name as BlockSizeUser>::block_size(), Algorithm::$name.block_size());
            )* };
        }
        sizes!(Md5 Sha1 Sha224 Sha256 Sha384 Sha512 Sha512_256 Sha3_224 Sha3_256 Sha3_384 Sha3_512 Blake2b256 Blake2b512);
    }
}
