//! The post-quantum groups of TLS 1.3, which OpenSSL has from 3.5 on.

use std::ffi::CStr;

use gantry_core::Algorithm;

/// The first release of OpenSSL with these groups of its own.
pub(crate) const NATIVE_SINCE: (u32, u32) = (3, 5);

/// A group of draft-ietf-tls-ecdhe-mlkem or draft-ietf-tls-mlkem.
#[derive(Debug)]
pub(crate) struct Group {
    /// The name in TLS, as OpenSSL 3.5 spells it.
    pub(crate) name: &'static CStr,
    /// The name of the group's keys.
    pub(crate) key_type: &'static CStr,
    /// All names of the group's keys, separated by colons.
    pub(crate) key_type_names: &'static CStr,
    /// The code point (IANA, TLS Supported Groups).
    pub(crate) id: u32,
    pub(crate) security_bits: u16,
    pub(crate) ml_kem: Algorithm,
    /// The classical half of a hybrid group.
    pub(crate) curve: Option<Curve>,
}

/// A curve, computed by the default provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    X25519,
    P256,
    P384,
}

impl Curve {
    /// Returns the names of the default provider's key type and key exchange.
    pub(crate) fn algorithms(self) -> (&'static str, &'static str) {
        if self == Self::X25519 { ("X25519", "X25519") } else { ("EC", "ECDH") }
    }

    /// Returns the default provider's name of the group.
    pub(crate) fn group_name(self) -> &'static CStr {
        match self {
            Self::X25519 => c"x25519",
            Self::P256 => c"P-256",
            Self::P384 => c"P-384",
        }
    }

    /// Returns the length of a public key, in bytes.
    pub(crate) fn public_len(self) -> usize {
        match self {
            Self::X25519 => 32,
            Self::P256 => 65,
            Self::P384 => 97,
        }
    }

    /// Returns the length of a shared secret, in bytes.
    pub(crate) fn secret_len(self) -> usize {
        if self == Self::P384 { 48 } else { 32 }
    }

    /// Returns true if the bytes of a public key have the only form that TLS allows; a point is uncompressed (RFC 8446, 4.2.8.2).
    pub(crate) fn has_tls_form(self, public: &[u8]) -> bool {
        public.len() == self.public_len() && (self == Self::X25519 || public[0] == 4)
    }
}

/// Bytes of a secret of ML-KEM.
pub(crate) const ML_KEM_SECRET_LEN: usize = 32;

impl Group {
    /// Splits a share or secret of `bytes` bytes. Its ML-KEM part has `ml_kem_len` bytes. Returns the length of the curve's part, and
    /// true if ML-KEM's part comes first; `None` if `bytes` is too short. Among the hybrid groups, only X25519MLKEM768
    /// begins with ML-KEM's part.
    fn split(&self, bytes: usize, ml_kem_len: usize) -> Option<(usize, bool)> {
        let is_ml_kem_first = matches!(self.curve, None | Some(Curve::X25519));
        Some((bytes.checked_sub(ml_kem_len)?, is_ml_kem_first))
    }

    /// Splits a share or secret into ML-KEM's part, which has `ml_kem_len` bytes, and the curve's part.
    pub(crate) fn parts<'s>(&self, bytes: &'s [u8], ml_kem_len: usize) -> Option<(&'s [u8], &'s [u8])> {
        let (curve_len, is_ml_kem_first) = self.split(bytes.len(), ml_kem_len)?;
        let (first, second) = bytes.split_at(if is_ml_kem_first { ml_kem_len } else { curve_len });
        Some(if is_ml_kem_first { (first, second) } else { (second, first) })
    }

    /// As [`parts`](Self::parts), for writing.
    pub(crate) fn parts_mut<'s>(&self, bytes: &'s mut [u8], ml_kem_len: usize) -> Option<(&'s mut [u8], &'s mut [u8])> {
        let (curve_len, is_ml_kem_first) = self.split(bytes.len(), ml_kem_len)?;
        let (first, second) = bytes.split_at_mut(if is_ml_kem_first { ml_kem_len } else { curve_len });
        Some(if is_ml_kem_first { (first, second) } else { (second, first) })
    }

    /// Returns the length of ML-KEM's encapsulation key, in bytes.
    pub(crate) fn ml_kem_public_len(&self) -> usize {
        self.ml_kem.info().public_key.max
    }

    /// Returns the length of ML-KEM's ciphertext, in bytes.
    pub(crate) fn ml_kem_ciphertext_len(&self) -> usize {
        self.ml_kem.info().encapsulation.0
    }

    /// Returns ML-KEM's number, which OpenSSL calls the bits of a key.
    pub(crate) fn ml_kem_bits(&self) -> u16 {
        match self.ml_kem {
            Algorithm::MlKem512 => 512,
            Algorithm::MlKem768 => 768,
            _ => 1024,
        }
    }

    /// Returns the length of a client's share, in bytes.
    pub(crate) fn client_share_len(&self) -> usize {
        self.ml_kem_public_len() + self.curve.map_or(0, Curve::public_len)
    }

    /// Returns the length of a server's share, in bytes.
    pub(crate) fn server_share_len(&self) -> usize {
        self.ml_kem_ciphertext_len() + self.curve.map_or(0, Curve::public_len)
    }

    /// Returns the length of the shared secret, in bytes.
    pub(crate) fn secret_len(&self) -> usize {
        ML_KEM_SECRET_LEN + self.curve.map_or(0, Curve::secret_len)
    }

    /// Returns the group's name.
    pub(crate) fn name_str(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }
}

/// The groups, with the security bits of OpenSSL 3.5.
pub(crate) static GROUPS: [Group; 6] = [
    Group {
        name: c"X25519MLKEM768",
        key_type: c"X25519MLKEM768",
        key_type_names: c"X25519MLKEM768",
        id: 0x11EC,
        security_bits: 192,
        ml_kem: Algorithm::MlKem768,
        curve: Some(Curve::X25519),
    },
    Group {
        name: c"SecP256r1MLKEM768",
        key_type: c"SecP256r1MLKEM768",
        key_type_names: c"SecP256r1MLKEM768",
        id: 0x11EB,
        security_bits: 192,
        ml_kem: Algorithm::MlKem768,
        curve: Some(Curve::P256),
    },
    Group {
        name: c"SecP384r1MLKEM1024",
        key_type: c"SecP384r1MLKEM1024",
        key_type_names: c"SecP384r1MLKEM1024",
        id: 0x11ED,
        security_bits: 256,
        ml_kem: Algorithm::MlKem1024,
        curve: Some(Curve::P384),
    },
    Group {
        name: c"MLKEM512",
        key_type: c"ML-KEM-512",
        key_type_names: c"ML-KEM-512:MLKEM512",
        id: 0x0200,
        security_bits: 128,
        ml_kem: Algorithm::MlKem512,
        curve: None,
    },
    Group {
        name: c"MLKEM768",
        key_type: c"ML-KEM-768",
        key_type_names: c"ML-KEM-768:MLKEM768",
        id: 0x0201,
        security_bits: 192,
        ml_kem: Algorithm::MlKem768,
        curve: None,
    },
    Group {
        name: c"MLKEM1024",
        key_type: c"ML-KEM-1024",
        key_type_names: c"ML-KEM-1024:MLKEM1024",
        id: 0x0202,
        security_bits: 256,
        ml_kem: Algorithm::MlKem1024,
        curve: None,
    },
];

/// Returns the hybrid group whose keys have this type.
pub(crate) fn hybrid_group(key_type: &str) -> Option<&'static Group> {
    let is_hybrid = |group: &&Group| group.curve.is_some() && group.key_type.to_bytes() == key_type.as_bytes();
    GROUPS.iter().find(is_hybrid)
}

/// Returns true if every coefficient of an encapsulation key is below the modulus (FIPS 203, 7.2). Each 3 bytes of the key hold two
/// coefficients; the last 32 bytes are a seed.
pub(crate) fn is_reduced(public: &[u8]) -> bool {
    const MODULUS: u16 = 3329;
    let coefficients_len = public.len().saturating_sub(32);
    public[..coefficients_len].chunks_exact(3).all(|three| {
        let [a, b, c] = [three[0], three[1], three[2]].map(u16::from);
        (a | (b & 15) << 8) < MODULUS && (b >> 4 | c << 4) < MODULUS
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares code points and lengths with the tables of the drafts.
    #[test]
    fn shares_and_secrets_have_the_lengths_of_the_drafts() {
        let lengths = GROUPS.each_ref().map(|group| {
            (group.name_str(), group.id, group.client_share_len(), group.server_share_len(), group.secret_len())
        });
        assert_eq!(
            lengths,
            [
                ("X25519MLKEM768", 4588, 1216, 1120, 64),
                ("SecP256r1MLKEM768", 4587, 1249, 1153, 64),
                ("SecP384r1MLKEM1024", 4589, 1665, 1665, 80),
                ("MLKEM512", 512, 800, 768, 32),
                ("MLKEM768", 513, 1184, 1088, 32),
                ("MLKEM1024", 514, 1568, 1568, 32),
            ]
        );
    }

    #[test]
    fn only_x25519_follows_ml_kem() {
        let share: Vec<u8> = (0..=255).cycle().take(1216).map(|at: u16| at as u8).collect();
        let (ml_kem, curve) = GROUPS[0].parts(&share, 1184).unwrap();
        assert_eq!((ml_kem, curve), share.split_at(1184));
        let share = [share, vec![7; 33]].concat();
        let (ml_kem, curve) = GROUPS[1].parts(&share, 1184).unwrap();
        assert_eq!((curve, ml_kem), share.split_at(65));
        assert!(GROUPS[3].parts(&[1; 800], 800).unwrap().1.is_empty());
        assert_eq!(GROUPS[3].parts(&[1; 799], 800), None);
    }

    #[test]
    fn coefficients_that_are_not_reduced_are_found() {
        let with = |at: usize, three: [u8; 3]| {
            let mut public = vec![0; 1184];
            public[at..at + 3].copy_from_slice(&three);
            public
        };
        // 3,328 is the largest coefficient: 0xd00.
        assert!(is_reduced(&with(0, [0x00, 0x0d, 0xd0])));
        assert!(!is_reduced(&with(0, [0x01, 0x0d, 0xd0])));
        assert!(!is_reduced(&with(1149, [0x00, 0x1d, 0xd0])));
        assert!(is_reduced(&[&with(0, [0; 3])[..1152], &[0xff; 32]].concat()));
    }
}
