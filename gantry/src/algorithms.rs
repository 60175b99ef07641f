//! An enum for each kind of algorithm. A test compares the enums with core's table.

use std::fmt;
use std::str::FromStr;

use gantry_core::{Algorithm, Kind, UnknownAlgorithm};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $kind:ident { $($variant:ident)+ })+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $(
                #[doc = concat!("[`Algorithm::", stringify!($variant), "`](gantry_core::Algorithm::", stringify!($variant), ").")]
                $variant,
            )+
        }

        impl $name {
            /// All variants.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns the algorithm in core's table. Its [row](Algorithm::info) has the lengths and the standard.
            pub const fn algorithm(self) -> Algorithm {
                match self {
                    $($name::$variant => Algorithm::$variant),+
                }
            }
        }

        impl FromStr for $name {
            type Err = UnknownAlgorithm;

            /// Accepts the names and aliases of core's table in any spelling: `SHA-256`, `sha256`, `SHA2-256`.
            fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
                let kind = Kind::$kind;
                let algorithm = Algorithm::of_kind(name, kind)?;
                let mut all = Self::ALL.iter().copied();
                let unknown = || UnknownAlgorithm { name: name.to_owned(), kind: Some(kind), suggestions: Vec::new() };
                all.find(|variant| variant.algorithm() == algorithm).ok_or_else(unknown)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.algorithm().name())
            }
        }
    )+ };
}

kinds! {
    /// Hash functions.
    Digest: Digest {
        Md5 Sha1 Sha224 Sha256 Sha384 Sha512 Sha512_256 Sha3_224 Sha3_256 Sha3_384 Sha3_512 Shake128 Shake256
        TurboShake128 TurboShake256 Kt128 Ripemd160 Blake2b256
    }
    /// Message authentication codes that need no nonce, and whose keys serve many messages.
    Mac: Mac {
        HmacMd5 HmacSha1 HmacSha224 HmacSha256 HmacSha384 HmacSha512 HmacSha512_256 HmacSha3_224 HmacSha3_256
        HmacSha3_384 HmacSha3_512 HmacRipemd160 Aes128Cmac Aes192Cmac Aes256Cmac
    }
    /// Encryption without integrity.
    Cipher: Cipher {
        Aes128Ecb Aes192Ecb Aes256Ecb Aes128Cbc Aes192Cbc Aes256Cbc Aes128Ctr Aes192Ctr Aes256Ctr Aes128Ofb Aes192Ofb
        Aes256Ofb Aes128Cfb Aes192Cfb Aes256Cfb Aes128Xts Aes256Xts DesEde3Cbc ChaCha20
    }
    /// Authenticated encryption with associated data.
    Aead: Aead {
        Aes128Gcm Aes192Gcm Aes256Gcm Aes128Ccm Aes192Ccm Aes256Ccm ChaCha20Poly1305 XChaCha20Poly1305
        Aes128CbcHmacSha1 Aes192CbcHmacSha1 Aes256CbcHmacSha1 Aes128CbcHmacSha256 Aes192CbcHmacSha256
        Aes256CbcHmacSha256 Aes128CbcHmacSha384 Aes192CbcHmacSha384 Aes256CbcHmacSha384 Aes128CbcHmacSha512
        Aes192CbcHmacSha512 Aes256CbcHmacSha512 Aes128CtrHmacSha1 Aes192CtrHmacSha1 Aes256CtrHmacSha1
        Aes128CtrHmacSha256 Aes192CtrHmacSha256 Aes256CtrHmacSha256 Aes128CtrHmacSha384 Aes192CtrHmacSha384
        Aes256CtrHmacSha384 Aes128CtrHmacSha512 Aes192CtrHmacSha512 Aes256CtrHmacSha512
    }
    /// Signatures.
    Signature: Signature {
        Ed25519 EcdsaP256 Rsa2048Pkcs1 Rsa3072Pkcs1 Rsa4096Pkcs1 Rsa2048Pss Rsa3072Pss Rsa4096Pss MlDsa44 MlDsa65
        MlDsa87 SlhDsaSha2_128s SlhDsaSha2_128f SlhDsaSha2_192s SlhDsaSha2_192f SlhDsaSha2_256s SlhDsaSha2_256f
        SlhDsaShake128s SlhDsaShake128f SlhDsaShake192s SlhDsaShake192f SlhDsaShake256s SlhDsaShake256f
    }
    /// Key encapsulation.
    Kem: Kem { MlKem512 MlKem768 MlKem1024 }
    /// Key agreement.
    Agreement: Exchange { X25519 EcdhP256 }
    /// Formats of compressed data.
    Compression: Compression { Deflate Zlib Gzip Zstd }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `true` for core's algorithms that have no handle in this crate.
    fn is_excluded(algorithm: Algorithm) -> bool {
        match algorithm {
            // Null does not encrypt. GMAC needs a nonce for each message; use the tag of GCM without data. A Poly1305 key is good for one
            // message only.
            Algorithm::Null
            | Algorithm::Aes128Gmac
            | Algorithm::Aes192Gmac
            | Algorithm::Aes256Gmac
            | Algorithm::Poly1305 => true,
            // Packets have their own interface, `gantry-protocols`. RSA encryption with PKCS #1 v1.5 padding needs a protocol that hides
            // failures, and raw RSA needs one that pads.
            _ => matches!(algorithm.kind(), Kind::Packet | Kind::Encipherment),
        }
    }

    #[test]
    fn names_are_parsed_in_any_spelling_and_by_kind() {
        for name in ["SHA-256", "sha256", "SHA2-256", "SHA256", "sha_256"] {
            assert_eq!(name.parse(), Ok(Digest::Sha256), "{name}");
        }
        assert!(Aead::ALL.iter().all(|aead| aead.to_string().parse() == Ok(*aead)));
        assert!(Agreement::ALL.iter().all(|agreement| agreement.to_string().parse() == Ok(*agreement)));
        let wrong = "sha256".parse::<Aead>().unwrap_err().to_string();
        assert!(wrong.starts_with("there is no AEAD 'sha256'; there are aes-128-gcm, "), "{wrong}");
        assert!("poly1305".parse::<Mac>().is_err() && "null".parse::<Cipher>().is_err());
    }

    #[test]
    fn enums_list_the_algorithms_of_core_by_kind() {
        fn ids<T: Copy>(all: &[T], id: fn(T) -> Algorithm) -> Vec<Algorithm> {
            all.iter().copied().map(id).collect()
        }
        let enums = [
            (Kind::Digest, ids(Digest::ALL, Digest::algorithm)),
            (Kind::Mac, ids(Mac::ALL, Mac::algorithm)),
            (Kind::Cipher, ids(Cipher::ALL, Cipher::algorithm)),
            (Kind::Aead, ids(Aead::ALL, Aead::algorithm)),
            (Kind::Signature, ids(Signature::ALL, Signature::algorithm)),
            (Kind::Kem, ids(Kem::ALL, Kem::algorithm)),
            (Kind::Exchange, ids(Agreement::ALL, Agreement::algorithm)),
            (Kind::Compression, ids(Compression::ALL, Compression::algorithm)),
        ];
        let of_kind = |kind| Algorithm::ALL.iter().copied().filter(move |id| id.kind() == kind && !is_excluded(*id));
        for (kind, listed) in &enums {
            assert_eq!(*listed, of_kind(*kind).collect::<Vec<_>>(), "{kind}");
        }
        let listed: usize = enums.iter().map(|(_, listed)| listed.len()).sum();
        let excluded = Algorithm::ALL.iter().filter(|id| is_excluded(**id)).count();
        assert_eq!(listed + excluded, Algorithm::ALL.len(), "a kind without an enum");
    }
}
