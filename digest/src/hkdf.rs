//! HKDF (RFC 5869).

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::hash_function::{AnySetup, check_output, plain_setup};
use crate::hasher::Hasher;
use crate::internal::wipe::with_stack_wiped;
use crate::level::Level;

/// Derives a key of the length of `output` from a secret: [`hkdf_extract`], then [`hkdf_expand`].
///
/// ```
/// use gantry_digest::{Algorithm, hkdf};
///
/// let mut key = [0; 42];
/// hkdf(Algorithm::Sha256, &[0x0b; 22], &[], &[], &mut key)?;
/// assert_eq!(key[..4], [0x8d, 0xa4, 0xe7, 0x75]);
/// # Ok::<(), gantry_digest::Error>(())
/// ```
pub fn hkdf(algorithm: Algorithm, secret: &[u8], salt: &[u8], info: &[u8], output: &mut [u8]) -> Result<(), Error> {
    check_length(algorithm, output)?;
    with_stack_wiped(|| {
        let mut key = [0; Algorithm::MAX_DIGEST_SIZE];
        let key = &mut key[..algorithm.digest_size()];
        extract(algorithm, secret, salt, key);
        expand(algorithm, key, info, output);
    });
    Ok(())
}

/// Extracts a pseudorandom key from a secret and a salt (RFC 5869, 2.2). The salt may be empty. The key has the length of a digest.
pub fn hkdf_extract(algorithm: Algorithm, secret: &[u8], salt: &[u8], output: &mut [u8]) -> Result<(), Error> {
    check_output(algorithm, 1, output)?;
    with_stack_wiped(|| extract(algorithm, secret, salt, output));
    Ok(())
}

/// Expands a pseudorandom key to the length of `output`, at most 255 digests (RFC 5869, 2.3). Different values of `info` give independent
/// outputs.
pub fn hkdf_expand(algorithm: Algorithm, key: &[u8], info: &[u8], output: &mut [u8]) -> Result<(), Error> {
    check_length(algorithm, output)?;
    with_stack_wiped(|| expand(algorithm, key, info, output));
    Ok(())
}

fn check_length(algorithm: Algorithm, output: &[u8]) -> Result<(), Error> {
    let max = 255 * algorithm.digest_size();
    if output.len() <= max { Ok(()) } else { Err(Error::KeyLength { max: max as u64 }) }
}

fn extract(algorithm: Algorithm, secret: &[u8], salt: &[u8], output: &mut [u8]) {
    let setup = hmac_setup(algorithm, salt);
    let mut hasher = Hasher::from_setup(algorithm, &setup);
    hasher.update(secret);
    finish(&mut hasher, output);
}

fn expand(algorithm: Algorithm, key: &[u8], info: &[u8], output: &mut [u8]) {
    let size = algorithm.digest_size();
    let setup = hmac_setup(algorithm, key);
    let mut hasher = Hasher::from_setup(algorithm, &setup);
    let mut last = [0; Algorithm::MAX_DIGEST_SIZE];
    for (number, part) in (1..=u8::MAX).zip(output.chunks_mut(size)) {
        if number > 1 {
            hasher.update(&last[..size]);
        }
        hasher.update(info);
        hasher.update(&[number]);
        finish(&mut hasher, &mut last[..size]);
        part.copy_from_slice(&last[..part.len()]);
    }
}

/// The starting state of HMACs under a key.
fn hmac_setup(algorithm: Algorithm, key: &[u8]) -> AnySetup {
    plain_setup(algorithm).hmac(Level::in_use(), key)
}

fn finish(hasher: &mut Hasher<'_>, output: &mut [u8]) {
    let finished = hasher.finish(output);
    debug_assert!(finished.is_ok(), "the output must have the length of a digest");
}
