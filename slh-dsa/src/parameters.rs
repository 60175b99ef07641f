//! The parameter sets of FIPS 205, section 11.

use core::fmt;

/// A parameter set: the hash function, the security in bits, and small (`s`) or fast (`f`) signatures.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterSet {
    Sha2_128s,
    Sha2_128f,
    Sha2_192s,
    Sha2_192f,
    Sha2_256s,
    Sha2_256f,
    Shake128s,
    Shake128f,
    Shake192s,
    Shake192f,
    Shake256s,
    Shake256f,
}

/// A row of table 2.
#[derive(Clone, Copy)]
pub(crate) struct Parameters {
    pub(crate) name: &'static str,
    pub(crate) is_shake: bool,
    /// Bytes of a digest.
    pub(crate) n: usize,
    /// Levels of the hypertree, summed over its layers.
    pub(crate) h: usize,
    /// Layers of the hypertree.
    pub(crate) d: usize,
    /// Levels of a tree of FORS.
    pub(crate) a: usize,
    /// Trees of FORS.
    pub(crate) k: usize,
}

/// The names are those of FIPS 205; rows are in the order of the variants.
#[rustfmt::skip]
const TABLE: [Parameters; 12] = [
    Parameters { name: "SLH-DSA-SHA2-128s",  is_shake: false, n: 16, h: 63, d: 7,  a: 12, k: 14 },
    Parameters { name: "SLH-DSA-SHA2-128f",  is_shake: false, n: 16, h: 66, d: 22, a: 6,  k: 33 },
    Parameters { name: "SLH-DSA-SHA2-192s",  is_shake: false, n: 24, h: 63, d: 7,  a: 14, k: 17 },
    Parameters { name: "SLH-DSA-SHA2-192f",  is_shake: false, n: 24, h: 66, d: 22, a: 8,  k: 33 },
    Parameters { name: "SLH-DSA-SHA2-256s",  is_shake: false, n: 32, h: 64, d: 8,  a: 14, k: 22 },
    Parameters { name: "SLH-DSA-SHA2-256f",  is_shake: false, n: 32, h: 68, d: 17, a: 9,  k: 35 },
    Parameters { name: "SLH-DSA-SHAKE-128s", is_shake: true,  n: 16, h: 63, d: 7,  a: 12, k: 14 },
    Parameters { name: "SLH-DSA-SHAKE-128f", is_shake: true,  n: 16, h: 66, d: 22, a: 6,  k: 33 },
    Parameters { name: "SLH-DSA-SHAKE-192s", is_shake: true,  n: 24, h: 63, d: 7,  a: 14, k: 17 },
    Parameters { name: "SLH-DSA-SHAKE-192f", is_shake: true,  n: 24, h: 66, d: 22, a: 8,  k: 33 },
    Parameters { name: "SLH-DSA-SHAKE-256s", is_shake: true,  n: 32, h: 64, d: 8,  a: 14, k: 22 },
    Parameters { name: "SLH-DSA-SHAKE-256f", is_shake: true,  n: 32, h: 68, d: 17, a: 9,  k: 35 },
];

impl ParameterSet {
    /// All parameter sets.
    pub const ALL: [ParameterSet; 12] = [
        ParameterSet::Sha2_128s,
        ParameterSet::Sha2_128f,
        ParameterSet::Sha2_192s,
        ParameterSet::Sha2_192f,
        ParameterSet::Sha2_256s,
        ParameterSet::Sha2_256f,
        ParameterSet::Shake128s,
        ParameterSet::Shake128f,
        ParameterSet::Shake192s,
        ParameterSet::Shake192f,
        ParameterSet::Shake256s,
        ParameterSet::Shake256f,
    ];

    pub(crate) fn parameters(self) -> &'static Parameters {
        &TABLE[self as usize]
    }

    /// Returns the name in FIPS 205, such as `SLH-DSA-SHA2-128s`.
    pub fn name(self) -> &'static str {
        self.parameters().name
    }

    /// Returns the security parameter `n`: bytes of each part of a key, and of the randomness of a hedged signature.
    pub fn n(self) -> usize {
        self.parameters().n
    }

    /// Returns the bytes of the seeds of a key: SK.seed, SK.prf and PK.seed.
    pub fn seed_bytes(self) -> usize {
        3 * self.n()
    }

    /// Returns the bytes of a private key.
    pub fn private_key_bytes(self) -> usize {
        4 * self.n()
    }

    /// Returns the bytes of a public key.
    pub fn public_key_bytes(self) -> usize {
        2 * self.n()
    }

    /// Returns the bytes of a signature.
    pub fn signature_bytes(self) -> usize {
        let set = self.parameters();
        set.n + set.fors_bytes() + set.d * set.layer_bytes()
    }
}

impl fmt::Display for ParameterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Parameters {
    /// Returns the levels of one tree of the hypertree: h'.
    pub(crate) fn height(&self) -> usize {
        self.h / self.d
    }

    /// Returns the number of chains of a one-time signature: `len`.
    pub(crate) fn chain_count(&self) -> usize {
        2 * self.n + 3
    }

    /// Returns the bytes of the FORS part of a signature.
    pub(crate) fn fors_bytes(&self) -> usize {
        self.k * (self.a + 1) * self.n
    }

    /// Returns the bytes of a one-time signature with its path.
    pub(crate) fn layer_bytes(&self) -> usize {
        (self.chain_count() + self.height()) * self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are those of table 2.
    #[test]
    fn sizes_match_fips_205() {
        let sizes = [7856, 17088, 16224, 35664, 29792, 49856];
        for (set, size) in ParameterSet::ALL.into_iter().zip(sizes.into_iter().cycle()) {
            assert_eq!(set.signature_bytes(), size, "{set}");
            assert_eq!(set.name().contains("SHAKE"), set.parameters().is_shake);
            assert!(set.name().contains(&(8 * set.n()).to_string()));
            assert_eq!(
                format!("{set:?}").to_lowercase().replace('_', ""),
                set.name()[8..].to_lowercase().replace('-', "")
            );
        }
    }
}
