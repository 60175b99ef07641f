//! A row of the table of algorithms, and constructors of rows.

use super::esp::HEADER_LEN;
use super::ids::Algorithm;
use super::kind::Kind;
use super::lengths::Lengths;
use super::rsa;

/// A row of the table. All sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmInfo {
    /// The id of this row.
    pub algorithm: Algorithm,
    /// The name, in lower case: OpenSSL's if it has one.
    pub name: &'static str,
    /// Other names of exactly this algorithm.
    pub aliases: &'static [&'static str],
    /// The Linux kernel's name, shared by all key sizes; empty where the kernel has none.
    pub kernel: &'static str,
    /// The kind of the algorithm.
    pub kind: Kind,
    /// Key lengths. XTS counts both halves. For signatures, key exchange, key encapsulation and encipherment, these are lengths of private
    /// keys. The shorter of two lengths is the length of the seed from which the key is made.
    pub key: Lengths,
    /// Lengths of public keys, for signatures, key exchange, key encapsulation and encipherment.
    pub public_key: Lengths,
    /// Lengths of the second key of encrypt-then-authenticate algorithms.
    pub mac_key: Lengths,
    /// IV or nonce lengths.
    pub iv: Lengths,
    /// Nonce lengths of sessions with [`SessionParams::with_any_nonce`](crate::SessionParams::with_any_nonce). [`Lengths::NONE`] if the
    /// algorithm has no other lengths than `iv`.
    pub any_nonce: Lengths,
    /// For digests and MACs, the block of the underlying hash or cipher. For other kinds, a power of two: the length of the data must be a
    /// multiple of it. In packets, padding makes payload and trailer such a multiple.
    pub block: usize,
    /// Fewest bytes of data in a request.
    pub min_data: usize,
    /// Most bytes of data in a request (SP 800-38D, 38E, RFC 8439). CCM has a lower limit, which depends on the length of the nonce.
    pub max_data: u64,
    /// Lengths of the digest, MAC, tag, signature, shared secret or enciphered message.
    pub tag: Lengths,
    /// The default length of digests whose length the caller chooses (extendable-output functions).
    pub xof: Option<usize>,
    /// The digest inside HMACs and encrypt-then-authenticate algorithms.
    pub digest: Option<Algorithm>,
    /// The AEAD inside packet algorithms.
    pub aead: Option<Algorithm>,
    /// The cipher inside encrypt-then-authenticate algorithms.
    pub cipher: Option<Algorithm>,
    /// Signatures or ciphertexts are made with random numbers, so two results for the same message differ. They can be verified or
    /// deciphered, but not compared.
    pub randomized: bool,
    /// Lengths of the context string of signatures ([`SessionParams::with_context`](crate::SessionParams::with_context)).
    pub context: Lengths,
    /// The length of a ciphertext of key encapsulation, and the length of the random input.
    pub encapsulation: (usize, usize),
    /// Compression levels. A higher level takes longer and gives fewer bytes; a device may have fewer levels.
    pub levels: Lengths,
    /// The default level.
    pub default_level: usize,
    /// For key exchange, the base point, encoded as a public key.
    pub generator: &'static [u8],
    /// The standard that specifies the algorithm.
    pub source: &'static str,
}

impl AlgorithmInfo {
    /// Makes a row to be filled in: no keys, no IV, data of any length, and a block of 1.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, ..BLANK }
    }

    pub(super) const fn from(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    pub(super) const fn randomized(mut self) -> Self {
        self.randomized = true;
        self
    }

    pub(super) const fn max_data(mut self, bytes: u64) -> Self {
        self.max_data = bytes;
        self
    }

    /// Forbids truncated tags.
    pub(super) const fn full_tag(mut self) -> Self {
        self.tag.min = self.tag.max;
        self
    }
}

// Extendable-output functions have no maximum length. This constant limits the buffer of a digest.
const XOF_MAX: usize = 64 << 10;
// SP 800-38D, 5.2.1.1: 2^39 - 256 bits.
const GCM_MAX: u64 = (1 << 36) - 32;
// RFC 8439, 2.8: 2^32 - 1 blocks of 64 bytes, counted from block 1.
pub(super) const CHACHA20_MAX: u64 = ((1 << 32) - 1) * 64;
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
    any_nonce: Lengths::NONE,
    block: 1,
    min_data: 0,
    max_data: u64::MAX,
    tag: Lengths::NONE,
    xof: None,
    digest: None,
    aead: None,
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

pub(super) const fn digest(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    block: usize,
    size: usize,
) -> AlgorithmInfo {
    AlgorithmInfo { name, aliases, kernel, kind: Kind::Digest, block, tag: Lengths::exactly(size), ..BLANK }
}

pub(super) const fn xof(
    name: &'static str,
    aliases: &'static [&'static str],
    block: usize,
    size: usize,
) -> AlgorithmInfo {
    AlgorithmInfo { tag: Lengths::range(1, XOF_MAX, 1), xof: Some(size), ..digest(name, aliases, "", block, size) }
}

/// Makes a row of HMAC (RFC 2104). A truncated MAC keeps at least 4 bytes, as in SRTP's AES_CM_128_HMAC_SHA1_32 (RFC 4568, 6.2.2).
pub(super) const fn hmac(
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

pub(super) const fn mac(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    key: usize,
    iv: usize,
) -> AlgorithmInfo {
    let (key, iv) = (Lengths::exactly(key), Lengths::exactly(iv));
    AlgorithmInfo { name, aliases, kernel, kind: Kind::Mac, key, iv, block: 16, tag: Lengths::range(4, 16, 1), ..BLANK }
}

pub(super) const fn cipher(
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

/// Makes a row of XTS, whose ciphertext stealing takes any length from one block on.
pub(super) const fn xts(name: &'static str, aliases: &'static [&'static str], key: usize) -> AlgorithmInfo {
    AlgorithmInfo {
        min_data: 16,
        max_data: XTS_MAX,
        source: "SP 800-38E, IEEE 1619",
        ..cipher(name, aliases, "xts(aes)", key, 16, 1)
    }
}

pub(super) const fn aead(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    key: usize,
    iv: Lengths,
) -> AlgorithmInfo {
    let (key, tag) = (Lengths::exactly(key), Lengths::range(4, 16, 1));
    AlgorithmInfo { key, iv, tag, ..named(name, aliases, kernel, Kind::Aead) }
}

/// Makes a row of GCM. SP 800-38D recommends nonces of 12 bytes. Nonces of other lengths are hashed, and collide sooner.
pub(super) const fn gcm(name: &'static str, aliases: &'static [&'static str], key: usize) -> AlgorithmInfo {
    AlgorithmInfo {
        max_data: GCM_MAX,
        source: "SP 800-38D",
        any_nonce: Lengths::range(1, 1 << 16, 1),
        ..aead(name, aliases, "gcm(aes)", key, Lengths::exactly(12))
    }
}

/// Makes a row of CCM. A nonce of 15 - L bytes leaves L bytes for the length of the data (RFC 3610).
pub(super) const fn ccm(name: &'static str, aliases: &'static [&'static str], key: usize) -> AlgorithmInfo {
    AlgorithmInfo {
        tag: Lengths::range(4, 16, 2),
        source: "SP 800-38C, RFC 3610",
        ..aead(name, aliases, "ccm(aes)", key, Lengths::range(7, 13, 1))
    }
}

/// Makes a row of encrypt-then-authenticate: ciphertext = cipher(iv, data), tag = HMAC(aad ‖ iv ‖ ciphertext), truncated to the tag length
/// of the session. ESP without extended sequence numbers computes this with aad = SPI ‖ sequence number (RFC 4303, 2.8). OpenSSL's
/// AES-128-CBC-HMAC-SHA1 and the like are other algorithms in spite of their names: MAC-then-encrypt, for TLS.
pub(super) const fn eta(
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

pub(super) const fn signature(
    name: &'static str,
    aliases: &'static [&'static str],
    key: usize,
    public: usize,
    signature: usize,
) -> AlgorithmInfo {
    let (key, public_key, tag) = (Lengths::exactly(key), Lengths::exactly(public), Lengths::exactly(signature));
    AlgorithmInfo { name, aliases, kind: Kind::Signature, key, public_key, tag, ..BLANK }
}

/// Makes a row for RSA signatures of SHA-256, SHA-384 and SHA-512 digests.
pub(super) const fn rsa_signature(name: &'static str, modulus: usize) -> AlgorithmInfo {
    let row = signature(name, &[], rsa::private_length(modulus), rsa::public_length(modulus), modulus);
    // These limits allow 32, 48 and 64 bytes, the lengths of the three digests.
    AlgorithmInfo { min_data: 32, max_data: 64, block: 16, ..row }.from("RFC 8017")
}

/// Makes a row for RSA encryption. Messages are at least `padding` bytes shorter than the modulus; without padding, they are numbers with
/// the length of the modulus.
pub(super) const fn rsa_encryption(name: &'static str, modulus: usize, padding: usize) -> AlgorithmInfo {
    let min_data = if padding == 0 { modulus } else { 0 };
    let (key, public) = (rsa::private_length(modulus), rsa::public_length(modulus));
    AlgorithmInfo {
        key: Lengths::exactly(key),
        public_key: Lengths::exactly(public),
        tag: Lengths::exactly(modulus),
        min_data,
        max_data: (modulus - padding) as u64,
        randomized: padding > 0,
        source: "RFC 8017",
        ..named(name, &[], "", Kind::Encipherment)
    }
}

/// Makes a row of key exchange. Private keys and secrets have `key` bytes. The data of a request are the peer's public key.
pub(super) const fn exchange(
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

/// Makes a row of ML-DSA. A private key is the seed ξ, or sk as FIPS 204 encodes it.
pub(super) const fn ml_dsa(
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

/// Makes a row of SLH-DSA. `n` is the parameter of FIPS 205: the bytes of a seed or a hash value. A private key is the seeds SK.seed ‖
/// SK.prf ‖ PK.seed, or sk as FIPS 205 encodes it: the seeds and PK.root.
pub(super) const fn slh_dsa(
    name: &'static str,
    aliases: &'static [&'static str],
    n: usize,
    length: usize,
) -> AlgorithmInfo {
    AlgorithmInfo {
        key: Lengths::range(3 * n, 4 * n, n),
        context: Lengths::range(0, 255, 1),
        ..signature(name, aliases, 4 * n, 2 * n, length).randomized().from("FIPS 205")
    }
}

/// Makes a row of ML-KEM. A private key is the seed d ‖ z, or dk as FIPS 203 encodes it. The data of a request are a public key or a
/// ciphertext.
pub(super) const fn ml_kem(
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

/// Makes a row for packets of ESP (RFC 4303) that an AEAD encrypts. The IV in a packet is the 8-byte packet number or an unpredictable
/// block.
pub(super) const fn esp(
    name: &'static str,
    aead: Algorithm,
    key: usize,
    mac_key: usize,
    iv: usize,
    tag: Lengths,
) -> AlgorithmInfo {
    // Padding makes payload and trailer a multiple of 4 bytes (RFC 4303, 2.4), and for CBC of the cipher's block.
    let block = if iv == 8 { 4 } else { 16 };
    let row =
        AlgorithmInfo { iv: Lengths::exactly(iv), block, tag, aead: Some(aead), ..named(name, &[], "", Kind::Packet) };
    let (key, mac_key) = (Lengths::exactly(key), Lengths::exactly(mac_key));
    AlgorithmInfo { key, mac_key, min_data: HEADER_LEN + iv + block + row.tag.min, max_data: 65_535, ..row }
}

pub(super) const fn compression(
    name: &'static str,
    aliases: &'static [&'static str],
    kernel: &'static str,
    highest: usize,
    default_level: usize,
) -> AlgorithmInfo {
    let levels = Lengths::range(1, highest, 1);
    AlgorithmInfo { levels, default_level, ..named(name, aliases, kernel, Kind::Compression) }
}
