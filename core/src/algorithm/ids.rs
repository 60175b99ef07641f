//! The ids of algorithms.

/// Writes the enum and the list of the algorithms in the table.
macro_rules! algorithms {
    ($($variant:ident)+) => {
        /// The id of an algorithm. Its implementation on a device is a [`Capability`](crate::driver::Capability).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the rows say more")]
        pub enum Algorithm {
            $($variant,)+
            // Algorithms that drivers bring (`registered.rs`).
            #[doc(hidden)] Registered0, #[doc(hidden)] Registered1, #[doc(hidden)] Registered2, #[doc(hidden)] Registered3,
            #[doc(hidden)] Registered4, #[doc(hidden)] Registered5, #[doc(hidden)] Registered6, #[doc(hidden)] Registered7,
        }

        impl Algorithm {
            /// The algorithms of the table, in its order. [`all`](Self::all) also has the algorithms that drivers bring.
            pub const ALL: &'static [Algorithm] = &[$(Algorithm::$variant),+];
        }
    };
}

// The order is the same as in `table.rs`; a test in `info.rs` checks it.
#[rustfmt::skip]
algorithms! {
    Null Md5 Sha1 Sha224 Sha256 Sha384 Sha512 Sha512_256 Sha3_224 Sha3_256 Sha3_384 Sha3_512 Shake128 Shake256
    TurboShake128 TurboShake256 Kt128 Ripemd160 Blake2b256 HmacMd5 HmacSha1 HmacSha224 HmacSha256 HmacSha384
    HmacSha512 HmacSha512_256 HmacSha3_224 HmacSha3_256 HmacSha3_384 HmacSha3_512 HmacRipemd160 Aes128Cmac Aes192Cmac
    Aes256Cmac Aes128Gmac Aes192Gmac Aes256Gmac Poly1305 Aes128Ecb Aes192Ecb Aes256Ecb Aes128Cbc Aes192Cbc Aes256Cbc
    Aes128Ctr Aes192Ctr Aes256Ctr Aes128Ofb Aes192Ofb Aes256Ofb Aes128Cfb Aes192Cfb Aes256Cfb Aes128Xts Aes256Xts
    DesEde3Cbc ChaCha20 Aes128Gcm Aes192Gcm Aes256Gcm Aes128Ccm Aes192Ccm Aes256Ccm ChaCha20Poly1305 XChaCha20Poly1305
    Aes128CbcHmacSha1 Aes192CbcHmacSha1 Aes256CbcHmacSha1 Aes128CbcHmacSha256 Aes192CbcHmacSha256 Aes256CbcHmacSha256
    Aes128CbcHmacSha384 Aes192CbcHmacSha384 Aes256CbcHmacSha384 Aes128CbcHmacSha512 Aes192CbcHmacSha512
    Aes256CbcHmacSha512 Aes128CtrHmacSha1 Aes192CtrHmacSha1 Aes256CtrHmacSha1 Aes128CtrHmacSha256 Aes192CtrHmacSha256
    Aes256CtrHmacSha256 Aes128CtrHmacSha384 Aes192CtrHmacSha384 Aes256CtrHmacSha384 Aes128CtrHmacSha512
    Aes192CtrHmacSha512 Aes256CtrHmacSha512 Ed25519 X25519 EcdsaP256 EcdhP256 Rsa2048Pkcs1 Rsa3072Pkcs1 Rsa4096Pkcs1
    Rsa2048Pss Rsa3072Pss Rsa4096Pss Rsa2048Raw Rsa3072Raw Rsa4096Raw Rsaes2048Pkcs1 Rsaes3072Pkcs1 Rsaes4096Pkcs1
    MlKem512 MlKem768 MlKem1024 MlDsa44 MlDsa65 MlDsa87 SlhDsaSha2_128s SlhDsaSha2_128f SlhDsaSha2_192s
    SlhDsaSha2_192f SlhDsaSha2_256s SlhDsaSha2_256f SlhDsaShake128s SlhDsaShake128f SlhDsaShake192s SlhDsaShake192f
    SlhDsaShake256s SlhDsaShake256f EspAes128Gcm EspAes192Gcm EspAes256Gcm EspChaCha20Poly1305 EspAes128CbcHmacSha1
    EspAes256CbcHmacSha1 EspAes128CbcHmacSha256 EspAes256CbcHmacSha256 Deflate Zlib Gzip Zstd
}

use Algorithm as A;

impl Algorithm {
    /// The ids for algorithms that drivers bring. They follow the ids of the table. A process has room for eight.
    #[rustfmt::skip]
    pub(super) const REGISTERED: [Algorithm; 8] = [
        A::Registered0, A::Registered1, A::Registered2, A::Registered3,
        A::Registered4, A::Registered5, A::Registered6, A::Registered7,
    ];

    /// The maximum number of algorithms. Every id is below this number.
    pub(crate) const COUNT: usize = Algorithm::ALL.len() + Algorithm::REGISTERED.len();
}
