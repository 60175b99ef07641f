//! RSA keys and signatures.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams, rsa};

use crate::owned::{Owned, bignum};
use crate::session::{SessionResult, failed_call, failed_open, unsupported_operation};

/// Opens a session of PKCS #1 v1.5 signatures (RFC 8017, 8.2).
pub(crate) fn open_pkcs1(params: &SessionParams) -> SessionResult {
    open(params, Padding::Pkcs1)
}

/// Opens a session of PSS signatures (RFC 8017, 8.1).
pub(crate) fn open_pss(params: &SessionParams) -> SessionResult {
    open(params, Padding::Pss)
}

#[derive(Clone, Copy)]
enum Padding {
    Pkcs1,
    Pss,
}

/// Opens a session. With only the public key, it cannot sign.
fn open(params: &SessionParams, padding: Padding) -> SessionResult {
    let (modulus_len, can_sign) = (params.tag_len(), params.allows(Operation::Sign));
    Ok(Arc::new(Rsa { key: read_key(params, can_sign)?, modulus_len, can_sign, padding }))
}

/// Reads the key of a session. The modulus must have `tag_len` bytes.
pub(crate) fn read_key(params: &SessionParams, is_private: bool) -> Result<Owned<lc::RSA>, Unsupported> {
    let modulus_len = params.tag_len();
    let key = if is_private {
        read_private_key(params.key(), modulus_len)
    } else {
        read_public_key(params.key(), modulus_len)
    };
    // SAFETY: `key` is a valid key.
    let has_modulus_len =
        |key: &Owned<lc::RSA>| usize::try_from(unsafe { lc::RSA_bits(key.as_ptr()) }) == Ok(8 * modulus_len);
    key.filter(has_modulus_len).ok_or_else(|| failed_open("invalid RSA key, or a key of another size"))
}

/// Splits the first `length` bytes off a key, as a number.
fn take_number(key: &mut &[u8], length: usize) -> Option<Owned<lc::BIGNUM>> {
    let (number, rest) = key.split_at_checked(length)?;
    *key = rest;
    bignum(number)
}

/// Reads a private key in the format of [`rsa`], with a modulus of `modulus_len` bytes. AWS-LC checks that its numbers are consistent.
fn read_private_key(mut key: &[u8], modulus_len: usize) -> Option<Owned<lc::RSA>> {
    if key.len() != rsa::private_length(modulus_len) {
        return None;
    }
    let (n, e, d) = (
        take_number(&mut key, modulus_len)?,
        take_number(&mut key, rsa::EXPONENT_LEN)?,
        take_number(&mut key, modulus_len)?,
    );
    let half = modulus_len / 2;
    let (p, q) = (take_number(&mut key, half)?, take_number(&mut key, half)?);
    let (dp, dq, inverse) = (take_number(&mut key, half)?, take_number(&mut key, half)?, take_number(&mut key, half)?);
    // SAFETY: AWS-LC copies the numbers; the key is new.
    unsafe {
        let key = lc::RSA_new_private_key(
            n.as_ptr(),
            e.as_ptr(),
            d.as_ptr(),
            p.as_ptr(),
            q.as_ptr(),
            dp.as_ptr(),
            dq.as_ptr(),
            inverse.as_ptr(),
        );
        Owned::new(key, lc::RSA_free)
    }
}

fn read_public_key(mut key: &[u8], modulus_len: usize) -> Option<Owned<lc::RSA>> {
    if key.len() != rsa::public_length(modulus_len) {
        return None;
    }
    let (n, e) = (take_number(&mut key, modulus_len)?, take_number(&mut key, rsa::EXPONENT_LEN)?);
    // SAFETY: AWS-LC copies the numbers; the key is new.
    unsafe { Owned::new(lc::RSA_new_public_key(n.as_ptr(), e.as_ptr()), lc::RSA_free) }
}

struct Rsa {
    key: Owned<lc::RSA>,
    /// Length of the modulus and of signatures in bytes.
    modulus_len: usize,
    can_sign: bool,
    padding: Padding,
}

/// Returns the SHA-2 function with digests of `bytes` bytes: its NID and its table.
fn hash_for_digest_len(bytes: usize) -> Option<(i32, *const lc::EVP_MD)> {
    // SAFETY: the functions have no preconditions, and return pointers to static tables.
    unsafe {
        match bytes {
            32 => Some((lc::NID_sha256, lc::EVP_sha256())),
            48 => Some((lc::NID_sha384, lc::EVP_sha384())),
            64 => Some((lc::NID_sha512, lc::EVP_sha512())),
            _ => None,
        }
    }
}

/// Makes the salt as long as the digest.
const SALT_AS_LONG_AS_DIGEST: i32 = -1;

impl Rsa {
    /// Signs a digest; the output must be as long as the modulus. Against faults, AWS-LC verifies the result with the public
    /// key before it returns a signature (`rsa_default_private_transform` of its `crypto/fipsmodule/rsa/rsa_impl.c`). Private
    /// keys here contain the public one.
    fn sign(&self, digest: &[u8], output: &mut [u8]) -> bool {
        let Some((number, function)) = hash_for_digest_len(digest.len()) else { return false };
        let (key, length) = (self.key.as_ptr(), digest.len());
        // SAFETY: the digest has the length that is passed, AWS-LC locks the private key when it changes it, and the buffer has
        // the length of a signature.
        unsafe {
            match self.padding {
                Padding::Pkcs1 => {
                    let mut written = 0;
                    lc::RSA_sign(number, digest.as_ptr(), length, output.as_mut_ptr(), &raw mut written, key) == 1
                        && usize::try_from(written) == Ok(self.modulus_len)
                }
                Padding::Pss => {
                    let (mut written, room, mask) = (0, output.len(), ptr::null());
                    let (output, digest) = (output.as_mut_ptr(), digest.as_ptr());
                    lc::RSA_sign_pss_mgf1(
                        key,
                        &raw mut written,
                        output,
                        room,
                        digest,
                        length,
                        function,
                        mask,
                        SALT_AS_LONG_AS_DIGEST,
                    ) == 1
                        && written == self.modulus_len
                }
            }
        }
    }

    fn verify(&self, digest: &[u8], signature: &[u8]) -> bool {
        let Some((number, function)) = hash_for_digest_len(digest.len()) else { return false };
        let (key, length, signature_len) = (self.key.as_ptr(), digest.len(), signature.len());
        let (digest, signature) = (digest.as_ptr(), signature.as_ptr());
        // SAFETY: the digest and the signature have the lengths that are passed, and the key is valid.
        let good = unsafe {
            match self.padding {
                Padding::Pkcs1 => lc::RSA_verify(number, digest, length, signature, signature_len, key),
                Padding::Pss => {
                    let mask = ptr::null();
                    lc::RSA_verify_pss_mgf1(
                        key,
                        digest,
                        length,
                        function,
                        mask,
                        SALT_AS_LONG_AS_DIGEST,
                        signature,
                        signature_len,
                    )
                }
            }
        };
        good == 1
    }
}

impl DeviceSession for Rsa {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Sign { input, output } if self.can_sign && output.len() == self.modulus_len => {
                if self.sign(input, output) { Ok(Outcome::Done) } else { Err(failed_call("RSA_sign")) }
            }
            Operands::Verify { input, signature } => {
                if self.verify(input, signature) {
                    return Ok(Outcome::Done);
                }
                // An invalid signature leaves an error in the queue.
                let _ = failed_call("RSA_verify");
                Ok(Outcome::BadTag)
            }
            _ => unsupported_operation(),
        }
    }
}

#[cfg(test)]
mod tests {
    use gantry_core::Algorithm;

    use super::*;

    /// Returns whether a session opens with a key after `change`.
    fn opens(algorithm: Algorithm, change: impl Fn(&mut Vec<u8>)) -> bool {
        let mut key = gantry_core::sample_key(algorithm).expect("a sample key of the algorithm").to_vec();
        change(&mut key);
        let good = open_pkcs1(&SessionParams::new(algorithm, &key)).is_ok();
        // SAFETY: the call only reads the error queue of this thread.
        assert_eq!(unsafe { lc::ERR_peek_error() }, 0);
        good
    }

    #[test]
    fn inconsistent_private_keys_are_refused() {
        for (algorithm, modulus_len) in
            [(Algorithm::Rsa2048Pkcs1, 256), (Algorithm::Rsa3072Pkcs1, 384), (Algorithm::Rsa4096Pkcs1, 512)]
        {
            assert!(opens(algorithm, |_| {}));
            // Change the lowest byte of each number, then replace the number by zero.
            let half = modulus_len / 2;
            let mut end = 0;
            for length in [modulus_len, rsa::EXPONENT_LEN, modulus_len, half, half, half, half, half] {
                end += length;
                assert!(!opens(algorithm, |key| key[end - 1] ^= 2), "{algorithm}: the number that ends at {end}");
                assert!(!opens(algorithm, |key| key[end - length..end].fill(0)), "{algorithm}: zero, ending at {end}");
            }
            assert_eq!(end, rsa::private_length(modulus_len));
            assert!(!opens(algorithm, |key| key.truncate(key.len() - 1)));
            assert!(!opens(algorithm, |key| key.push(0)));
            assert!(!opens(algorithm, |key| key.fill(0xff)));
        }
    }

    #[test]
    fn a_public_key_has_the_size_of_its_algorithm_and_an_odd_exponent() {
        let opens = |algorithm: Algorithm, key: &[u8]| {
            let params = SessionParams::new(algorithm, key).with_direction(gantry_core::Operation::Verify);
            open_pss(&params).is_ok()
        };
        let algorithm = Algorithm::Rsa2048Pss;
        let key =
            &gantry_core::sample_key(algorithm).expect("a sample key of the algorithm")[..rsa::public_length(256)];
        assert!(opens(algorithm, key));
        let with = |place: usize, value: u8| {
            let mut key = key.to_vec();
            key[place] = value;
            key
        };
        // A modulus that is too short, and an even one; exponents that are even, and 1.
        assert!(!opens(algorithm, &with(0, 0x7f)) && !opens(algorithm, &with(255, 0)));
        assert!(!opens(algorithm, &with(259, 0)) && !opens(algorithm, &with(257, 0)));
        // A shorter key with leading zeros.
        let mut long = vec![0; 128];
        long.extend_from_slice(key);
        assert!(!opens(Algorithm::Rsa3072Pss, &long));
    }
}
