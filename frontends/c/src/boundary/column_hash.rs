//! The hash functions for columns of a session.

use gantry_core::{Kind, SessionParams};
use gantry_digest::{Algorithm, HmacKey};

/// The hash function of a session's columns.
pub(super) enum ColumnHash {
    Digest(Algorithm),
    Hmac(HmacKey),
}

impl ColumnHash {
    /// Returns the hash function for columns of a session, or `None` if its algorithm has no columns.
    pub(super) fn for_session(params: &SessionParams) -> Option<Self> {
        let name = params.algorithm().name();
        match params.algorithm().kind() {
            Kind::Digest => name.parse().ok().map(ColumnHash::Digest),
            Kind::Mac => {
                let algorithm = name.strip_prefix("hmac-")?.parse().ok()?;
                Some(ColumnHash::Hmac(HmacKey::new(algorithm, params.key())))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_support_all_algorithms_of_gantry_digest() {
        for algorithm in Algorithm::ALL {
            let Ok(known) = gantry_core::Algorithm::matching(algorithm.as_str()) else {
                let without_sessions = [Algorithm::Blake2b512, Algorithm::Keccak256];
                assert!(without_sessions.contains(&algorithm), "{algorithm} has no sessions");
                continue;
            };
            let found = ColumnHash::for_session(&SessionParams::new(known[0], &[]));
            assert!(matches!(found, Some(ColumnHash::Digest(found)) if found == algorithm), "{algorithm}");
        }
        let found = ColumnHash::for_session(&SessionParams::new(gantry_core::Algorithm::HmacSha512, b"key"));
        assert!(matches!(found, Some(ColumnHash::Hmac(key)) if key.algorithm() == Algorithm::Sha512));
        assert!(ColumnHash::for_session(&SessionParams::new(gantry_core::Algorithm::Aes128Cmac, &[0; 16])).is_none());
    }
}
