//! Maps algorithm numbers of virtio to algorithms.

use gantry_abi_virtio_crypto::Config;
use gantry_abi_virtio_crypto::constants::{HW_READY, aead, akcipher, cipher, hash, mac, service};
use gantry_core::{Algorithm, Gantry};

use Algorithm as A;

/// The longest cipher key in bytes: AES-256-XTS.
const MAX_CIPHER_KEY_BYTES: u32 = 64;
/// The longest MAC key in bytes: the room in session messages of vhost-user.
pub(crate) const MAX_AUTH_KEY_BYTES: u32 = 512;

/// Rows of a service: the number, and its algorithms, which differ in key length.
type AlgorithmTable = &'static [(u32, &'static [Algorithm])];

const CIPHERS: AlgorithmTable = &[
    (cipher::AES_ECB, &[A::Aes128Ecb, A::Aes192Ecb, A::Aes256Ecb]),
    (cipher::AES_CBC, &[A::Aes128Cbc, A::Aes192Cbc, A::Aes256Cbc]),
    (cipher::AES_CTR, &[A::Aes128Ctr, A::Aes192Ctr, A::Aes256Ctr]),
    (cipher::TDES_CBC, &[A::DesEde3Cbc]),
    (cipher::AES_XTS, &[A::Aes128Xts, A::Aes256Xts]),
];

const HASHES: AlgorithmTable = &[
    (hash::MD5, &[A::Md5]),
    (hash::SHA1, &[A::Sha1]),
    (hash::SHA_224, &[A::Sha224]),
    (hash::SHA_256, &[A::Sha256]),
    (hash::SHA_384, &[A::Sha384]),
    (hash::SHA_512, &[A::Sha512]),
    (hash::SHA3_224, &[A::Sha3_224]),
    (hash::SHA3_256, &[A::Sha3_256]),
    (hash::SHA3_384, &[A::Sha3_384]),
    (hash::SHA3_512, &[A::Sha3_512]),
];

const MACS: AlgorithmTable = &[
    (mac::HMAC_MD5, &[A::HmacMd5]),
    (mac::HMAC_SHA1, &[A::HmacSha1]),
    (mac::HMAC_SHA_224, &[A::HmacSha224]),
    (mac::HMAC_SHA_256, &[A::HmacSha256]),
    (mac::HMAC_SHA_384, &[A::HmacSha384]),
    (mac::HMAC_SHA_512, &[A::HmacSha512]),
    (mac::CMAC_AES, &[A::Aes128Cmac, A::Aes192Cmac, A::Aes256Cmac]),
];

const AEADS: AlgorithmTable = &[
    (aead::GCM, &[A::Aes128Gcm, A::Aes192Gcm, A::Aes256Gcm]),
    (aead::CCM, &[A::Aes128Ccm, A::Aes192Ccm, A::Aes256Ccm]),
    (aead::CHACHA20_POLY1305, &[A::ChaCha20Poly1305]),
];

const AKCIPHERS: AlgorithmTable =
    &[(akcipher::RSA, RSA_SIGNATURES), (akcipher::RSA, RSA_RAW), (akcipher::RSA, RSA_PKCS1_ENCRYPTION)];
/// RSA signatures of PKCS #1 v1.5.
pub(crate) const RSA_SIGNATURES: &[Algorithm] = &[A::Rsa2048Pkcs1, A::Rsa3072Pkcs1, A::Rsa4096Pkcs1];
/// RSA without padding.
pub(crate) const RSA_RAW: &[Algorithm] = &[A::Rsa2048Raw, A::Rsa3072Raw, A::Rsa4096Raw];
/// RSA encryption of PKCS #1 v1.5.
pub(crate) const RSA_PKCS1_ENCRYPTION: &[Algorithm] = &[A::Rsaes2048Pkcs1, A::Rsaes3072Pkcs1, A::Rsaes4096Pkcs1];

/// Returns the cipher with this number and a key of `key_length` bytes.
pub(crate) fn cipher(number: u32, key_length: u32) -> Option<Algorithm> {
    with_key_length(CIPHERS, number, key_length)
}

/// Returns the digest with this number.
pub(crate) fn hash(number: u32) -> Option<Algorithm> {
    lookup(HASHES, number).and_then(|algorithms| algorithms.first().copied())
}

/// Returns the MAC with this number and a key of `key_length` bytes.
pub(crate) fn mac(number: u32, key_length: u32) -> Option<Algorithm> {
    with_key_length(MACS, number, key_length)
}

/// Returns the AEAD with this number and a key of `key_length` bytes.
pub(crate) fn aead(number: u32, key_length: u32) -> Option<Algorithm> {
    with_key_length(AEADS, number, key_length)
}

/// Returns the algorithm with a modulus of `modulus_length` bytes.
pub(crate) fn rsa(algorithms: &[Algorithm], modulus_length: usize) -> Option<Algorithm> {
    algorithms.iter().copied().find(|algorithm| algorithm.info().tag.max == modulus_length)
}

/// Builds the configuration that guests read: the algorithms that some device of this framework serves now.
pub(crate) fn device_config(gantry: &Gantry, data_queues: u32, max_size: u64) -> Config {
    let served = |table: AlgorithmTable| {
        let mask_bit = |(number, algorithms): &(u32, &[Algorithm])| {
            let is_any_served = algorithms.iter().any(|algorithm| is_served(gantry, *algorithm));
            u64::from(is_any_served) << number
        };
        table.iter().map(mask_bit).fold(0, |mask, bit| mask | bit)
    };
    let (ciphers, hashes, macs) = (served(CIPHERS), served(HASHES) as u32, served(MACS));
    let (aeads, akciphers) = (served(AEADS) as u32, served(AKCIPHERS) as u32);
    let services = [
        (service::CIPHER, ciphers != 0),
        (service::HASH, hashes != 0),
        (service::MAC, macs != 0),
        (service::AEAD, aeads != 0),
        (service::AKCIPHER, akciphers != 0),
    ];
    Config {
        status: HW_READY,
        max_dataqueues: data_queues,
        services: services.iter().map(|(service, offered)| u32::from(*offered) << service).sum(),
        ciphers,
        hashes,
        macs,
        aeads,
        max_cipher_key_len: MAX_CIPHER_KEY_BYTES,
        max_auth_key_len: MAX_AUTH_KEY_BYTES,
        akciphers,
        max_size,
    }
}

fn is_served(gantry: &Gantry, algorithm: Algorithm) -> bool {
    let operation = algorithm.kind().operations()[0];
    let session = gantry.session(gantry_core::sample_params(algorithm));
    session.is_ok_and(|session| session.route(operation, 64, 1).is_some())
}

fn lookup(table: AlgorithmTable, number: u32) -> Option<&'static [Algorithm]> {
    table.iter().find(|(other, _)| *other == number).map(|(_, algorithms)| *algorithms)
}

fn with_key_length(table: AlgorithmTable, number: u32, key_length: u32) -> Option<Algorithm> {
    let key_length = key_length as usize;
    lookup(table, number)?.iter().copied().find(|algorithm| algorithm.info().key.allows(key_length))
}
