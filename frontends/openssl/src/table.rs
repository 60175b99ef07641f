//! The algorithms that this provider has, by OpenSSL's names.

use std::ffi::CStr;

use gantry_core::{Algorithm as A, Kind, Operation};

/// A row: an algorithm of the default provider, and what can be done with it here.
#[derive(Debug)]
pub(crate) struct Row {
    /// One of OpenSSL's names for it.
    pub(crate) name: &'static str,
    /// OpenSSL's number for it (obj_mac.h).
    pub(crate) nid: u32,
    /// Ours; `None` where only the parameters of a context say which.
    pub(crate) algorithm: Option<A>,
    pub(crate) mode: Mode,
    /// A device of this build that every machine has is known to be faster than OpenSSL before this release. From then on, and in rows
    /// that have none, the row is served only if the configuration asks for it: what is not served costs nothing. `gantry openssl config`
    /// measures, and asks for what gains.
    pub(crate) gains_before: Option<(u32, u32)>,
    /// With each request comes a key that has to be read out of OpenSSL first, which takes longer than software gains: it has such
    /// requests only where the policy is named.
    pub(crate) keys_cost_more: bool,
}

impl Row {
    /// What kind of algorithm it is; `None` of keys, and of key derivations, for which devices are not asked.
    fn kind(&self) -> Option<Kind> {
        Some(match self.mode {
            Mode::Aead(_) | Mode::Ccm => Kind::Aead,
            Mode::Xts | Mode::Chain(_) => Kind::Cipher,
            Mode::Digest => Kind::Digest,
            Mode::Mac(_) => Kind::Mac,
            Mode::Signature | Mode::Ecdsa | Mode::Rsa | Mode::SlhDsa => Kind::Signature,
            Mode::Exchange => Kind::Exchange,
            Mode::Kdf(_) | Mode::Keys => return None,
        })
    }

    /// Its operations; none of keys.
    pub(crate) fn operations(&self) -> &'static [Operation] {
        match self.mode {
            Mode::Kdf(_) => &[Operation::Derive],
            _ => self.kind().map_or(&[], Kind::operations),
        }
    }
}

/// How a context of the algorithm can be led elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Messages with associated data and a tag, in pieces.
    Aead(Aead),
    /// Messages with associated data and a tag, whole.
    Ccm,
    /// Whole data units.
    Xts,
    /// Blocks, with something that goes from one to the next.
    Chain(Chain),
    /// A digest.
    Digest,
    /// A MAC, over a digest or a cipher that the context names.
    Mac(Mac),
    /// Key derivation over HMAC, with a digest that the context names.
    Kdf(Kdf),
    /// Signatures of messages in one piece.
    Signature,
    /// Signatures of digests, or of messages that the host digests; each is another one.
    Ecdsa,
    /// The same, by the size of the key and by what the context is told of padding.
    Rsa,
    /// Signatures of messages in one piece, of which the host is never as fast.
    SlhDsa,
    /// Key exchange.
    Exchange,
    /// Keys of the last five.
    Keys,
}

/// What an AEAD has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aead {
    /// Records of TLS carry half of their nonces. Tags may be cut.
    Gcm,
    /// The nonce of a TLS record comes from its number. Tags are whole.
    ChaCha,
}

/// The MACs, by what is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mac {
    /// A digest.
    Hmac,
    /// A cipher in CBC.
    Cmac,
    /// A cipher in GCM, and a nonce.
    Gmac,
    /// Nothing that has a name. A key is for one message.
    Poly1305,
}

/// The key derivations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kdf {
    /// RFC 8018.
    Pbkdf2,
    /// RFC 5869.
    Hkdf,
}

/// What is inside a MAC that has no digest.
const INSIDE: [(A, A); 6] = [
    (A::Aes128Cmac, A::Aes128Cbc),
    (A::Aes192Cmac, A::Aes192Cbc),
    (A::Aes256Cmac, A::Aes256Cbc),
    (A::Aes128Gmac, A::Aes128Gcm),
    (A::Aes192Gmac, A::Aes192Gcm),
    (A::Aes256Gmac, A::Aes256Gcm),
];

impl Mac {
    /// The parameter that names what is inside.
    pub(crate) fn parameter(self) -> Option<&'static CStr> {
        match self {
            Mac::Hmac => Some(c"digest"),
            Mac::Cmac | Mac::Gmac => Some(c"cipher"),
            Mac::Poly1305 => None,
        }
    }

    /// Every algorithm of this kind, and what is inside it.
    pub(crate) fn algorithms(self) -> impl Iterator<Item = (A, Option<A>)> {
        let all = A::ALL.iter().filter(|algorithm| algorithm.kind() == Kind::Mac);
        all.map(|&algorithm| {
            let cipher = INSIDE.iter().find(|(mac, _)| *mac == algorithm).map(|(_, inside)| *inside);
            (algorithm, algorithm.info().digest.or(cipher))
        })
        .filter(move |(algorithm, inside)| match self {
            Mac::Hmac => algorithm.info().digest.is_some(),
            Mac::Cmac => inside.is_some_and(|inside| inside.kind() == Kind::Cipher),
            Mac::Gmac => inside.is_some_and(|inside| inside.kind() == Kind::Aead),
            Mac::Poly1305 => inside.is_none(),
        })
    }

    /// The algorithm with `name` inside, by any of its names.
    pub(crate) fn over(self, name: &[u8]) -> Option<A> {
        let usual = self.usual().iter().find(|(usual, _)| usual.as_bytes() == name);
        usual.map_or_else(|| self.search(str::from_utf8(name).ok()?), |(_, algorithm)| Some(*algorithm))
    }

    /// What most programs call what is inside, and what the MAC is then: contexts are made for single messages, so nothing is searched for
    /// these.
    fn usual(self) -> &'static [(&'static str, A)] {
        match self {
            Mac::Hmac => &[
                ("SHA256", A::HmacSha256),
                ("SHA2-256", A::HmacSha256),
                ("SHA1", A::HmacSha1),
                ("SHA384", A::HmacSha384),
                ("SHA2-384", A::HmacSha384),
                ("SHA512", A::HmacSha512),
                ("SHA2-512", A::HmacSha512),
                ("MD5", A::HmacMd5),
                ("SHA224", A::HmacSha224),
            ],
            Mac::Cmac => {
                &[("AES-128-CBC", A::Aes128Cmac), ("AES-256-CBC", A::Aes256Cmac), ("AES-192-CBC", A::Aes192Cmac)]
            }
            Mac::Gmac => {
                &[("AES-128-GCM", A::Aes128Gmac), ("AES-256-GCM", A::Aes256Gmac), ("AES-192-GCM", A::Aes192Gmac)]
            }
            Mac::Poly1305 => &[],
        }
    }

    fn search(self, name: &str) -> Option<A> {
        let named = A::matching(name).ok()?;
        self.algorithms().find(|(_, inside)| *inside == Some(named[0]) && named.len() == 1).map(|(mac, _)| mac)
    }
}

/// What goes from one block to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// Nothing.
    Ecb,
    /// The last block of ciphertext; whole blocks only, and padding.
    Cbc,
    /// The last block of ciphertext.
    Cfb,
    /// The last block of the key stream.
    Ofb,
    /// A counter of as many bits as a block.
    Ctr,
    /// A counter of 64 bits before the nonce, the low byte first.
    ChaCha,
}

const fn row(name: &'static str, nid: u32, algorithm: A, mode: Mode) -> Row {
    Row { algorithm: Some(algorithm), ..Row::new(name, nid, mode) }
}

impl Row {
    const fn new(name: &'static str, nid: u32, mode: Mode) -> Row {
        Row { name, nid, algorithm: None, mode, gains_before: None, keys_cost_more: false }
    }

    const fn gains_before(self, major: u32, minor: u32) -> Row {
        Row { gains_before: Some((major, minor)), ..self }
    }

    /// The same where only the software device is faster.
    const fn gains_in_software_before(self, major: u32, minor: u32) -> Row {
        if HAS_SOFTWARE { self.gains_before(major, minor) } else { self }
    }

    /// The same where the software device is faster, and lanes with several blocks in a register, which x86-64 has.
    const fn gains_in_blocks_before(self, major: u32, minor: u32) -> Row {
        if HAS_BLOCKS { self.gains_before(major, minor) } else { self }
    }

    const fn keys_cost_more(self) -> Row {
        Row { keys_cost_more: true, ..self }
    }
}

/// Whether the software device is a part of this build.
const HAS_SOFTWARE: bool = cfg!(feature = "software");

/// Whether a device of this build may have several blocks of AES in a register.
const HAS_BLOCKS: bool = HAS_SOFTWARE || cfg!(target_arch = "x86_64");

/// OpenSSL 3.1 brought GCM with 512-bit registers, 3.5 XTS.
pub(crate) static CIPHERS: [Row; 26] = [
    row("AES-128-GCM", 895, A::Aes128Gcm, Mode::Aead(Aead::Gcm)).gains_in_blocks_before(3, 1),
    row("AES-192-GCM", 898, A::Aes192Gcm, Mode::Aead(Aead::Gcm)).gains_in_blocks_before(3, 1),
    row("AES-256-GCM", 901, A::Aes256Gcm, Mode::Aead(Aead::Gcm)).gains_in_blocks_before(3, 1),
    row("AES-256-XTS", 914, A::Aes256Xts, Mode::Xts).gains_in_blocks_before(3, 5),
    row("AES-128-XTS", 913, A::Aes128Xts, Mode::Xts),
    row("AES-128-ECB", 418, A::Aes128Ecb, Mode::Chain(Chain::Ecb)),
    row("AES-192-ECB", 422, A::Aes192Ecb, Mode::Chain(Chain::Ecb)),
    row("AES-256-ECB", 426, A::Aes256Ecb, Mode::Chain(Chain::Ecb)),
    row("AES-128-CBC", 419, A::Aes128Cbc, Mode::Chain(Chain::Cbc)),
    row("AES-192-CBC", 423, A::Aes192Cbc, Mode::Chain(Chain::Cbc)),
    row("AES-256-CBC", 427, A::Aes256Cbc, Mode::Chain(Chain::Cbc)),
    row("AES-128-CTR", 904, A::Aes128Ctr, Mode::Chain(Chain::Ctr)),
    row("AES-192-CTR", 905, A::Aes192Ctr, Mode::Chain(Chain::Ctr)),
    row("AES-256-CTR", 906, A::Aes256Ctr, Mode::Chain(Chain::Ctr)),
    row("AES-128-OFB", 420, A::Aes128Ofb, Mode::Chain(Chain::Ofb)),
    row("AES-192-OFB", 424, A::Aes192Ofb, Mode::Chain(Chain::Ofb)),
    row("AES-256-OFB", 428, A::Aes256Ofb, Mode::Chain(Chain::Ofb)),
    row("AES-128-CFB", 421, A::Aes128Cfb, Mode::Chain(Chain::Cfb)),
    row("AES-192-CFB", 425, A::Aes192Cfb, Mode::Chain(Chain::Cfb)),
    row("AES-256-CFB", 429, A::Aes256Cfb, Mode::Chain(Chain::Cfb)),
    row("DES-EDE3-CBC", 44, A::DesEde3Cbc, Mode::Chain(Chain::Cbc)),
    row("AES-128-CCM", 896, A::Aes128Ccm, Mode::Ccm),
    row("AES-192-CCM", 899, A::Aes192Ccm, Mode::Ccm),
    row("AES-256-CCM", 902, A::Aes256Ccm, Mode::Ccm),
    row("ChaCha20", 1019, A::ChaCha20, Mode::Chain(Chain::ChaCha)),
    row("ChaCha20-Poly1305", 1018, A::ChaCha20Poly1305, Mode::Aead(Aead::ChaCha)),
];

pub(crate) static DIGESTS: [Row; 12] = [
    row("MD5", 4, A::Md5, Mode::Digest),
    row("SHA1", 64, A::Sha1, Mode::Digest),
    row("SHA2-224", 675, A::Sha224, Mode::Digest),
    row("SHA2-256", 672, A::Sha256, Mode::Digest),
    row("SHA2-384", 673, A::Sha384, Mode::Digest),
    row("SHA2-512", 674, A::Sha512, Mode::Digest),
    row("SHA2-512/256", 1095, A::Sha512_256, Mode::Digest),
    row("SHA3-224", 1096, A::Sha3_224, Mode::Digest),
    row("SHA3-256", 1097, A::Sha3_256, Mode::Digest),
    row("SHA3-384", 1098, A::Sha3_384, Mode::Digest),
    row("SHA3-512", 1099, A::Sha3_512, Mode::Digest),
    row("RIPEMD-160", 117, A::Ripemd160, Mode::Digest),
];

const fn mac(name: &'static str, nid: u32, mac: Mac) -> Row {
    Row::new(name, nid, Mode::Mac(mac))
}

pub(crate) static MACS: [Row; 4] = [
    mac("HMAC", 855, Mac::Hmac),
    mac("CMAC", 894, Mac::Cmac),
    mac("GMAC", 1195, Mac::Gmac),
    mac("POLY1305", 1061, Mac::Poly1305),
];

/// OpenSSL 4.0 prepares the key of HMAC once for all iterations, and is twice as fast with PBKDF2 as 3.0.
pub(crate) static KDFS: [Row; 2] =
    [Row::new("PBKDF2", 69, Mode::Kdf(Kdf::Pbkdf2)).gains_before(4, 1), Row::new("HKDF", 1036, Mode::Kdf(Kdf::Hkdf))];

/// What is done with pairs of keys: signatures first, then key exchange. OpenSSL's code for Curve25519 is the same in 4.0, and as slow;
/// but TLS was tried with 3.0 only.
/// The hashes of SLH-DSA one by one take OpenSSL 4.0 up to five times as long as in lanes.
pub(crate) static PAIRS: [Row; 17] = [
    row("ED25519", 1087, A::Ed25519, Mode::Signature).gains_in_software_before(3, 1),
    row("ECDSA", 415, A::EcdsaP256, Mode::Ecdsa),
    Row::new("RSA", 6, Mode::Rsa),
    row("SLH-DSA-SHA2-128s", 1460, A::SlhDsaSha2_128s, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHA2-128f", 1461, A::SlhDsaSha2_128f, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHA2-192s", 1462, A::SlhDsaSha2_192s, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHA2-192f", 1463, A::SlhDsaSha2_192f, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHA2-256s", 1464, A::SlhDsaSha2_256s, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHA2-256f", 1465, A::SlhDsaSha2_256f, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-128s", 1466, A::SlhDsaShake128s, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-128f", 1467, A::SlhDsaShake128f, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-192s", 1468, A::SlhDsaShake192s, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-192f", 1469, A::SlhDsaShake192f, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-256s", 1470, A::SlhDsaShake256s, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-256f", 1471, A::SlhDsaShake256f, Mode::SlhDsa).gains_in_software_before(4, 1),
    row("X25519", 1034, A::X25519, Mode::Exchange).gains_in_software_before(3, 1),
    // Every peer's key is read, in a quarter of the time that the secret takes.
    row("ECDH", 415, A::EcdhP256, Mode::Exchange).keys_cost_more(),
];

/// Whether what is measured may show that software gains with an algorithm, keys included. Of SLH-DSA nothing is.
pub(crate) fn software_may_gain(algorithm: A) -> bool {
    !algorithm.is_slh_dsa() && !PAIRS.iter().any(|row| row.algorithm == Some(algorithm) && row.keys_cost_more)
}

/// How many of [`PAIRS`] are signatures.
pub(crate) const SIGNATURES: usize = 15;

/// What RSA may be: by the size of keys, with PKCS #1 v1.5 and with PSS.
pub(crate) const RSA: [[A; 2]; 3] =
    [[A::Rsa2048Pkcs1, A::Rsa2048Pss], [A::Rsa3072Pkcs1, A::Rsa3072Pss], [A::Rsa4096Pkcs1, A::Rsa4096Pss]];

const fn keys(name: &'static str, nid: u32) -> Row {
    Row::new(name, nid, Mode::Keys)
}

/// Types of keys.
pub(crate) static KEYS: [Row; 16] = [
    keys("ED25519", 1087),
    keys("X25519", 1034),
    keys("EC", 408),
    keys("RSA", 6),
    keys("SLH-DSA-SHA2-128s", 1460),
    keys("SLH-DSA-SHA2-128f", 1461),
    keys("SLH-DSA-SHA2-192s", 1462),
    keys("SLH-DSA-SHA2-192f", 1463),
    keys("SLH-DSA-SHA2-256s", 1464),
    keys("SLH-DSA-SHA2-256f", 1465),
    keys("SLH-DSA-SHAKE-128s", 1466),
    keys("SLH-DSA-SHAKE-128f", 1467),
    keys("SLH-DSA-SHAKE-192s", 1468),
    keys("SLH-DSA-SHAKE-192f", 1469),
    keys("SLH-DSA-SHAKE-256s", 1470),
    keys("SLH-DSA-SHAKE-256f", 1471),
];

/// The parameter set of SLH-DSA whose keys have this name.
pub(crate) fn slh_dsa(keys: &str) -> Option<A> {
    let row = PAIRS.iter().find(|row| row.mode == Mode::SlhDsa && row.name == keys)?;
    row.algorithm
}

/// The algorithms of which measurements say whether they are worth serving, by OpenSSL's names.
pub fn measured_names() -> Vec<&'static str> {
    CIPHERS.iter().chain(&PAIRS).chain(&KDFS).filter(|row| row.is_measured()).map(|row| row.name).collect()
}

impl Row {
    /// Whether measurements say if it is worth serving: that its requests gain is all there is to it. (A program that verifies
    /// with ECDSA or RSA under keys that it just read, as those of certificates, loses what others gain.)
    pub(crate) fn is_measured(&self) -> bool {
        match self.mode {
            Mode::Aead(_) | Mode::Xts | Mode::Chain(Chain::Ctr) | Mode::Signature | Mode::Kdf(Kdf::Pbkdf2) => true,
            Mode::Exchange => !self.keys_cost_more,
            _ => false,
        }
    }

    /// Whether it has pipelines: those of the lanes do, from 3.5 on. (DES has none.)
    pub(crate) fn has_pipelines(&self, version: (u32, u32)) -> bool {
        version >= (3, 5) && self.has_lanes()
    }

    /// Whether a device that every machine has may be faster with it than OpenSSL of this release: plain software, or the lanes with one
    /// message at a time or with those of several pipes.
    pub(crate) fn may_gain(&self, version: (u32, u32)) -> bool {
        match self.mode {
            Mode::Aead(_) => self.gains_before.is_some_and(|release| version < release),
            Mode::Xts => HAS_BLOCKS && version < (3, 5),
            Mode::Chain(_) => self.has_pipelines(version),
            Mode::Signature | Mode::Exchange => HAS_SOFTWARE && !self.keys_cost_more,
            Mode::Kdf(_) => true,
            // Before, there are none.
            Mode::SlhDsa => HAS_SOFTWARE && version >= (3, 5),
            // ECDSA, RSA: who signs gains, but who verifies under keys that were just read, as those of certificates, loses.
            Mode::Ccm | Mode::Digest | Mode::Mac(_) | Mode::Ecdsa | Mode::Rsa | Mode::Keys => false,
        }
    }

    /// Whether the lanes have it, and no other device many messages of it at a time.
    pub(crate) fn has_lanes(&self) -> bool {
        self.mode == Mode::Chain(Chain::Cbc) && self.algorithm != Some(A::DesEde3Cbc)
    }

    /// The type of keys of a signature or key exchange.
    pub(crate) fn keys(&self) -> &'static Row {
        let place = match self.algorithm {
            Some(algorithm) if algorithm.is_slh_dsa() => {
                return KEYS.iter().find(|keys| keys.name == self.name).unwrap_or(&KEYS[0]);
            }
            Some(A::Ed25519) => 0,
            Some(A::X25519) => 1,
            Some(_) => 2,
            None => 3,
        };
        &KEYS[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_found_by_the_names_of_what_is_inside() {
        for (mac, name, found) in [
            (Mac::Hmac, "SHA2-256", Some(A::HmacSha256)),
            (Mac::Hmac, "SHA1", Some(A::HmacSha1)),
            (Mac::Hmac, "SHA512-256", Some(A::HmacSha512_256)),
            (Mac::Hmac, "MD4", None),
            (Mac::Hmac, "AES-128-CBC", None),
            (Mac::Cmac, "AES128", Some(A::Aes128Cmac)),
            (Mac::Cmac, "DES-EDE3-CBC", None),
            (Mac::Cmac, "AES-256-GCM", None),
            (Mac::Gmac, "id-aes256-GCM", Some(A::Aes256Gmac)),
        ] {
            assert_eq!(mac.over(name.as_bytes()), found, "{name}");
        }
        for mac in [Mac::Hmac, Mac::Cmac, Mac::Gmac] {
            for (name, found) in mac.usual() {
                assert_eq!(mac.search(name), Some(*found), "{name}");
            }
        }
        assert_eq!(Mac::Hmac.algorithms().count(), 12);
        assert_eq!(Mac::Cmac.algorithms().count(), 3);
        assert_eq!(Mac::Poly1305.algorithms().collect::<Vec<_>>(), [(A::Poly1305, None)]);
    }

    #[test]
    fn signatures_come_first_and_have_keys_of_their_type() {
        let kind = |row: &Row| row.algorithm.unwrap_or(RSA[0][0]).kind();
        let kinds: Vec<Kind> = PAIRS.iter().map(kind).collect();
        assert!(kinds[..SIGNATURES].iter().all(|kind| *kind == Kind::Signature));
        assert!(kinds[SIGNATURES..].iter().all(|kind| *kind == Kind::Exchange));
        let keys = |slh_dsa: bool| {
            let rows = PAIRS.iter().filter(move |row| (row.mode == Mode::SlhDsa) == slh_dsa);
            rows.map(|row| row.keys().name)
        };
        assert!(keys(false).eq(["ED25519", "EC", "RSA", "X25519", "EC"]));
        assert!(keys(true).eq(PAIRS.iter().filter(|row| row.mode == Mode::SlhDsa).map(|row| row.name)));
        assert_eq!(keys(true).filter_map(slh_dsa).count(), 12);
        assert_eq!([A::EcdsaP256, A::X25519, A::EcdhP256].map(software_may_gain), [true, true, false]);
    }

    #[test]
    fn every_number_is_in_obj_mac_h() {
        let header = openssl_4_0::source_dir().join("include/openssl/obj_mac.h");
        let text = std::fs::read_to_string(&header).unwrap();
        for row in CIPHERS.iter().chain(&DIGESTS).chain(&MACS).chain(&KDFS).chain(&PAIRS).chain(&KEYS) {
            let line = format!(" {}", row.nid);
            assert!(
                text.lines().any(|found| found.starts_with("#define NID_") && found.ends_with(&line)),
                "{}",
                row.name
            );
        }
    }
}
