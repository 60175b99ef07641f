use gantry::{Algorithm, Operation};

/// What people use cryptography for, and what its score is made of.
pub(super) struct Use {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    /// Units in one run of all the parts.
    pub(super) amount: f64,
    /// The formula, in words.
    pub(super) formula: &'static str,
    pub(super) parts: &'static [Part],
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    /// How many of them.
    pub(super) times: f64,
    pub(super) algorithm: Algorithm,
    pub(super) operation: Operation,
    pub(super) bytes: usize,
    /// Handed over together.
    pub(super) batch: usize,
}

const fn part(times: f64, algorithm: Algorithm, operation: Operation, bytes: usize, batch: usize) -> Part {
    Part { times, algorithm, operation, bytes, batch }
}

use Algorithm::{Aes128Gcm, Aes256Xts, ChaCha20Poly1305, EcdsaP256, Ed25519, Rsa2048Pkcs1, Sha256, X25519};
use Operation::{Decrypt, Derive, Digest, Encrypt, Open, Seal, Sign, Verify};

/// A score is `amount` / the sum of `times` * the CPU time of a request.
pub(super) const USES: [Use; 5] = [
    Use {
        name: "tls",
        title: "TLS server",
        unit: "connections/s",
        amount: 1.0,
        formula: "connections/s: an ECDSA P-256 signature, two X25519 operations, and four records of 16 KiB with AES-128-GCM, one call each",
        parts: &[
            part(1.0, EcdsaP256, Sign, 32, 1),
            part(2.0, X25519, Derive, 32, 1),
            part(4.0, Aes128Gcm, Seal, 16384, 1),
        ],
    },
    Use {
        name: "vpn",
        title: "VPN",
        unit: "GB/s",
        amount: 4.0 * 1420e-9,
        formula: "GB/s of packets of 1420 bytes, 32 at a time: a quarter each sealed and opened with AES-128-GCM (IPsec) and ChaCha20-Poly1305 (WireGuard)",
        parts: &[
            part(1.0, Aes128Gcm, Seal, 1420, 32),
            part(1.0, Aes128Gcm, Open, 1420, 32),
            part(1.0, ChaCha20Poly1305, Seal, 1420, 32),
            part(1.0, ChaCha20Poly1305, Open, 1420, 32),
        ],
    },
    Use {
        name: "disk",
        title: "Disk",
        unit: "GB/s",
        amount: 2.0 * 4096e-9,
        formula: "GB/s of sectors of 4 KiB with AES-256-XTS, 32 at a time: half encrypted, half decrypted",
        parts: &[part(1.0, Aes256Xts, Encrypt, 4096, 32), part(1.0, Aes256Xts, Decrypt, 4096, 32)],
    },
    Use {
        name: "files",
        title: "Files",
        unit: "files/s",
        amount: 1.0,
        formula: "files/s: SHA-256 of files of 64 KiB in memory, 16 at a time",
        parts: &[part(1.0, Sha256, Digest, 65536, 16)],
    },
    Use {
        name: "signatures",
        title: "Signatures",
        unit: "signatures/s",
        amount: 3.0,
        formula: "signatures/s, each made once and verified once: a third each with Ed25519, ECDSA P-256 and RSA-2048 (PKCS #1)",
        parts: &[
            part(1.0, Ed25519, Sign, 32, 1),
            part(1.0, Ed25519, Verify, 32, 1),
            part(1.0, EcdsaP256, Sign, 32, 1),
            part(1.0, EcdsaP256, Verify, 32, 1),
            part(1.0, Rsa2048Pkcs1, Sign, 32, 1),
            part(1.0, Rsa2048Pkcs1, Verify, 32, 1),
        ],
    },
];

impl Part {
    /// Whether one measurement serves both.
    pub(super) fn is_like(&self, other: &Part) -> bool {
        Part { times: 1.0, ..*self } == Part { times: 1.0, ..*other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::fits;

    #[test]
    fn algorithms_take_what_they_are_given() {
        for Part { algorithm, operation, bytes, .. } in USES.iter().flat_map(|of| of.parts) {
            assert!(
                algorithm.kind().operations().contains(operation) && fits(*algorithm, *bytes),
                "{algorithm} {operation}"
            );
        }
    }

    #[test]
    fn amounts_of_bytes_are_those_of_the_parts() {
        for of in USES.iter().filter(|of| of.unit == "GB/s") {
            let bytes: f64 = of.parts.iter().map(|part| part.times * part.bytes as f64).sum();
            assert!((of.amount - bytes / 1e9).abs() < 1e-15, "{}", of.name);
        }
    }

    /// The book and `--help` define the scores in the same words.
    #[test]
    fn formulas_are_documented() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let book = words(include_str!("../../../docs/src/bench.md"));
        let help = words(include_str!("../args/measure.rs"));
        for of in USES {
            for place in [&book, &help] {
                assert!(place.contains(of.formula), "{}", of.name);
            }
        }
    }
}
