//! AEADs that implement the traits of RustCrypto's crate `aead`, for generic code.
//!
//! ```
//! use aead::{AeadInOut, KeyInit};
//! use gantry::aead::rustcrypto::Aes128Gcm;
//!
//! fn seal<A: AeadInOut + KeyInit>(key: &aead::Key<A>, nonce: &aead::Nonce<A>, data: &mut [u8]) -> aead::Result<aead::Tag<A>> {
//!     A::new(key).encrypt_inout_detached(nonce, b"header", data.into())
//! }
//! let mut data = *b"attack at dawn";
//! seal::<Aes128Gcm>(&[7; 16].into(), &[1; 12].into(), &mut data)?;
//! # Ok::<(), aead::Error>(())
//! ```
//!
//! `KeyInit::new` cannot pass a framework and uses the framework of the process ([`Gantry::shared`](crate::Gantry::shared)). `with` takes
//! any framework.
//!
//! Limits: nonces have 12 bytes (RFC 5116; 24 with XChaCha20) and tags 16. The traits allow one key only, so encrypt-then-authenticate
//! algorithms are missing. For these algorithms and for other lengths use [`Session`](crate::aead::Session). Errors do not show their
//! cause.

use std::fmt;

use aead::array::typenum::{U12, U16, U24, U32};
use aead::inout::InOutBuf;
use aead::{AeadCore, AeadInOut, Error, Key, KeyInit, KeySizeUser, Nonce, Tag, TagPosition};
use gantry_core::{Algorithm, Gantry, Result, Session, SessionParams};

use crate::shared::shared;

macro_rules! adapters {
    ($($name:ident $key:ident $nonce:ident;)*) => { $(
        #[doc = concat!("[`Aead::", stringify!($name), "`](crate::Aead::", stringify!($name), ").")]
        #[derive(Clone)]
        pub struct $name(Session);

        impl $name {
            /// Creates the AEAD over the given framework.
            ///
            /// # Errors
            /// No session can be made.
            pub fn with(framework: &Gantry, key: &Key<Self>) -> Result<Self> {
                framework.session(SessionParams::new(Algorithm::$name, key)).map(Self)
            }
        }

        impl KeySizeUser for $name {
            type KeySize = $key;
        }

        impl KeyInit for $name {
            fn new(key: &Key<Self>) -> Self {
                Self::with(shared(), key).expect("the type fixes the length of the key")
            }
        }

        impl AeadCore for $name {
            type NonceSize = $nonce;
            type TagSize = U16;
            const TAG_POSITION: TagPosition = TagPosition::Postfix;
        }

        impl AeadInOut for $name {
            fn encrypt_inout_detached(
                &self,
                nonce: &Nonce<Self>,
                aad: &[u8],
                data: InOutBuf<'_, '_, u8>,
            ) -> aead::Result<Tag<Self>> {
                let mut tag = Tag::<Self>::default();
                self.0.seal(nonce, aad, data.into_out_with_copied_in(), &mut tag).map_err(|_| Error)?;
                Ok(tag)
            }

            fn decrypt_inout_detached(
                &self,
                nonce: &Nonce<Self>,
                aad: &[u8],
                data: InOutBuf<'_, '_, u8>,
                tag: &Tag<Self>,
            ) -> aead::Result<()> {
                self.0.open(nonce, aad, data.into_out_with_copied_in(), tag).map_err(|_| Error)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )* };
}

adapters! {
    Aes128Gcm U16 U12;
    Aes192Gcm U24 U12;
    Aes256Gcm U32 U12;
    Aes128Ccm U16 U12;
    Aes192Ccm U24 U12;
    Aes256Ccm U32 U12;
    ChaCha20Poly1305 U32 U12;
    XChaCha20Poly1305 U32 U24;
}
