//! Maps algorithms to the kinds of sessions of `/dev/crypto`.

use gantry_abi_cryptodev::{CIPHERS, HASHES};
use gantry_core::Algorithm;

/// A kind of session, with the algorithm's number in the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    Hash { number: u32 },
    Cipher { number: u32 },
    Aead { number: u32, ccm: bool },
}

/// Returns the kind of session for an algorithm, if /dev/crypto has one.
pub(crate) fn session_kind(algorithm: Algorithm) -> Option<SessionKind> {
    if let Some(row) = HASHES.iter().find(|row| row.algorithm == algorithm) {
        return Some(SessionKind::Hash { number: row.number });
    }
    // No engine has the NULL cipher. XTS gives wrong results where data is copied, and takes whole blocks only.
    if matches!(algorithm, Algorithm::Null | Algorithm::Aes128Xts | Algorithm::Aes256Xts) {
        return None;
    }
    let row = CIPHERS.iter().find(|row| row.algorithms.contains(&algorithm))?;
    let number = row.number;
    Some(if row.is_aead() {
        SessionKind::Aead { number, ccm: row.name.starts_with("ccm") }
    } else {
        SessionKind::Cipher { number }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_have_the_numbers_of_the_interface() {
        assert_eq!(session_kind(Algorithm::Aes192Cbc), Some(SessionKind::Cipher { number: 11 }));
        assert_eq!(session_kind(Algorithm::HmacSha1), Some(SessionKind::Hash { number: 7 }));
        assert_eq!(session_kind(Algorithm::Aes256Gcm), Some(SessionKind::Aead { number: 50, ccm: false }));
        assert_eq!(session_kind(Algorithm::Aes128Ccm), Some(SessionKind::Aead { number: 51, ccm: true }));
        for none in [Algorithm::Null, Algorithm::Aes256Xts, Algorithm::Sha3_256, Algorithm::ChaCha20] {
            assert_eq!(session_kind(none), None, "{none}");
        }
    }
}
