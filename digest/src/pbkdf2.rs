//! PBKDF2 (RFC 8018, 5.2; SP 800-132) with HMAC.
//!
//! Each block of the derived key is a chain of HMACs, which is inherently serial. Blocks are independent of each other: the blocks
//! of one key, and of many passwords, run side by side.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::hash_function::{GenericWork, HashFunction, plain_setup};
use crate::hasher::Hasher;
use crate::hmac::HmacKey;
use crate::hmac_chain::HmacChain;
use crate::internal::wipe::with_stack_wiped;
use crate::level::Level;

/// Derives a key of the length of `output` from a password. The blocks of the key run side by side.
///
/// `iterations` must be at least 1. A key has at most 2^32 - 1 digests.
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
        pbkdf2_advance(&mut [&mut derivation], u64::MAX)?;
    }
    output.copy_from_slice(&derivation.output);
    Ok(())
}

/// A derivation that proceeds in steps, side by side with others: see [`pbkdf2_advance`]. Its contents are zeroized on drop.
///
/// ```
/// use gantry_digest::{Algorithm, Pbkdf2, pbkdf2_advance};
///
/// let derivation = |password, iterations| Pbkdf2::new(Algorithm::Sha256, password, b"salt", iterations, 32);
/// let (mut alice, mut bob) = (derivation(b"open sesame", 100)?, derivation(b"swordfish", 300)?);
/// while alice.key().is_none() || bob.key().is_none() {
///     pbkdf2_advance(&mut [&mut alice, &mut bob], 64)?;
/// }
/// assert_ne!(alice.key(), bob.key());
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub struct Pbkdf2 {
    password: HmacKey,
    salt: Zeroizing<Vec<u8>>,
    iterations: u64,
    /// Iterations left for the blocks in progress.
    remaining_iterations: u64,
    /// Bytes of the key before the blocks in progress.
    finished_bytes: usize,
    /// The last HMAC of each block in progress. Empty once the key is complete.
    digests: Zeroizing<Vec<u8>>,
    /// The XOR of all HMACs so far, for each block in progress.
    sums: Zeroizing<Vec<u8>>,
    output: Zeroizing<Vec<u8>>,
}

/// The maximum number of blocks of one key in progress: the lanes of the widest kernels.
const MAX_BLOCKS_IN_PROGRESS: usize = 16;

impl Pbkdf2 {
    /// Starts to derive a key of `length` bytes. Password and salt may have any length.
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
        let max = u64::from(u32::MAX) * algorithm.digest_size() as u64;
        if length as u64 > max {
            return Err(Error::KeyLength { max });
        }
        let mut derivation = Pbkdf2 {
            password: HmacKey::new(algorithm, password),
            salt: Zeroizing::new(salt.to_vec()),
            iterations,
            remaining_iterations: 0,
            finished_bytes: 0,
            digests: Zeroizing::default(),
            sums: Zeroizing::default(),
            output: Zeroizing::new(vec![0; length]),
        };
        with_stack_wiped(|| {
            derivation.start_blocks();
            derivation.finish_blocks();
        });
        Ok(derivation)
    }

    /// Returns the derived key once it is complete.
    pub fn key(&self) -> Option<&[u8]> {
        self.digests.is_empty().then(|| &self.output[..])
    }

    /// The hash function that HMAC uses.
    pub fn algorithm(&self) -> Algorithm {
        self.password.algorithm()
    }

    /// Number of blocks in progress: the lanes that this derivation takes.
    pub fn blocks(&self) -> usize {
        self.digests.len() / self.algorithm().digest_size()
    }

    /// Computes the first HMAC of each of the next blocks: over the salt and the number of the block.
    fn start_blocks(&mut self) {
        let size = self.algorithm().digest_size();
        let blocks = (self.output.len() - self.finished_bytes).div_ceil(size).min(MAX_BLOCKS_IN_PROGRESS);
        self.remaining_iterations = self.iterations - 1;
        self.digests = Zeroizing::new(vec![0; blocks * size]);
        let mut salted = self.password.hasher();
        salted.update(&self.salt);
        // Block numbers start at 1; `new` has checked that they fit in 32 bits.
        for (number, digest) in (self.finished_bytes / size + 1..).zip(self.digests.chunks_exact_mut(size)) {
            let mut block: Hasher<'_> = salted.clone();
            block.update(&(number as u32).to_be_bytes());
            let finished = block.finish(digest);
            debug_assert!(finished.is_ok(), "the output must have the length of a digest");
        }
        self.sums = self.digests.clone();
    }

    /// Stores finished blocks and starts the next ones.
    fn finish_blocks(&mut self) {
        while self.remaining_iterations == 0 && !self.digests.is_empty() {
            let output = &mut self.output[self.finished_bytes..];
            let length = output.len().min(self.sums.len());
            output[..length].copy_from_slice(&self.sums[..length]);
            self.finished_bytes += length;
            self.start_blocks();
        }
    }
}

impl fmt::Debug for Pbkdf2 {
    /// Omits the password and everything derived from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pbkdf2").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

/// Advances derivations side by side, by `max_iterations` iterations or until the first of them completes its blocks in progress. Does
/// nothing and returns an error if the derivations differ in their algorithm. Passwords, salts, iterations and lengths may differ.
///
/// Call it until each derivation has its [key](Pbkdf2::key). Completed ones are left unchanged.
pub fn pbkdf2_advance(derivations: &mut [&mut Pbkdf2], max_iterations: u64) -> Result<(), Error> {
    let Some(first) = derivations.first() else { return Ok(()) };
    let algorithm = first.algorithm();
    if let Some(index) = derivations.iter().position(|derivation| derivation.algorithm() != algorithm) {
        return Err(Error::MixedAlgorithms { index });
    }
    let in_progress = derivations.iter().filter(|derivation| derivation.key().is_none());
    let Some(steps) = in_progress.map(|derivation| derivation.remaining_iterations).min() else { return Ok(()) };
    let steps = steps.min(max_iterations);
    with_stack_wiped(|| {
        plain_setup(algorithm).run(AdvanceChains { derivations, steps });
        for derivation in derivations {
            if derivation.key().is_none() {
                derivation.remaining_iterations -= steps;
                derivation.finish_blocks();
            }
        }
    });
    Ok(())
}

struct AdvanceChains<'a, 'd> {
    derivations: &'a mut [&'d mut Pbkdf2],
    steps: u64,
}

impl GenericWork for AdvanceChains<'_, '_> {
    type Output = ();

    fn run<F: HashFunction>(self, _: &F::Setup) {
        let chains = self.derivations.iter_mut().flat_map(|derivation| {
            let Pbkdf2 { password, digests, sums, .. } = &mut **derivation;
            let size = password.algorithm().digest_size();
            let setup = F::setup_of(password.setup());
            let blocks = digests.chunks_exact_mut(size).zip(sums.chunks_exact_mut(size));
            // All derivations use `F`, so `setup` is never `None`. Completed ones have no blocks.
            blocks.filter_map(move |(digest, sum)| Some(HmacChain { setup: setup?, digest, sum }))
        });
        let mut chains: Vec<HmacChain<'_, F::Setup>> = chains.collect();
        F::iterate(Level::in_use(), &mut chains, self.steps);
    }
}
