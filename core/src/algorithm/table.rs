//! The algorithm table: one row per algorithm.
//!
//! Names are in lower case: OpenSSL's if it has one. Aliases are other names that programs use for exactly this algorithm:
//! OpenSSL's own variants, the Linux kernel's, IANA's (RFC 5116 AEADs, SSH, hash names). The kernel names a cipher
//! without its key size (`cbc(aes)`), so such a name may stand for several rows.

use super::generators;
use super::ids::Algorithm;
use super::lengths::Lengths;
use super::row::{
    AlgorithmInfo, CHACHA20_MAX, aead, ccm, cipher, compression, digest, esp, eta, exchange, gcm, hmac, mac, ml_dsa,
    ml_kem, rsa_encryption, rsa_signature, signature, slh_dsa, xof, xts,
};
use super::rsa;

/// Writes the table from a list of rows.
macro_rules! rows {
    ($($variant:ident = $row:expr;)+) => {
        pub(super) static TABLE: &[AlgorithmInfo] = &[$(AlgorithmInfo { algorithm: Algorithm::$variant, ..$row }),+];
    };
}

use Algorithm as A;

rows! {
    Null = cipher("null", &["cipher_null", "null-cipher"], "ecb(cipher_null)", 0, 0, 1).from("RFC 2410");

    Md5 = digest("md5", &["ssl3-md5"], "md5", 64, 16).from("RFC 1321");
    Sha1 = digest("sha1", &["sha-1", "ssl3-sha1"], "sha1", 64, 20).from("FIPS 180-4");
    Sha224 = digest("sha224", &["sha2-224", "sha-224"], "sha224", 64, 28).from("FIPS 180-4");
    Sha256 = digest("sha256", &["sha2-256", "sha-256"], "sha256", 64, 32).from("FIPS 180-4");
    Sha384 = digest("sha384", &["sha2-384", "sha-384"], "sha384", 128, 48).from("FIPS 180-4");
    Sha512 = digest("sha512", &["sha2-512", "sha-512"], "sha512", 128, 64).from("FIPS 180-4");
    Sha512_256 = digest("sha512-256", &["sha2-512/256", "sha-512/256"], "", 128, 32).from("FIPS 180-4");
    Sha3_224 = digest("sha3-224", &[], "sha3-224", 144, 28).from("FIPS 202");
    Sha3_256 = digest("sha3-256", &[], "sha3-256", 136, 32).from("FIPS 202");
    Sha3_384 = digest("sha3-384", &[], "sha3-384", 104, 48).from("FIPS 202");
    Sha3_512 = digest("sha3-512", &[], "sha3-512", 72, 64).from("FIPS 202");
    Shake128 = xof("shake128", &["shake-128"], 168, 32).from("FIPS 202");
    Shake256 = xof("shake256", &["shake-256"], 136, 64).from("FIPS 202");
    // The domain byte is 1F, and KT128's customization string is empty.
    TurboShake128 = xof("turboshake128", &[], 168, 32).from("RFC 9861");
    TurboShake256 = xof("turboshake256", &[], 136, 64).from("RFC 9861");
    Kt128 = xof("kt128", &["kangarootwelve", "k12"], 168, 32).from("RFC 9861");
    Ripemd160 = digest("ripemd160", &["ripemd-160", "rmd160", "ripemd"], "rmd160", 64, 20).from("ISO/IEC 10118-3");
    Blake2b256 = digest("blake2b-256", &["blake2b256"], "blake2b-256", 128, 32).from("RFC 7693");

    HmacMd5 = hmac("hmac-md5", &[], "hmac(md5)", A::Md5, 64, 16);
    HmacSha1 = hmac("hmac-sha1", &["hmac-sha-1"], "hmac(sha1)", A::Sha1, 64, 20);
    HmacSha224 = hmac("hmac-sha224", &["hmac-sha2-224"], "hmac(sha224)", A::Sha224, 64, 28);
    HmacSha256 = hmac("hmac-sha256", &["hmac-sha2-256", "hs256"], "hmac(sha256)", A::Sha256, 64, 32);
    HmacSha384 = hmac("hmac-sha384", &["hmac-sha2-384", "hs384"], "hmac(sha384)", A::Sha384, 128, 48);
    HmacSha512 = hmac("hmac-sha512", &["hmac-sha2-512", "hs512"], "hmac(sha512)", A::Sha512, 128, 64);
    HmacSha512_256 = hmac("hmac-sha512-256", &["hmac-sha2-512/256"], "", A::Sha512_256, 128, 32);
    HmacSha3_224 = hmac("hmac-sha3-224", &[], "hmac(sha3-224)", A::Sha3_224, 144, 28);
    HmacSha3_256 = hmac("hmac-sha3-256", &[], "hmac(sha3-256)", A::Sha3_256, 136, 32);
    HmacSha3_384 = hmac("hmac-sha3-384", &[], "hmac(sha3-384)", A::Sha3_384, 104, 48);
    HmacSha3_512 = hmac("hmac-sha3-512", &[], "hmac(sha3-512)", A::Sha3_512, 72, 64);
    HmacRipemd160 = hmac("hmac-ripemd160", &["hmac-rmd160"], "hmac(rmd160)", A::Ripemd160, 64, 20);

    Aes128Cmac = mac("aes-128-cmac", &["cmac-aes-128", "aes-cmac-128"], "cmac(aes)", 16, 0).from("SP 800-38B");
    Aes192Cmac = mac("aes-192-cmac", &["cmac-aes-192"], "cmac(aes)", 24, 0).from("SP 800-38B");
    Aes256Cmac = mac("aes-256-cmac", &["cmac-aes-256"], "cmac(aes)", 32, 0).from("SP 800-38B");
    Aes128Gmac = mac("aes-128-gmac", &["gmac-aes-128"], "", 16, 12).from("SP 800-38D");
    Aes192Gmac = mac("aes-192-gmac", &["gmac-aes-192"], "", 24, 12).from("SP 800-38D");
    Aes256Gmac = mac("aes-256-gmac", &["gmac-aes-256"], "", 32, 12).from("SP 800-38D");
    // The key is good for one message only.
    Poly1305 = mac("poly1305", &[], "poly1305", 32, 0).full_tag().from("RFC 8439");

    Aes128Ecb = cipher("aes-128-ecb", &["aes128-ecb"], "ecb(aes)", 16, 0, 16).from("SP 800-38A");
    Aes192Ecb = cipher("aes-192-ecb", &["aes192-ecb"], "ecb(aes)", 24, 0, 16).from("SP 800-38A");
    Aes256Ecb = cipher("aes-256-ecb", &["aes256-ecb"], "ecb(aes)", 32, 0, 16).from("SP 800-38A");
    Aes128Cbc = cipher("aes-128-cbc", &["aes128-cbc", "aes128"], "cbc(aes)", 16, 16, 16).from("SP 800-38A");
    Aes192Cbc = cipher("aes-192-cbc", &["aes192-cbc", "aes192"], "cbc(aes)", 24, 16, 16).from("SP 800-38A");
    Aes256Cbc = cipher("aes-256-cbc", &["aes256-cbc", "aes256"], "cbc(aes)", 32, 16, 16).from("SP 800-38A");
    Aes128Ctr = cipher("aes-128-ctr", &["aes128-ctr"], "ctr(aes)", 16, 16, 1).from("SP 800-38A");
    Aes192Ctr = cipher("aes-192-ctr", &["aes192-ctr"], "ctr(aes)", 24, 16, 1).from("SP 800-38A");
    Aes256Ctr = cipher("aes-256-ctr", &["aes256-ctr"], "ctr(aes)", 32, 16, 1).from("SP 800-38A");
    Aes128Ofb = cipher("aes-128-ofb", &["aes128-ofb"], "ofb(aes)", 16, 16, 1).from("SP 800-38A");
    Aes192Ofb = cipher("aes-192-ofb", &["aes192-ofb"], "ofb(aes)", 24, 16, 1).from("SP 800-38A");
    Aes256Ofb = cipher("aes-256-ofb", &["aes256-ofb"], "ofb(aes)", 32, 16, 1).from("SP 800-38A");
    Aes128Cfb = cipher("aes-128-cfb", &["aes-128-cfb128", "aes128-cfb"], "cfb(aes)", 16, 16, 1).from("SP 800-38A");
    Aes192Cfb = cipher("aes-192-cfb", &["aes-192-cfb128", "aes192-cfb"], "cfb(aes)", 24, 16, 1).from("SP 800-38A");
    Aes256Cfb = cipher("aes-256-cfb", &["aes-256-cfb128", "aes256-cfb"], "cfb(aes)", 32, 16, 1).from("SP 800-38A");
    Aes128Xts = xts("aes-128-xts", &["aes128-xts"], 32);
    Aes256Xts = xts("aes-256-xts", &["aes256-xts"], 64);
    DesEde3Cbc = cipher("des-ede3-cbc", &["des3", "3des-cbc", "des3-cbc"], "cbc(des3_ede)", 24, 8, 8).from("SP 800-67");
    // The IV has OpenSSL's layout: a little-endian 32-bit block counter, then the 12-byte nonce of RFC 8439. The counter must not wrap
    // within a request, so a request has at most 256 GiB.
    ChaCha20 = cipher("chacha20", &["chacha"], "chacha20", 32, 16, 1).max_data(64 << 32).from("RFC 8439");

    Aes128Gcm = gcm("aes-128-gcm", &["aead_aes_128_gcm", "id-aes128-gcm", "aes128-gcm", "aes128-gcm@openssh.com", "a128gcm", "aes-gcm-128"], 16);
    Aes192Gcm = gcm("aes-192-gcm", &["id-aes192-gcm", "aes192-gcm", "a192gcm", "aes-gcm-192"], 24);
    Aes256Gcm = gcm("aes-256-gcm", &["aead_aes_256_gcm", "id-aes256-gcm", "aes256-gcm", "aes256-gcm@openssh.com", "a256gcm", "aes-gcm-256"], 32);
    Aes128Ccm = ccm("aes-128-ccm", &["aead_aes_128_ccm", "id-aes128-ccm", "aes128-ccm"], 16);
    Aes192Ccm = ccm("aes-192-ccm", &["id-aes192-ccm", "aes192-ccm"], 24);
    Aes256Ccm = ccm("aes-256-ccm", &["aead_aes_256_ccm", "id-aes256-ccm", "aes256-ccm"], 32);
    ChaCha20Poly1305 = aead("chacha20-poly1305", &["aead_chacha20_poly1305", "chacha20poly1305"],
        "rfc7539(chacha20,poly1305)", 32, Lengths::exactly(12)).max_data(CHACHA20_MAX).full_tag().from("RFC 8439");
    XChaCha20Poly1305 = aead("xchacha20-poly1305", &["aead_xchacha20_poly1305", "xchacha20poly1305"],
        "", 32, Lengths::exactly(24)).max_data(CHACHA20_MAX).full_tag().from("draft-irtf-cfrg-xchacha-03");

    Aes128CbcHmacSha1 = eta("aes-128-cbc-hmac-sha1", "authenc(hmac(sha1),cbc(aes))", A::Aes128Cbc, 16, 16, A::Sha1, 20);
    Aes192CbcHmacSha1 = eta("aes-192-cbc-hmac-sha1", "authenc(hmac(sha1),cbc(aes))", A::Aes192Cbc, 24, 16, A::Sha1, 20);
    Aes256CbcHmacSha1 = eta("aes-256-cbc-hmac-sha1", "authenc(hmac(sha1),cbc(aes))", A::Aes256Cbc, 32, 16, A::Sha1, 20);
    Aes128CbcHmacSha256 = eta("aes-128-cbc-hmac-sha256", "authenc(hmac(sha256),cbc(aes))", A::Aes128Cbc, 16, 16, A::Sha256, 32);
    Aes192CbcHmacSha256 = eta("aes-192-cbc-hmac-sha256", "authenc(hmac(sha256),cbc(aes))", A::Aes192Cbc, 24, 16, A::Sha256, 32);
    Aes256CbcHmacSha256 = eta("aes-256-cbc-hmac-sha256", "authenc(hmac(sha256),cbc(aes))", A::Aes256Cbc, 32, 16, A::Sha256, 32);
    Aes128CbcHmacSha384 = eta("aes-128-cbc-hmac-sha384", "authenc(hmac(sha384),cbc(aes))", A::Aes128Cbc, 16, 16, A::Sha384, 48);
    Aes192CbcHmacSha384 = eta("aes-192-cbc-hmac-sha384", "authenc(hmac(sha384),cbc(aes))", A::Aes192Cbc, 24, 16, A::Sha384, 48);
    Aes256CbcHmacSha384 = eta("aes-256-cbc-hmac-sha384", "authenc(hmac(sha384),cbc(aes))", A::Aes256Cbc, 32, 16, A::Sha384, 48);
    Aes128CbcHmacSha512 = eta("aes-128-cbc-hmac-sha512", "authenc(hmac(sha512),cbc(aes))", A::Aes128Cbc, 16, 16, A::Sha512, 64);
    Aes192CbcHmacSha512 = eta("aes-192-cbc-hmac-sha512", "authenc(hmac(sha512),cbc(aes))", A::Aes192Cbc, 24, 16, A::Sha512, 64);
    Aes256CbcHmacSha512 = eta("aes-256-cbc-hmac-sha512", "authenc(hmac(sha512),cbc(aes))", A::Aes256Cbc, 32, 16, A::Sha512, 64);
    Aes128CtrHmacSha1 = eta("aes-128-ctr-hmac-sha1", "authenc(hmac(sha1),ctr(aes))", A::Aes128Ctr, 16, 1, A::Sha1, 20);
    Aes192CtrHmacSha1 = eta("aes-192-ctr-hmac-sha1", "authenc(hmac(sha1),ctr(aes))", A::Aes192Ctr, 24, 1, A::Sha1, 20);
    Aes256CtrHmacSha1 = eta("aes-256-ctr-hmac-sha1", "authenc(hmac(sha1),ctr(aes))", A::Aes256Ctr, 32, 1, A::Sha1, 20);
    Aes128CtrHmacSha256 = eta("aes-128-ctr-hmac-sha256", "authenc(hmac(sha256),ctr(aes))", A::Aes128Ctr, 16, 1, A::Sha256, 32);
    Aes192CtrHmacSha256 = eta("aes-192-ctr-hmac-sha256", "authenc(hmac(sha256),ctr(aes))", A::Aes192Ctr, 24, 1, A::Sha256, 32);
    Aes256CtrHmacSha256 = eta("aes-256-ctr-hmac-sha256", "authenc(hmac(sha256),ctr(aes))", A::Aes256Ctr, 32, 1, A::Sha256, 32);
    Aes128CtrHmacSha384 = eta("aes-128-ctr-hmac-sha384", "authenc(hmac(sha384),ctr(aes))", A::Aes128Ctr, 16, 1, A::Sha384, 48);
    Aes192CtrHmacSha384 = eta("aes-192-ctr-hmac-sha384", "authenc(hmac(sha384),ctr(aes))", A::Aes192Ctr, 24, 1, A::Sha384, 48);
    Aes256CtrHmacSha384 = eta("aes-256-ctr-hmac-sha384", "authenc(hmac(sha384),ctr(aes))", A::Aes256Ctr, 32, 1, A::Sha384, 48);
    Aes128CtrHmacSha512 = eta("aes-128-ctr-hmac-sha512", "authenc(hmac(sha512),ctr(aes))", A::Aes128Ctr, 16, 1, A::Sha512, 64);
    Aes192CtrHmacSha512 = eta("aes-192-ctr-hmac-sha512", "authenc(hmac(sha512),ctr(aes))", A::Aes192Ctr, 24, 1, A::Sha512, 64);
    Aes256CtrHmacSha512 = eta("aes-256-ctr-hmac-sha512", "authenc(hmac(sha512),ctr(aes))", A::Aes256Ctr, 32, 1, A::Sha512, 64);

    Ed25519 = signature("ed25519", &["1.3.101.112"], 32, 32, 64).from("RFC 8032");
    X25519 = exchange("x25519", &["1.3.101.110", "curve25519"], 32, &generators::X25519).from("RFC 7748");
    // ECDSA's message is a digest, of which the first 32 bytes count (FIPS 186-5, 6.4.1). Numbers are big-endian. A private key is a
    // number, a public key the point 4 ‖ x ‖ y (SEC 1, 2.3.3), a signature r ‖ s, and a secret the x coordinate of a point.
    EcdsaP256 = signature("ecdsa-p256", &["ecdsa-nistp256"], 32, 65, 64).randomized().from("FIPS 186-5");
    EcdhP256 = exchange("ecdh-p256", &["ecdh-nistp256"], 32, generators::P256).from("SP 800-56A");
    // The message of a signature is a digest. `rsa.rs` describes the digests and the layout of keys.
    Rsa2048Pkcs1 = rsa_signature("rsa-2048-pkcs1", 256);
    Rsa3072Pkcs1 = rsa_signature("rsa-3072-pkcs1", 384);
    Rsa4096Pkcs1 = rsa_signature("rsa-4096-pkcs1", 512);
    Rsa2048Pss = rsa_signature("rsa-2048-pss", 256).randomized();
    Rsa3072Pss = rsa_signature("rsa-3072-pss", 384).randomized();
    Rsa4096Pss = rsa_signature("rsa-4096-pss", 512).randomized();
    Rsa2048Raw = rsa_encryption("rsa-2048-raw", 256, 0);
    Rsa3072Raw = rsa_encryption("rsa-3072-raw", 384, 0);
    Rsa4096Raw = rsa_encryption("rsa-4096-raw", 512, 0);
    Rsaes2048Pkcs1 = rsa_encryption("rsaes-2048-pkcs1", 256, rsa::MIN_PADDING_LEN);
    Rsaes3072Pkcs1 = rsa_encryption("rsaes-3072-pkcs1", 384, rsa::MIN_PADDING_LEN);
    Rsaes4096Pkcs1 = rsa_encryption("rsaes-4096-pkcs1", 512, rsa::MIN_PADDING_LEN);

    MlKem512 = ml_kem("ml-kem-512", &["mlkem512", "2.16.840.1.101.3.4.4.1"], 1632, 800, 768);
    MlKem768 = ml_kem("ml-kem-768", &["mlkem768", "2.16.840.1.101.3.4.4.2"], 2400, 1184, 1088);
    MlKem1024 = ml_kem("ml-kem-1024", &["mlkem1024", "2.16.840.1.101.3.4.4.3"], 3168, 1568, 1568);
    MlDsa44 = ml_dsa("ml-dsa-44", &["mldsa44", "2.16.840.1.101.3.4.3.17"], 2560, 1312, 2420);
    MlDsa65 = ml_dsa("ml-dsa-65", &["mldsa65", "2.16.840.1.101.3.4.3.18"], 4032, 1952, 3309);
    MlDsa87 = ml_dsa("ml-dsa-87", &["mldsa87", "2.16.840.1.101.3.4.3.19"], 4896, 2592, 4627);
    SlhDsaSha2_128s = slh_dsa("slh-dsa-sha2-128s", &["id-slh-dsa-sha2-128s", "2.16.840.1.101.3.4.3.20"], 16, 7856);
    SlhDsaSha2_128f = slh_dsa("slh-dsa-sha2-128f", &["id-slh-dsa-sha2-128f", "2.16.840.1.101.3.4.3.21"], 16, 17088);
    SlhDsaSha2_192s = slh_dsa("slh-dsa-sha2-192s", &["id-slh-dsa-sha2-192s", "2.16.840.1.101.3.4.3.22"], 24, 16224);
    SlhDsaSha2_192f = slh_dsa("slh-dsa-sha2-192f", &["id-slh-dsa-sha2-192f", "2.16.840.1.101.3.4.3.23"], 24, 35664);
    SlhDsaSha2_256s = slh_dsa("slh-dsa-sha2-256s", &["id-slh-dsa-sha2-256s", "2.16.840.1.101.3.4.3.24"], 32, 29792);
    SlhDsaSha2_256f = slh_dsa("slh-dsa-sha2-256f", &["id-slh-dsa-sha2-256f", "2.16.840.1.101.3.4.3.25"], 32, 49856);
    SlhDsaShake128s = slh_dsa("slh-dsa-shake-128s", &["id-slh-dsa-shake-128s", "2.16.840.1.101.3.4.3.26"], 16, 7856);
    SlhDsaShake128f = slh_dsa("slh-dsa-shake-128f", &["id-slh-dsa-shake-128f", "2.16.840.1.101.3.4.3.27"], 16, 17088);
    SlhDsaShake192s = slh_dsa("slh-dsa-shake-192s", &["id-slh-dsa-shake-192s", "2.16.840.1.101.3.4.3.28"], 24, 16224);
    SlhDsaShake192f = slh_dsa("slh-dsa-shake-192f", &["id-slh-dsa-shake-192f", "2.16.840.1.101.3.4.3.29"], 24, 35664);
    SlhDsaShake256s = slh_dsa("slh-dsa-shake-256s", &["id-slh-dsa-shake-256s", "2.16.840.1.101.3.4.3.30"], 32, 29792);
    SlhDsaShake256f = slh_dsa("slh-dsa-shake-256f", &["id-slh-dsa-shake-256f", "2.16.840.1.101.3.4.3.31"], 32, 49856);

    // With GCM and ChaCha20, the key of a session is the AEAD's key and then a salt of 4 bytes, as in IKE (RFC 4106, 8.1).
    EspAes128Gcm = esp("esp-aes-128-gcm", A::Aes128Gcm, 20, 0, 8, Lengths::range(8, 16, 4)).from("RFC 4106");
    EspAes192Gcm = esp("esp-aes-192-gcm", A::Aes192Gcm, 28, 0, 8, Lengths::range(8, 16, 4)).from("RFC 4106");
    EspAes256Gcm = esp("esp-aes-256-gcm", A::Aes256Gcm, 36, 0, 8, Lengths::range(8, 16, 4)).from("RFC 4106");
    EspChaCha20Poly1305 = esp("esp-chacha20-poly1305", A::ChaCha20Poly1305, 36, 0, 8, Lengths::exactly(16)).from("RFC 7634");
    EspAes128CbcHmacSha1 =
        esp("esp-aes-128-cbc-hmac-sha1", A::Aes128CbcHmacSha1, 16, 20, 16, Lengths::exactly(12)).from("RFC 3602, RFC 2404");
    EspAes256CbcHmacSha1 =
        esp("esp-aes-256-cbc-hmac-sha1", A::Aes256CbcHmacSha1, 32, 20, 16, Lengths::exactly(12)).from("RFC 3602, RFC 2404");
    EspAes128CbcHmacSha256 =
        esp("esp-aes-128-cbc-hmac-sha256", A::Aes128CbcHmacSha256, 16, 32, 16, Lengths::exactly(16)).from("RFC 3602, RFC 4868");
    EspAes256CbcHmacSha256 =
        esp("esp-aes-256-cbc-hmac-sha256", A::Aes256CbcHmacSha256, 32, 32, 16, Lengths::exactly(16)).from("RFC 3602, RFC 4868");

    Deflate = compression("deflate", &["raw-deflate"], "deflate", 9, 6).from("RFC 1951");
    Zlib = compression("zlib", &[], "zlib-deflate", 9, 6).from("RFC 1950");
    // The compressed data are one or more members, one after another, as in files; zeros may follow.
    Gzip = compression("gzip", &["gz"], "", 9, 6).from("RFC 1952");
    // The compressed data are one or more frames, one after another, as in files.
    Zstd = compression("zstd", &["zst", "zstandard"], "zstd", 19, 3).from("RFC 8878");
}
