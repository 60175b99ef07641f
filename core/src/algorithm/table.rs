//! The algorithm table: one row per algorithm, and nowhere else.
//!
//! Names are OpenSSL's in lower case. Aliases are the other names that programs use for exactly this algorithm:
//! OpenSSL's own variants, the Linux kernel's, IANA's (RFC 5116 AEADs, SSH, hash names). The kernel names a cipher
//! without its key size (`cbc(aes)`), so such a name may stand for several rows.

use super::generators;
use super::kind::Kind;
use super::lengths::Lengths;
use super::rsa;

/// Writes the enum, the list of all, and the table from one list of rows.
macro_rules! algorithms {
    ($($variant:ident = $row:expr;)+) => {
        /// The id of an algorithm: which one, not who implements it (that is a [`Capability`](crate::driver::Capability)).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the rows say more")]
        pub enum Algorithm {
            $($variant,)+
            // Those that drivers bring (`registered.rs`).
            #[doc(hidden)] Registered0, #[doc(hidden)] Registered1, #[doc(hidden)] Registered2, #[doc(hidden)] Registered3,
            #[doc(hidden)] Registered4, #[doc(hidden)] Registered5, #[doc(hidden)] Registered6, #[doc(hidden)] Registered7,
        }

        impl Algorithm {
            /// Those of the table, in its order. [`all`](Self::all) also has those that drivers bring.
            pub const ALL: &'static [Algorithm] = &[$(Algorithm::$variant),+];
        }

        pub(super) static TABLE: &[AlgorithmInfo] = &[$(AlgorithmInfo { algorithm: Algorithm::$variant, ..$row }),+];
    };
}

use Algorithm as A;

impl Algorithm {
    /// Behind the table: a process has room for so many that drivers bring.
    #[rustfmt::skip]
    pub(super) const REGISTERED: [Algorithm; 8] = [
        A::Registered0, A::Registered1, A::Registered2, A::Registered3,
        A::Registered4, A::Registered5, A::Registered6, A::Registered7,
    ];

    /// How many there can be: each is a number below.
    pub(crate) const COUNT: usize = TABLE.len() + Algorithm::REGISTERED.len();
}

algorithms! {
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
    // The domain byte is 1F, and KT128's customization string empty.
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
    // The IV is OpenSSL's: a little-endian 32-bit block counter, then the 12-byte nonce of RFC 8439. The counter
    // must not wrap within a request, which is what ends a request at 256 GiB.
    ChaCha20 = cipher("chacha20", &["chacha"], "chacha20", 32, 16, 1).max_data(64 << 32).from("RFC 8439");

    Aes128Gcm = gcm("aes-128-gcm", &["aead_aes_128_gcm", "id-aes128-gcm", "aes128-gcm", "aes128-gcm@openssh.com"], 16);
    Aes192Gcm = gcm("aes-192-gcm", &["id-aes192-gcm", "aes192-gcm"], 24);
    Aes256Gcm = gcm("aes-256-gcm", &["aead_aes_256_gcm", "id-aes256-gcm", "aes256-gcm", "aes256-gcm@openssh.com"], 32);
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
    // The message is a digest, of which no more than the first 32 bytes count (6.4.1). Numbers have their high byte first: a
    // private key is one, a public key the point 4 ‖ x ‖ y (SEC 1, 2.3.3), a signature r ‖ s, a secret the x of a point.
    EcdsaP256 = signature("ecdsa-p256", &["ecdsa-nistp256"], 32, 65, 64).randomized().from("FIPS 186-5");
    EcdhP256 = exchange("ecdh-p256", &["ecdh-nistp256"], 32, generators::P256).from("SP 800-56A");
    // The message is a digest; which one, and how keys lie in memory, is said in `rsa.rs`.
    Rsa2048Pkcs1 = rsa("rsa-2048-pkcs1", 256);
    Rsa3072Pkcs1 = rsa("rsa-3072-pkcs1", 384);
    Rsa4096Pkcs1 = rsa("rsa-4096-pkcs1", 512);
    Rsa2048Pss = rsa("rsa-2048-pss", 256).randomized();
    Rsa3072Pss = rsa("rsa-3072-pss", 384).randomized();
    Rsa4096Pss = rsa("rsa-4096-pss", 512).randomized();

    MlKem512 = ml_kem("ml-kem-512", &["mlkem512", "2.16.840.1.101.3.4.4.1"], 1632, 800, 768);
    MlKem768 = ml_kem("ml-kem-768", &["mlkem768", "2.16.840.1.101.3.4.4.2"], 2400, 1184, 1088);
    MlKem1024 = ml_kem("ml-kem-1024", &["mlkem1024", "2.16.840.1.101.3.4.4.3"], 3168, 1568, 1568);
    MlDsa44 = ml_dsa("ml-dsa-44", &["mldsa44", "2.16.840.1.101.3.4.3.17"], 2560, 1312, 2420);
    MlDsa65 = ml_dsa("ml-dsa-65", &["mldsa65", "2.16.840.1.101.3.4.3.18"], 4032, 1952, 3309);
    MlDsa87 = ml_dsa("ml-dsa-87", &["mldsa87", "2.16.840.1.101.3.4.3.19"], 4896, 2592, 4627);

    Deflate = compression("deflate", &["raw-deflate"], "deflate", 9, 6).from("RFC 1951");
    Zlib = compression("zlib", &[], "zlib-deflate", 9, 6).from("RFC 1950");
    // One member or several, one after another, as in files.
    Gzip = compression("gzip", &["gz"], "", 9, 6).from("RFC 1952");
    // One frame or several, one after another, as in files.
    Zstd = compression("zstd", &["zst", "zstandard"], "zstd", 19, 3).from("RFC 8878");
}

/// A row of the table. All sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmInfo {
    /// The id of this row.
    pub algorithm: Algorithm,
    /// The name: OpenSSL's, in lower case.
    pub name: &'static str,
    /// Other names of exactly this algorithm.
    pub aliases: &'static [&'static str],
    /// The Linux kernel's name, shared by all key sizes; empty where the kernel has none.
    pub kernel: &'static str,
    /// What it does.
    pub kind: Kind,
    /// Key lengths. XTS counts both halves. Of signatures, key exchange and key encapsulation, private keys; the shorter of two
    /// lengths is that of the seed from which the key is made.
    pub key: Lengths,
    /// Lengths of public keys, of signatures, key exchange and key encapsulation.
    pub public_key: Lengths,
    /// Lengths of the second key, of encrypt-then-authenticate algorithms.
    pub mac_key: Lengths,
    /// IV or nonce lengths.
    pub iv: Lengths,
    /// Digests and MACs: the block of the hash or cipher inside. All others: the length of the data must be a multiple of it, and it is
    /// a power of two.
    pub block: usize,
    /// Fewest bytes of data in a request.
    pub min_data: usize,
    /// Most bytes of data in a request (SP 800-38C, 38D, 38E, RFC 8439).
    pub max_data: u64,
    /// Lengths of the digest, MAC, tag, signature or shared secret.
    pub tag: Lengths,
    /// Of digests whose length is the caller's choice (extendable-output functions): the default.
    pub xof: Option<usize>,
    /// The digest inside, of HMACs and encrypt-then-authenticate.
    pub digest: Option<Algorithm>,
    /// The cipher inside, of encrypt-then-authenticate.
    pub cipher: Option<Algorithm>,
    /// Of signatures: each is made with a random number, so that two of one message differ. They can be verified, and not compared.
    pub randomized: bool,
    /// Of signatures: lengths of the context string, which a session has ([`SessionParams::context`](crate::SessionParams::context)).
    pub context: Lengths,
    /// Of key encapsulation: bytes of a ciphertext, and of the random bytes that go into it.
    pub encapsulation: (usize, usize),
    /// Of compression: the levels. A higher one takes longer and leaves fewer bytes; a device may have fewer of them.
    pub levels: Lengths,
    /// The level where nothing is said.
    pub default_level: usize,
    /// Of key exchange: the point of which every public key is a multiple, as such a key.
    pub generator: &'static [u8],
    /// The standard.
    pub source: &'static str,
}

impl AlgorithmInfo {
    /// A row that says nothing else, to be filled in: no keys, no IV, data of any length, and the block is 1.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, ..BLANK }
    }

    const fn from(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    const fn randomized(mut self) -> Self {
        self.randomized = true;
        self
    }

    const fn max_data(mut self, bytes: u64) -> Self {
        self.max_data = bytes;
        self
    }

    /// The tag cannot be truncated.
    const fn full_tag(mut self) -> Self {
        self.tag.min = self.tag.max;
        self
    }
}

// The functions themselves end nowhere. This is what a buffer for a digest may have.
const XOF_MAX: usize = 64 << 10;
// SP 800-38D, 5.2.1.1: 2^39 - 256 bits.
const GCM_MAX: u64 = (1 << 36) - 32;
// RFC 8439, 2.8: 2^32 - 1 blocks of 64 bytes, counted from block 1.
const CHACHA20_MAX: u64 = ((1 << 32) - 1) * 64;
// SP 800-38E: 2^20 blocks in a data unit.
const XTS_MAX: u64 = 16 << 20;

const BLANK: AlgorithmInfo = AlgorithmInfo {
    algorithm: Algorithm::Null,
    name: "",
    aliases: &[],
    kernel: "",
    kind: Kind::Digest,
    key: Lengths::NONE,
    public_key: Lengths::NONE,
    mac_key: Lengths::NONE,
    iv: Lengths::NONE,
    block: 1,
    min_data: 0,
    max_data: u64::MAX,
    tag: Lengths::NONE,
    xof: None,
    digest: None,
    cipher: None,
    randomized: false,
    context: Lengths::NONE,
    encapsulation: (0, 0),
    levels: Lengths::NONE,
    default_level: 0,
    generator: &[],
    source: "",
};

const fn named(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    kind: Kind,
) -> AlgorithmInfo {
    AlgorithmInfo { name, aliases, kernel, kind, ..BLANK }
}

const fn digest(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    block: usize,
    size: usize,
) -> AlgorithmInfo {
    AlgorithmInfo { name, aliases, kernel, kind: Kind::Digest, block, tag: Lengths::exactly(size), ..BLANK }
}

const fn xof(name: &'static str, aliases: &'static [&'static str], block: usize, size: usize) -> AlgorithmInfo {
    AlgorithmInfo { tag: Lengths::range(1, XOF_MAX, 1), xof: Some(size), ..digest(name, aliases, "", block, size) }
}

/// RFC 2104. A truncated MAC keeps at least 4 bytes, which is less than any protocol uses.
const fn hmac(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    digest: Algorithm,
    block: usize,
    size: usize,
) -> AlgorithmInfo {
    let (key, tag) = (Lengths::range(0, usize::MAX, 1), Lengths::range(4, size, 1));
    let row = named(name, aliases, kernel, Kind::Mac);
    AlgorithmInfo { key, block, tag, digest: Some(digest), source: "RFC 2104", ..row }
}

const fn mac(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    key: usize,
    iv: usize,
) -> AlgorithmInfo {
    let (key, iv) = (Lengths::exactly(key), Lengths::exactly(iv));
    AlgorithmInfo { name, aliases, kernel, kind: Kind::Mac, key, iv, block: 16, tag: Lengths::range(4, 16, 1), ..BLANK }
}

const fn cipher(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    key: usize,
    iv: usize,
    block: usize,
) -> AlgorithmInfo {
    let (key, iv) = (Lengths::exactly(key), Lengths::exactly(iv));
    AlgorithmInfo { name, aliases, kernel, kind: Kind::Cipher, key, iv, block, ..BLANK }
}

/// Ciphertext stealing serves any length from one block on.
const fn xts(name: &'static str, aliases: &'static [&'static str], key: usize) -> AlgorithmInfo {
    AlgorithmInfo {
        min_data: 16,
        max_data: XTS_MAX,
        source: "SP 800-38E, IEEE 1619",
        ..cipher(name, aliases, "xts(aes)", key, 16, 1)
    }
}

const fn aead(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    key: usize,
    iv: Lengths,
) -> AlgorithmInfo {
    let (key, tag) = (Lengths::exactly(key), Lengths::range(4, 16, 1));
    AlgorithmInfo { key, iv, tag, ..named(name, aliases, kernel, Kind::Aead) }
}

/// SP 800-38D allows IVs of any length but none; 12 bytes is the length to use.
const fn gcm(name: &'static str, aliases: &'static [&'static str], key: usize) -> AlgorithmInfo {
    AlgorithmInfo {
        max_data: GCM_MAX,
        source: "SP 800-38D",
        ..aead(name, aliases, "gcm(aes)", key, Lengths::range(1, 1 << 16, 1))
    }
}

/// The nonce takes 15 - L bytes, and the data has a length of L bytes (RFC 3610): see `SessionParams`.
const fn ccm(name: &'static str, aliases: &'static [&'static str], key: usize) -> AlgorithmInfo {
    AlgorithmInfo {
        tag: Lengths::range(4, 16, 2),
        source: "SP 800-38C, RFC 3610",
        ..aead(name, aliases, "ccm(aes)", key, Lengths::range(7, 13, 1))
    }
}

/// Encrypt then authenticate: ciphertext = cipher(iv, data), tag = HMAC(aad ‖ iv ‖ ciphertext), truncated to the length
/// of the session's tags. This is what ESP computes with aad = SPI ‖ sequence number (RFC 4303, 2.8).
const fn eta(
    name: &'static str,
    kernel: &'static str,
    cipher: Algorithm,
    key: usize,
    block: usize,
    digest: Algorithm,
    size: usize,
) -> AlgorithmInfo {
    AlgorithmInfo {
        mac_key: Lengths::range(0, usize::MAX, 1),
        block,
        tag: Lengths::range(4, size, 1),
        digest: Some(digest),
        cipher: Some(cipher),
        source: "RFC 4303",
        ..aead(name, &[], kernel, key, Lengths::exactly(16))
    }
}

const fn signature(
    name: &'static str,
    aliases: &'static [&'static str],
    key: usize,
    public: usize,
    signature: usize,
) -> AlgorithmInfo {
    let (key, public_key, tag) = (Lengths::exactly(key), Lengths::exactly(public), Lengths::exactly(signature));
    AlgorithmInfo { name, aliases, kind: Kind::Signature, key, public_key, tag, ..BLANK }
}

/// Of digests of SHA-256, SHA-384 and SHA-512.
const fn rsa(name: &'static str, modulus: usize) -> AlgorithmInfo {
    let row = signature(name, &[], rsa::private_length(modulus), rsa::public_length(modulus), modulus);
    AlgorithmInfo { min_data: 32, max_data: 64, block: 16, ..row }.from("RFC 8017")
}

/// Private keys and secrets are of one length. The data of a request are a public key.
const fn exchange(
    name: &'static str,
    aliases: &'static [&'static str],
    key: usize,
    generator: &'static [u8],
) -> AlgorithmInfo {
    let (public, lengths) = (generator.len(), Lengths::exactly(key));
    AlgorithmInfo {
        generator,
        key: lengths,
        public_key: Lengths::exactly(public),
        tag: lengths,
        min_data: public,
        max_data: public as u64,
        ..named(name, aliases, "", Kind::Exchange)
    }
}

/// A private key is the seed ξ, or sk as FIPS 204 writes it out.
const fn ml_dsa(
    name: &'static str,
    aliases: &'static [&'static str],
    key: usize,
    public: usize,
    length: usize,
) -> AlgorithmInfo {
    AlgorithmInfo {
        key: Lengths::range(32, key, key - 32),
        context: Lengths::range(0, 255, 1),
        ..signature(name, aliases, key, public, length).randomized().from("FIPS 204")
    }
}

/// A private key is the seed d ‖ z, or dk as FIPS 203 writes it out. The data of a request are a public key or a ciphertext.
const fn ml_kem(
    name: &'static str,
    aliases: &'static [&'static str],
    key: usize,
    public: usize,
    ciphertext: usize,
) -> AlgorithmInfo {
    AlgorithmInfo {
        key: Lengths::range(64, key, key - 64),
        public_key: Lengths::exactly(public),
        tag: Lengths::exactly(32),
        encapsulation: (ciphertext, 32),
        source: "FIPS 203",
        ..named(name, aliases, "", Kind::Kem)
    }
}

const fn compression(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    highest: usize,
    default_level: usize,
) -> AlgorithmInfo {
    let levels = Lengths::range(1, highest, 1);
    AlgorithmInfo { levels, default_level, ..named(name, aliases, kernel, Kind::Compression) }
}
