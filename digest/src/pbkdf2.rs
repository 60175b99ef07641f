//! PBKDF2 (RFC 8018, 5.2; SP 800-132) with HMAC.
//!
//! A block of the derived key is a chain of HMACs, which no CPU can hurry. Blocks are independent of each other: those of one key, and those of
//! many passwords, go side by side.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::family::{Chain, Family, Work, plain};
use crate::hasher::Hasher;
use crate::hmac::{HmacKey, after_keys};
use crate::level::Level;

/// Derives a key of the length of `output` from a password. The blocks of the key go side by side.
///
/// `iterations` is at least 1. A key has at most 2^32 - 1 digests.
///
/// ```
/// use gantry_digest::{Algorithm, pbkdf2};
///
/// let mut key = [0; 20];
/// pbkdf2(Algorithm::Sha1, b"password", b"salt", 4096, &mut key)?;
/// assert_eq!(key[..4], [0x4b, 0x00, 0x79, 0x01]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn pbkdf2(
    algorithm: Algorithm,
    password: &[u8],
    salt: &[u8],
    iterations: u64,
    output: &mut [u8],
) -> Result<(), Error> {
    let mut derivation = Pbkdf2::new(algorithm, password, salt, iterations, output.len())?;
    while derivation.key().is_none() {
        pbkdf2_some(&mut [&mut derivation], u64::MAX)?;
    }
    output.copy_from_slice(&derivation.output);
    Ok(())
}

/// A derivation that can be done in parts, beside others: [`pbkdf2_some`].
///
/// What it holds is zeroized when it is dropped.
///
/// ```
/// use gantry_digest::{Algorithm, Pbkdf2, pbkdf2_some};
///
/// let derivation = |password, iterations| Pbkdf2::new(Algorithm::Sha256, password, b"salt", iterations, 32);
/// let (mut alice, mut bob) = (derivation(b"open sesame", 100)?, derivation(b"swordfish", 300)?);
/// while alice.key().is_none() || bob.key().is_none() {
///     pbkdf2_some(&mut [&mut alice, &mut bob], 64)?;
/// }
/// assert_ne!(alice.key(), bob.key());
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub struct Pbkdf2 {
    password: HmacKey,
    salt: Zeroizing<Vec<u8>>,
    iterations: u64,
    /// Of the blocks that are under way.
    left: u64,
    /// Bytes of the key in front of the blocks that are under way.
    done: usize,
    /// The last HMAC of each block that is under way, and the sum of all of it. None is: the key is done.
    digests: Zeroizing<Vec<u8>>,
    sums: Zeroizing<Vec<u8>>,
    output: Zeroizing<Vec<u8>>,
}

/// Blocks of one key that are under way at most: so many lanes the widest kernels have.
const TOGETHER: usize = 16;

impl Pbkdf2 {
    /// Begins to derive a key of `length` bytes. Password and salt may have any lengths.
    pub fn new(
        algorithm: Algorithm,
        password: &[u8],
        salt: &[u8],
        iterations: u64,
        length: usize,
    ) -> Result<Self, Error> {
        if iterations == 0 {
            return Err(Error::NoIterations);
        }
        let most = u64::from(u32::MAX) * algorithm.digest_size() as u64;
        if length as u64 > most {
            return Err(Error::KeyLength { most });
        }
        let mut derivation = Pbkdf2 {
            password: HmacKey::new(algorithm, password),
            salt: Zeroizing::new(salt.to_vec()),
            iterations,
            left: 0,
            done: 0,
            digests: Zeroizing::default(),
            sums: Zeroizing::default(),
            output: Zeroizing::new(vec![0; length]),
        };
        after_keys(|| {
            derivation.begin();
            derivation.settle();
        });
        Ok(derivation)
    }

    /// The derived key, once it is done.
    pub fn key(&self) -> Option<&[u8]> {
        self.digests.is_empty().then(|| &self.output[..])
    }

    /// The hash function under HMAC.
    pub fn algorithm(&self) -> Algorithm {
        self.password.algorithm()
    }

    /// Blocks that are under way: so many lanes this takes.
    pub fn blocks(&self) -> usize {
        self.digests.len() / self.algorithm().digest_size()
    }

    /// The first HMAC of each of the next blocks, if there are any: that of the salt and the number of the block.
    fn begin(&mut self) {
        let size = self.algorithm().digest_size();
        let blocks = (self.output.len() - self.done).div_ceil(size).min(TOGETHER);
        self.left = self.iterations - 1;
        self.digests = Zeroizing::new(vec![0; blocks * size]);
        let mut salted = self.password.hasher();
        salted.update(&self.salt);
        // Counted from 1, and never more than 32 bits count.
        for (number, digest) in (self.done / size + 1..).zip(self.digests.chunks_exact_mut(size)) {
            let mut block: Hasher<'_> = salted.clone();
            block.update(&(number as u32).to_be_bytes());
            let finished = block.finish(digest);
            debug_assert!(finished.is_ok(), "it has the length of a digest");
        }
        self.sums = self.digests.clone();
    }

    /// Where the blocks that are under way are done, the next ones begin.
    fn settle(&mut self) {
        while self.left == 0 && !self.digests.is_empty() {
            let output = &mut self.output[self.done..];
            let length = output.len().min(self.sums.len());
            output[..length].copy_from_slice(&self.sums[..length]);
            self.done += length;
            self.begin();
        }
    }
}

impl fmt::Debug for Pbkdf2 {
    /// Without the password and what is derived from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pbkdf2").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

/// Takes derivations further, by `most` iterations or until the first of them has done the blocks that are under way: their blocks go side
/// by side. All are of one algorithm, or nothing is done, and it is an error. Passwords, salts, iterations and lengths may be any.
///
/// Call it until each has its [key](Pbkdf2::key). Those that have theirs stay as they are.
pub fn pbkdf2_some(derivations: &mut [&mut Pbkdf2], most: u64) -> Result<(), Error> {
    let Some(first) = derivations.first() else { return Ok(()) };
    let algorithm = first.algorithm();
    if let Some(index) = derivations.iter().position(|derivation| derivation.algorithm() != algorithm) {
        return Err(Error::Mixed { index });
    }
    let under_way = derivations.iter().filter(|derivation| derivation.key().is_none());
    let Some(steps) = under_way.map(|derivation| derivation.left).min() else { return Ok(()) };
    let steps = steps.min(most);
    after_keys(|| {
        plain(algorithm).with(Steps { derivations, steps });
        for derivation in derivations {
            if derivation.key().is_none() {
                derivation.left -= steps;
                derivation.settle();
            }
        }
    });
    Ok(())
}

struct Steps<'a, 'd> {
    derivations: &'a mut [&'d mut Pbkdf2],
    steps: u64,
}

impl Work for Steps<'_, '_> {
    type Output = ();

    fn with<F: Family>(self, _: &F::Start) {
        let chains = self.derivations.iter_mut().flat_map(|derivation| {
            let Pbkdf2 { password, digests, sums, .. } = &mut **derivation;
            let size = password.algorithm().digest_size();
            let start = F::start_of(password.start());
            let blocks = digests.chunks_exact_mut(size).zip(sums.chunks_exact_mut(size));
            blocks.filter_map(move |(digest, sum)| Some(Chain { start: start?, digest, sum }))
        });
        let mut chains: Vec<Chain<'_, F>> = chains.collect();
        F::iterate(Level::in_use(), &mut chains, self.steps);
    }
}
