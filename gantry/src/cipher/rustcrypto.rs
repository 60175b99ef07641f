//! Ciphers that implement the traits of RustCrypto's crate `cipher`, for generic code.
//!
//! ```
//! use cipher::{KeyIvInit, StreamCipher};
//! use gantry::cipher::rustcrypto::Aes128Ctr;
//!
//! fn apply<C: KeyIvInit + StreamCipher>(key: &cipher::Key<C>, iv: &cipher::Iv<C>, data: &mut [u8]) {
//!     C::new(key, iv).apply_keystream(data);
//! }
//! let mut data = *b"attack at dawn";
//! apply::<Aes128Ctr>(&[7; 16].into(), &[1; 16].into(), &mut data);
//! apply::<Aes128Ctr>(&[7; 16].into(), &[1; 16].into(), &mut data);
//! assert_eq!(&data, b"attack at dawn");
//! ```
//!
//! Each object is a stream on one device. `KeyIvInit::new` cannot pass a framework and uses the framework of the process
//! ([`Gantry::shared`](crate::Gantry::shared)). `with` takes any framework.
//!
//! Limits:
//!
//! * **Failures.** If a device fails during a stream, methods with a result return `StreamCipherError`. All other methods panic, among them
//!   every method of the block modes. The stream cannot continue.
//! * **XTS.** No trait fits: a message is one unit with a tweak and may end in a partial block. Use
//!   [`Session::encrypt`](crate::cipher::Session::encrypt).
//! * **CFB and ECB.** This version of the crate has no trait for CFB. ECB through the block cipher traits would need a request per block.
//! * **Batches.** Streams run one at a time. To encrypt many CBC messages side by side, use
//!   [`Session::encrypt_many`](crate::cipher::Session::encrypt_many).
//! * **Positions.** Streams cannot seek.

use std::fmt;

use cipher::array::Array;
use cipher::common::ParBlocksSizeUser;
use cipher::consts::{U1, U8, U12, U16, U24, U32};
use cipher::{
    Block, BlockModeDecBackend, BlockModeDecClosure, BlockModeDecrypt, BlockModeEncBackend, BlockModeEncClosure,
    BlockModeEncrypt, BlockSizeUser, InOut, InOutBuf, Iv, IvSizeUser, Key, KeyIvInit, KeySizeUser, StreamCipher,
    StreamCipherError,
};
use gantry_core::{Algorithm, CipherStream, Gantry, Operation, Result, Session, SessionParams};

use crate::shared::shared;

/// A stream that is opened with its first data. A device may fail to open it, and the traits' constructors cannot return an error.
#[derive(Clone)]
struct LazyStream {
    session: Session,
    operation: Operation,
    iv: [u8; 16],
    iv_len: usize,
    stream: Option<CipherStream>,
    /// Bytes that the stream may still take.
    remaining: u64,
}

impl LazyStream {
    fn new(framework: &Gantry, algorithm: Algorithm, operation: Operation, key: &[u8], iv: &[u8]) -> Result<Self> {
        let session = framework.session(SessionParams::new(algorithm, key))?;
        let mut copy = [0; 16];
        copy[..iv.len()].copy_from_slice(iv);
        let remaining = algorithm.info().max_data;
        Ok(Self { session, operation, iv: copy, iv_len: iv.len(), stream: None, remaining })
    }

    fn can_take(&self, bytes: usize) -> bool {
        self.remaining >= bytes as u64
    }

    fn update(&mut self, data: &mut [u8]) -> Result<()> {
        let bytes = data.len() as u64;
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => empty.insert(self.session.cipher_stream(self.operation, &self.iv[..self.iv_len])?),
        };
        stream.update(data)?;
        self.remaining = self.remaining.saturating_sub(bytes);
        Ok(())
    }

    /// Calls `update` for methods of traits that cannot return an error.
    fn update_or_panic(&mut self, data: &mut [u8]) {
        self.update(data).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Defines a type with its keys and IVs. `$iv` converts the trait's IV to core's IV.
macro_rules! cipher {
    ($name:ident $algorithm:ident $operation:ident $key:ident $iv_size:ident $iv:expr, $doc:expr) => {
        #[doc = concat!("[`Cipher::", stringify!($algorithm), "`](crate::Cipher::", stringify!($algorithm), ")", $doc)]
        #[derive(Clone)]
        pub struct $name(LazyStream);

        impl $name {
            /// Creates the cipher over the given framework.
            ///
            /// # Errors
            /// No session can be made.
            pub fn with(framework: &Gantry, key: &Key<Self>, iv: &Iv<Self>) -> Result<Self> {
                LazyStream::new(framework, Algorithm::$algorithm, Operation::$operation, key, &($iv)(iv)).map(Self)
            }
        }

        impl KeySizeUser for $name {
            type KeySize = $key;
        }

        impl IvSizeUser for $name {
            type IvSize = $iv_size;
        }

        impl KeyIvInit for $name {
            fn new(key: &Key<Self>, iv: &Iv<Self>) -> Self {
                Self::with(shared(), key, iv).expect("the types fix the lengths of key and IV")
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}

macro_rules! streams {
    ($($name:ident $key:ident $iv_size:ident $iv:expr, $doc:expr;)*) => { $(
        cipher! { $name $name Encrypt $key $iv_size $iv, $doc }

        impl StreamCipher for $name {
            fn check_remaining(&self, bytes: usize) -> std::result::Result<(), StreamCipherError> {
                if self.0.can_take(bytes) { Ok(()) } else { Err(StreamCipherError) }
            }

            fn unchecked_apply_keystream_inout(&mut self, data: InOutBuf<'_, '_, u8>) {
                self.0.update_or_panic(data.into_out_with_copied_in());
            }

            fn unchecked_write_keystream(&mut self, data: &mut [u8]) {
                data.fill(0);
                self.0.update_or_panic(data);
            }

            fn try_apply_keystream_inout(&mut self, data: InOutBuf<'_, '_, u8>) -> std::result::Result<(), StreamCipherError> {
                self.check_remaining(data.len())?;
                self.0.update(data.into_out_with_copied_in()).map_err(|_| StreamCipherError)
            }

            fn try_write_keystream(&mut self, data: &mut [u8]) -> std::result::Result<(), StreamCipherError> {
                self.check_remaining(data.len())?;
                data.fill(0);
                self.0.update(data).map_err(|_| StreamCipherError)
            }
        }
    )* };
}

/// Returns core's IV of ChaCha20, which begins with the number of the first block. Like RustCrypto, starts at block 0.
fn from_block_0(nonce: &Array<u8, U12>) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[4..].copy_from_slice(nonce);
    iv
}

streams! {
    Aes128Ctr U16 U16 Array::clone, ": the IV is the first block of the counter, which counts 128 bits with the high byte first.";
    Aes192Ctr U24 U16 Array::clone, ": the IV is the first block of the counter, which counts 128 bits with the high byte first.";
    Aes256Ctr U32 U16 Array::clone, ": the IV is the first block of the counter, which counts 128 bits with the high byte first.";
    Aes128Ofb U16 U16 Array::clone, ".";
    Aes192Ofb U24 U16 Array::clone, ".";
    Aes256Ofb U32 U16 Array::clone, ".";
    ChaCha20 U32 U12 from_block_0, " of RFC 8439: a nonce of 12 bytes, from block 0.";
}

macro_rules! block_modes {
    ($($encrypts:ident $decrypts:ident $algorithm:ident $key:ident $block:ident;)*) => { $(
        cipher! { $encrypts $algorithm Encrypt $key $block Array::clone, ", encrypting." }
        cipher! { $decrypts $algorithm Decrypt $key $block Array::clone, ", decrypting." }

        block_mode! { $encrypts $block BlockModeEncrypt encrypt_with_backend encrypt_blocks_inout BlockModeEncClosure BlockModeEncBackend encrypt_block }
        block_mode! { $decrypts $block BlockModeDecrypt decrypt_with_backend decrypt_blocks_inout BlockModeDecClosure BlockModeDecBackend decrypt_block }
    )* };
}

/// Implements one direction of a block mode.
macro_rules! block_mode {
    (
        $name:ident $block:ident $mode:ident $with_backend:ident $blocks_inout:ident $closure:ident $backend:ident
        $one_block:ident
    ) => {
        impl BlockSizeUser for $name {
            type BlockSize = $block;
        }

        impl ParBlocksSizeUser for $name {
            type ParBlocksSize = U1;
        }

        impl $backend for $name {
            fn $one_block(&mut self, block: InOut<'_, '_, Block<Self>>) {
                self.0.update_or_panic(block.into_out_with_copied_in());
            }
        }

        impl $mode for $name {
            fn $with_backend(&mut self, f: impl $closure<BlockSize = $block>) {
                f.call(self);
            }

            /// Handles all blocks in one step. The padded methods of the trait call this.
            fn $blocks_inout(&mut self, blocks: InOutBuf<'_, '_, Block<Self>>) {
                self.0.update_or_panic(Array::slice_as_flattened_mut(blocks.into_out_with_copied_in()));
            }
        }
    };
}

block_modes! {
    Aes128CbcEnc Aes128CbcDec Aes128Cbc U16 U16;
    Aes192CbcEnc Aes192CbcDec Aes192Cbc U24 U16;
    Aes256CbcEnc Aes256CbcDec Aes256Cbc U32 U16;
    DesEde3CbcEnc DesEde3CbcDec DesEde3Cbc U24 U8;
}
