//! RSA encryption.
//!
//! AWS-LC blinds operations with a private key, verifies that the result leads back to the ciphertext, and finds the end of a padding in
//! constant time. It has no implicit rejection for PKCS #1 v1.5: requests with invalid padding end as `Malformed`.

use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands};
use gantry_core::{Fault, Operation, Outcome, SessionParams};

use crate::owned::Owned;
use crate::rsa;
use crate::session::{SessionResult, failed_call, unsupported_operation};

/// Opens a session of unpadded RSA (RFC 8017, 5.1).
pub(crate) fn open_raw(params: &SessionParams) -> SessionResult {
    open(params, lc::RSA_NO_PADDING)
}

/// Opens a session of PKCS #1 v1.5 encryption (RFC 8017, 7.2).
pub(crate) fn open_pkcs1(params: &SessionParams) -> SessionResult {
    open(params, lc::RSA_PKCS1_PADDING)
}

/// Opens a session. With only the public key, it cannot decipher.
fn open(params: &SessionParams, padding: i32) -> SessionResult {
    let (modulus_len, can_decipher) = (params.tag_len(), params.allows(Operation::Decipher));
    Ok(Arc::new(Rsaes { key: rsa::read_key(params, can_decipher)?, modulus_len, can_decipher, padding }))
}

struct Rsaes {
    key: Owned<lc::RSA>,
    /// Length of the modulus and of ciphertexts in bytes.
    modulus_len: usize,
    can_decipher: bool,
    /// AWS-LC's constant.
    padding: i32,
}

impl DeviceSession for Rsaes {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let mut length = 0;
        match operands {
            Operands::Encipher { input, output } if output.len() == self.modulus_len => {
                // SAFETY: the message and the buffer have the lengths that are passed, and the key is valid.
                let done = unsafe {
                    let (to, room, from) = (output.as_mut_ptr(), output.len(), input.as_ptr());
                    let key = self.key.as_ptr();
                    lc::RSA_encrypt(key, &raw mut length, to, room, from, input.len(), self.padding)
                };
                check_result(done == 1 && length == self.modulus_len, output, "RSA_encrypt")
            }
            Operands::Decipher { input, output, written } if self.can_decipher && output.len() == self.modulus_len => {
                // SAFETY: the ciphertext and the buffer have the lengths that are passed, and AWS-LC locks the private key when it changes
                // it.
                let done = unsafe {
                    let (to, room, from) = (output.as_mut_ptr(), output.len(), input.as_ptr());
                    let key = self.key.as_ptr();
                    lc::RSA_decrypt(key, &raw mut length, to, room, from, input.len(), self.padding)
                };
                *written = length;
                check_result(done == 1 && length <= self.modulus_len, output, "RSA_decrypt")
            }
            _ => unsupported_operation(),
        }
    }
}

/// Turns a refusal of the input into an outcome, not a failure. SP 800-56B, 7.1.2, excludes ciphertexts of 0, 1 and the modulus less 1, and
/// so does AWS-LC.
fn check_result(done: bool, output: &mut [u8], call: &'static str) -> Result<Outcome, Fault> {
    if done {
        return Ok(Outcome::Done);
    }
    output.fill(0);
    // SAFETY: the call only reads the error queue of this thread.
    let error = unsafe { lc::ERR_peek_last_error() };
    let fault = failed_call(call);
    let refused = [lc::RSA_R_DATA_TOO_LARGE_FOR_MODULUS, lc::RSA_R_PADDING_CHECK_FAILED].map(rsa_error);
    if refused.contains(&error) { Ok(Outcome::Malformed) } else { Err(fault) }
}

/// Returns an RSA error as AWS-LC's queue encodes it (err.h, `ERR_PACK`).
const fn rsa_error(reason: i32) -> u32 {
    (lc::ERR_LIB_RSA << 24 | reason).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use gantry_core::Algorithm;

    use super::*;

    const MODULUS_LEN: usize = 256;

    fn session(algorithm: Algorithm) -> Arc<dyn DeviceSession> {
        let open = if algorithm == Algorithm::Rsa2048Raw { open_raw } else { open_pkcs1 };
        open(&gantry_core::sample_params(algorithm)).expect("a key of RSA")
    }

    fn encipher(session: &dyn DeviceSession, input: &[u8]) -> (Outcome, Vec<u8>) {
        let mut output = vec![0xee; MODULUS_LEN];
        (session.run(Operands::Encipher { input, output: &mut output }).expect("no fault"), output)
    }

    fn decipher(session: &dyn DeviceSession, input: &[u8]) -> (Outcome, Vec<u8>) {
        let (mut output, mut written) = (vec![0xee; MODULUS_LEN], 0);
        let operands = Operands::Decipher { input, output: &mut output, written: &mut written };
        let outcome = session.run(operands).expect("no fault");
        // SAFETY: the call only reads the error queue of this thread.
        assert_eq!(unsafe { lc::ERR_peek_error() }, 0);
        if outcome == Outcome::Done {
            output.truncate(written);
        }
        (outcome, output)
    }

    /// Enciphers the padded message `block` without further padding, and deciphers it in a session for PKCS #1 v1.5.
    fn unpadded(block: &[u8]) -> (Outcome, Vec<u8>) {
        let (outcome, ciphertext) = encipher(&*session(Algorithm::Rsa2048Raw), block);
        assert_eq!(outcome, Outcome::Done);
        decipher(&*session(Algorithm::Rsaes2048Pkcs1), &ciphertext)
    }

    #[test]
    fn padding_has_at_least_eight_nonzero_bytes_and_a_zero() {
        let block = |first: [u8; 2], padding: usize, end: u8| {
            let mut block = vec![7; MODULUS_LEN];
            block[..2].copy_from_slice(&first);
            block[2 + padding] = end;
            block
        };
        let refused = (Outcome::Malformed, vec![0; MODULUS_LEN]);
        for padding in [8, 9, 100, 253] {
            assert_eq!(unpadded(&block([0, 2], padding, 0)), (Outcome::Done, vec![7; 253 - padding]));
        }
        for padding in 0..8 {
            assert_eq!(unpadded(&block([0, 2], padding, 0)), refused, "{padding} bytes of padding");
        }
        for first in [[0, 0], [0, 1], [0, 3], [1, 2]] {
            assert_eq!(unpadded(&block(first, 100, 0)), refused, "{first:?}");
        }
        assert_eq!(unpadded(&block([0, 2], 100, 9)), refused, "no zero");
    }

    #[test]
    fn numbers_not_below_the_modulus_are_refused() {
        let raw = session(Algorithm::Rsa2048Raw);
        let modulus =
            &gantry_core::sample_key(Algorithm::Rsa2048Raw).expect("a sample key of the algorithm")[..MODULUS_LEN];
        let less = |by: u8| [&modulus[..MODULUS_LEN - 1], &[modulus[MODULUS_LEN - 1] - by]].concat();
        let refused = (Outcome::Malformed, vec![0; MODULUS_LEN]);
        for number in [modulus, &[0xff; MODULUS_LEN]] {
            assert_eq!(encipher(&*raw, number), refused);
            assert_eq!(decipher(&*raw, number), refused);
        }
        let (outcome, ciphertext) = encipher(&*raw, &less(2));
        assert_eq!((outcome, decipher(&*raw, &ciphertext)), (Outcome::Done, (Outcome::Done, less(2))));
        // These numbers are their own ciphertexts.
        let one = [&[0; MODULUS_LEN - 1][..], &[1]].concat();
        for number in [&vec![0; MODULUS_LEN], &one, &less(1)] {
            assert_eq!(decipher(&*raw, number), refused);
        }
    }

    #[test]
    fn a_public_key_does_not_decipher() {
        let algorithm = Algorithm::Rsaes2048Pkcs1;
        let private = gantry_core::sample_key(algorithm).expect("a sample key of the algorithm");
        let params = SessionParams::new(algorithm, &private[..gantry_core::rsa::public_length(MODULUS_LEN)]);
        let public = open_pkcs1(&params.with_direction(Operation::Encipher)).expect("a public key");
        let (outcome, ciphertext) = encipher(&*public, b"secret");
        assert_eq!((outcome, ciphertext.len()), (Outcome::Done, MODULUS_LEN));
        let (mut output, mut written) = ([0; MODULUS_LEN], 0);
        let operands = Operands::Decipher { input: &ciphertext, output: &mut output, written: &mut written };
        assert!(public.run(operands).is_err());
        assert_eq!(decipher(&*session(algorithm), &ciphertext), (Outcome::Done, b"secret".to_vec()));
    }
}
