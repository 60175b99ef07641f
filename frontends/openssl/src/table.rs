//! The algorithms of this provider, by OpenSSL's names.

use gantry_core::{Algorithm as A, Kind, Operation};

/// A row: an algorithm of the default provider, and how it is served here.
#[derive(Debug)]
pub(crate) struct Row {
    /// One of OpenSSL's names.
    pub(crate) name: &'static str,
    /// OpenSSL's NID (obj_mac.h); 0 if it has none.
    pub(crate) nid: u32,
    /// Gantry's algorithm; `None` for keys and key derivations.
    pub(crate) algorithm: Option<A>,
    pub(crate) mode: Mode,
    /// Before this OpenSSL release, a device that every machine has is known to be faster, if it is in this build. From this release on,
    /// and always if this is `None`, the row is served only if the configuration asks for it. A row that is not served costs nothing.
    /// `gantry openssl config` measures, and asks for the rows that gain.
    pub(crate) faster_before: Option<(u32, u32)>,
}

impl Row {
    /// Returns the kind of algorithm; `None` for keys, and for key derivations, which devices do not serve.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Some(match self.mode {
            Mode::Aead(_) => Kind::Aead,
            Mode::Xts | Mode::Chain(_) => Kind::Cipher,
            Mode::Signature | Mode::SlhDsa => Kind::Signature,
            Mode::Exchange => Kind::Exchange,
            Mode::Kem => Kind::Kem,
            Mode::Kdf(_) | Mode::KeyType => return None,
        })
    }

    /// Returns the row's operations; none for keys.
    pub(crate) fn operations(&self) -> &'static [Operation] {
        match self.mode {
            Mode::Kdf(_) => &[Operation::Derive],
            _ => self.kind().map_or(&[], Kind::operations),
        }
    }
}

/// How contexts of the algorithm can send requests to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Messages with associated data and a tag, in chunks.
    Aead(Aead),
    /// Whole data units.
    Xts,
    /// Blocks with a chaining value or a counter.
    Chain(Chain),
    /// Key derivation over HMAC, with a digest that the context names.
    Kdf(Kdf),
    /// Signatures of whole messages.
    Signature,
    /// Signatures of whole messages, always slower on the default provider.
    SlhDsa,
    Exchange,
    /// Agreement on a secret with a peer's share, in a hybrid TLS group.
    Kem,
    /// Keys for the four modes above.
    KeyType,
}

/// The AEADs, with their differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aead {
    /// TLS 1.2 records carry eight bytes of their nonce. Tags may be truncated.
    Gcm,
    /// The nonce of a TLS record is derived from its sequence number. Tags are whole.
    ChaCha,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kdf {
    /// RFC 8018.
    Pbkdf2,
    /// RFC 5869.
    Hkdf,
}

/// The state carried from one block to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// Nothing. Blocks are whole, and a message may be padded.
    Ecb,
    /// The last block of ciphertext. Blocks are whole, and a message may be padded.
    Cbc,
    /// A counter as wide as a block.
    Ctr,
    /// A 64-bit little-endian counter before the nonce.
    ChaCha,
}

const fn row(name: &'static str, nid: u32, algorithm: A, mode: Mode) -> Row {
    Row { algorithm: Some(algorithm), ..Row::new(name, nid, mode) }
}

impl Row {
    const fn new(name: &'static str, nid: u32, mode: Mode) -> Row {
        Row { name, nid, algorithm: None, mode, faster_before: None }
    }

    const fn faster_before(self, major: u32, minor: u32) -> Row {
        Row { faster_before: Some((major, minor)), ..self }
    }

    /// Sets `faster_before`, if this build has the software device, the only one that is faster.
    const fn faster_in_software_before(self, major: u32, minor: u32) -> Row {
        if HAS_SOFTWARE { self.faster_before(major, minor) } else { self }
    }

    /// Sets `faster_before`, if this build has a device that may hold several AES blocks in a register: software, or lanes on x86-64.
    const fn faster_in_blocks_before(self, major: u32, minor: u32) -> Row {
        if HAS_BLOCKS { self.faster_before(major, minor) } else { self }
    }
}

/// True if the software device is part of this build.
const HAS_SOFTWARE: bool = cfg!(feature = "software");

/// True if a device of this build may hold several AES blocks in a register.
const HAS_BLOCKS: bool = HAS_SOFTWARE || cfg!(target_arch = "x86_64");

/// On x86-64, OpenSSL uses 512-bit registers for GCM since 3.1, and for XTS since 3.5.
pub(crate) static CIPHERS: [Row; 17] = [
    row("AES-128-GCM", 895, A::Aes128Gcm, Mode::Aead(Aead::Gcm)).faster_in_blocks_before(3, 1),
    row("AES-192-GCM", 898, A::Aes192Gcm, Mode::Aead(Aead::Gcm)).faster_in_blocks_before(3, 1),
    row("AES-256-GCM", 901, A::Aes256Gcm, Mode::Aead(Aead::Gcm)).faster_in_blocks_before(3, 1),
    row("AES-256-XTS", 914, A::Aes256Xts, Mode::Xts).faster_in_blocks_before(3, 5),
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
    row("DES-EDE3-CBC", 44, A::DesEde3Cbc, Mode::Chain(Chain::Cbc)),
    row("ChaCha20", 1019, A::ChaCha20, Mode::Chain(Chain::ChaCha)),
    row("ChaCha20-Poly1305", 1018, A::ChaCha20Poly1305, Mode::Aead(Aead::ChaCha)),
];

/// OpenSSL 4.0 prepares HMAC's key once for all iterations, and is twice as fast at PBKDF2 as 3.0. Lanes are faster still.
pub(crate) static KDFS: [Row; 2] =
    [Row::new("PBKDF2", 69, Mode::Kdf(Kdf::Pbkdf2)).faster_before(4, 1), Row::new("HKDF", 1036, Mode::Kdf(Kdf::Hkdf))];

/// Operations with key pairs: signatures first, then key exchange. OpenSSL 4.0 has the same slow code for Curve25519 as 3.0. For
/// SLH-DSA it computes hashes one by one, which takes up to five times as long as in lanes.
pub(crate) static KEY_PAIR_ALGORITHMS: [Row; 14] = [
    row("ED25519", 1087, A::Ed25519, Mode::Signature).faster_in_software_before(4, 1),
    row("SLH-DSA-SHA2-128s", 1460, A::SlhDsaSha2_128s, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHA2-128f", 1461, A::SlhDsaSha2_128f, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHA2-192s", 1462, A::SlhDsaSha2_192s, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHA2-192f", 1463, A::SlhDsaSha2_192f, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHA2-256s", 1464, A::SlhDsaSha2_256s, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHA2-256f", 1465, A::SlhDsaSha2_256f, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-128s", 1466, A::SlhDsaShake128s, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-128f", 1467, A::SlhDsaShake128f, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-192s", 1468, A::SlhDsaShake192s, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-192f", 1469, A::SlhDsaShake192f, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-256s", 1470, A::SlhDsaShake256s, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("SLH-DSA-SHAKE-256f", 1471, A::SlhDsaShake256f, Mode::SlhDsa).faster_in_software_before(4, 1),
    row("X25519", 1034, A::X25519, Mode::Exchange).faster_in_software_before(4, 1),
];

/// The number of signature rows at the start of [`KEY_PAIR_ALGORITHMS`].
pub(crate) const SIGNATURE_ROWS: usize = 13;

/// The TLS group of browsers, which OpenSSL has since 3.5. Its code for ML-KEM uses no vector instructions up to 4.0. OpenSSL cannot export
/// private keys of the hybrid groups with a NIST curve, so a program could not use them with another provider.
pub(crate) static KEMS: [Row; 1] = [Row::new("X25519MLKEM768", 0, Mode::Kem).faster_in_software_before(4, 1)];

const fn key_type(name: &'static str, nid: u32) -> Row {
    Row::new(name, nid, Mode::KeyType)
}

pub(crate) static KEY_TYPES: [Row; 15] = [
    key_type("ED25519", 1087),
    key_type("X25519", 1034),
    key_type("SLH-DSA-SHA2-128s", 1460),
    key_type("SLH-DSA-SHA2-128f", 1461),
    key_type("SLH-DSA-SHA2-192s", 1462),
    key_type("SLH-DSA-SHA2-192f", 1463),
    key_type("SLH-DSA-SHA2-256s", 1464),
    key_type("SLH-DSA-SHA2-256f", 1465),
    key_type("SLH-DSA-SHAKE-128s", 1466),
    key_type("SLH-DSA-SHAKE-128f", 1467),
    key_type("SLH-DSA-SHAKE-192s", 1468),
    key_type("SLH-DSA-SHAKE-192f", 1469),
    key_type("SLH-DSA-SHAKE-256s", 1470),
    key_type("SLH-DSA-SHAKE-256f", 1471),
    key_type("X25519MLKEM768", 0),
];

/// Returns the SLH-DSA parameter set whose keys have this name.
pub(crate) fn slh_dsa_parameter_set(key_type: &str) -> Option<A> {
    let row = KEY_PAIR_ALGORITHMS.iter().find(|row| row.mode == Mode::SlhDsa && row.name == key_type)?;
    row.algorithm
}

/// Returns OpenSSL's names of the algorithms for which measurements decide if they are worth serving.
pub fn measured_names() -> Vec<&'static str> {
    CIPHERS
        .iter()
        .chain(&KEY_PAIR_ALGORITHMS)
        .chain(&KDFS)
        .filter(|row| row.is_measured())
        .map(|row| row.name)
        .collect()
}

impl Row {
    /// Returns true if measurements decide whether the row is worth serving.
    pub(crate) fn is_measured(&self) -> bool {
        match self.mode {
            Mode::Aead(_) | Mode::Xts | Mode::Chain(Chain::Ctr) | Mode::Signature | Mode::Exchange => true,
            Mode::Kdf(kdf) => kdf == Kdf::Pbkdf2,
            Mode::Chain(_) | Mode::SlhDsa | Mode::Kem | Mode::KeyType => false,
        }
    }

    /// Returns true if the row has pipelines: AES-CBC does from 3.5 on; DES has none.
    pub(crate) fn has_pipelines(&self, version: (u32, u32)) -> bool {
        version >= (3, 5) && self.gains_from_batches()
    }

    /// Returns true if a device that every machine has may be faster than this OpenSSL release. Such devices are software, and lanes with
    /// one message or with the messages of several pipes.
    pub(crate) fn may_be_faster(&self, version: (u32, u32)) -> bool {
        match self.mode {
            Mode::Aead(_) => self.faster_before.is_some_and(|release| version < release),
            Mode::Xts => HAS_BLOCKS && version < (3, 5),
            Mode::Chain(_) => self.has_pipelines(version),
            Mode::Signature | Mode::Exchange => HAS_SOFTWARE,
            Mode::Kdf(_) => true,
            // Earlier releases have no SLH-DSA.
            Mode::SlhDsa => HAS_SOFTWARE && version >= (3, 5),
            Mode::Kem | Mode::KeyType => false,
        }
    }

    /// Returns true if several messages at a time are faster than one by one. CBC encrypts the blocks of a message one after the other, but
    /// lanes encrypt several messages side by side. Lanes do not serve DES.
    pub(crate) fn gains_from_batches(&self) -> bool {
        self.mode == Mode::Chain(Chain::Cbc) && self.algorithm != Some(A::DesEde3Cbc)
    }

    /// Returns the key type of a signature, key exchange or KEM, which has the same name.
    pub(crate) fn key_type(&self) -> &'static Row {
        KEY_TYPES.iter().find(|key_type| key_type.name == self.name).unwrap_or(&KEY_TYPES[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_come_first_and_have_keys_of_their_type() {
        let kinds: Vec<Option<Kind>> = KEY_PAIR_ALGORITHMS.iter().map(Row::kind).collect();
        assert!(kinds[..SIGNATURE_ROWS].iter().all(|kind| *kind == Some(Kind::Signature)));
        assert!(kinds[SIGNATURE_ROWS..].iter().all(|kind| *kind == Some(Kind::Exchange)));
        assert!(KEY_PAIR_ALGORITHMS.iter().chain(&KEMS).all(|row| row.key_type().name == row.name));
        assert_eq!(KEY_PAIR_ALGORITHMS.iter().filter_map(|row| slh_dsa_parameter_set(row.name)).count(), 12);
    }

    #[test]
    fn every_number_is_in_obj_mac_h() {
        let header = openssl_4_0::source_dir().join("include/openssl/obj_mac.h");
        let text = std::fs::read_to_string(&header).unwrap();
        let rows = CIPHERS.iter().chain(&KDFS).chain(&KEY_PAIR_ALGORITHMS).chain(&KEY_TYPES);
        for row in rows.filter(|row| row.nid != 0) {
            let line = format!(" {}", row.nid);
            assert!(
                text.lines().any(|found| found.starts_with("#define NID_") && found.ends_with(&line)),
                "{}",
                row.name
            );
        }
    }
}
