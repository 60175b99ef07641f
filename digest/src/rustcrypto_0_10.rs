//! The traits of [`rustcrypto`](crate::rustcrypto) in version 0.10 of `digest`, for types with the same names: MD5, SHA-1 and SHA-2.
//! They have the block-level types that `Hmac` of the crate `hmac` 0.12 needs.
//!
//! ```
//! use digest_0_10::Digest;
//! use gantry_digest::rustcrypto_0_10::Sha256;
//!
//! let digest = Sha256::digest(b"abc");
//! assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
//! ```

use core::fmt;

use digest_0_10::consts::{U16, U20, U28, U32, U48, U64, U128};
use digest_0_10::core_api::{
    AlgorithmName, Block, BlockSizeUser, Buffer, BufferKindUser, CoreWrapper, FixedOutputCore, UpdateCore,
};
use digest_0_10::{HashMarker, Output, OutputSizeUser, Reset};

use crate::algorithm::Algorithm;
use crate::internal::dispatch::Hash;
use crate::internal::hash::WholeBlocks;
use crate::internal::kernel;
use crate::level::Level;
use crate::rustcrypto::setup;

macro_rules! rustcrypto {
    ($($name:ident $core:ident $function:ty, $digest:ident $block:ident;)*) => { $(
        #[doc = concat!("[`Algorithm::", stringify!($name), "`].")]
        pub type $name = CoreWrapper<$core>;

        #[doc = concat!("The state of [`", stringify!($name), "`] after whole blocks.")]
        #[derive(Clone)]
        pub struct $core(WholeBlocks<$function>);

        impl Default for $core {
            fn default() -> Self {
                $core(WholeBlocks::new(setup::<$function>(Algorithm::$name)))
            }
        }

        impl HashMarker for $core {}

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
            type BufferKind = digest_0_10::block_buffer::Eager;
        }

        impl UpdateCore for $core {
            fn update_blocks(&mut self, blocks: &[Block<Self>]) {
                let kernels = <$function as Hash>::kernels(Level::in_use());
                for block in blocks {
                    self.0.append(kernels, block);
                }
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
    )* };
}

rustcrypto! {
    Md5 Md5Core kernel::md5::Md5, U16 U64;
    Sha1 Sha1Core kernel::sha1::Sha1, U20 U64;
    Sha224 Sha224Core kernel::sha2::Sha256, U28 U64;
    Sha256 Sha256Core kernel::sha2::Sha256, U32 U64;
    Sha384 Sha384Core kernel::sha2::Sha512, U48 U128;
    Sha512 Sha512Core kernel::sha2::Sha512, U64 U128;
    Sha512_256 Sha512_256Core kernel::sha2::Sha512, U32 U128;
}

#[cfg(test)]
mod tests {
    use super::*;
    use digest_0_10::Digest;

    #[test]
    fn both_versions_of_the_traits_have_the_same_digests() {
        fn check<A: Digest, B: crate::Digest>() {
            for length in [0usize, 1, 55, 56, 64, 111, 112, 128, 1000] {
                let data: Vec<u8> = (0..length).map(|i| i as u8).collect();
                let mut hasher = A::new();
                data.chunks(13).for_each(|piece| hasher.update(piece));
                assert_eq!(hasher.finalize()[..], B::digest(&data)[..], "{length}");
            }
        }
        check::<Md5, crate::Md5>();
        check::<Sha1, crate::Sha1>();
        check::<Sha224, crate::Sha224>();
        check::<Sha256, crate::Sha256>();
        check::<Sha384, crate::Sha384>();
        check::<Sha512, crate::Sha512>();
        check::<Sha512_256, crate::Sha512_256>();
    }
}
