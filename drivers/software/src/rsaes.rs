//! Encryption of RSA.
//!
//! AWS-LC blinds what it does with a private key, looks whether the result leads back to the ciphertext, and finds the end of a padding
//! in constant time. It has no implicit rejection for PKCS #1 v1.5: a padding that is none is an outcome.

use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands};
use gantry_core::{Fault, Operation, Outcome, SessionParams};

use crate::owned::Owned;
use crate::rsa;
use crate::session::{Opened, failed, wrong_kind};

/// RFC 8017, 5.1.
pub(crate) fn open_raw(params: &SessionParams) -> Opened {
    open(params, lc::RSA_NO_PADDING)
}

/// RFC 8017, 7.2.
pub(crate) fn open_pkcs1(params: &SessionParams) -> Opened {
    open(params, lc::RSA_PKCS1_PADDING)
}

/// With the public key alone, sessions encipher.
fn open(params: &SessionParams, padding: i32) -> Opened {
    let (size, deciphers) = (params.tag_length(), params.allows(Operation::Decipher));
    Ok(Arc::new(Rsaes { key: rsa::key(params, deciphers)?, size, deciphers, padding }))
}

struct Rsaes {
    key: Owned<lc::RSA>,
    /// Bytes of the modulus, and of ciphertexts.
    size: usize,
    deciphers: bool,
    /// AWS-LC's number.
    padding: i32,
}

impl DeviceSession for Rsaes {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let mut length = 0;
        match operands {
            Operands::Encipher { input, output } if output.len() == self.size => {
                // SAFETY: a message and a buffer with their lengths, and a key.
                let done = unsafe {
                    let (to, room, from) = (output.as_mut_ptr(), output.len(), input.as_ptr());
                    let key = self.key.as_ptr();
                    lc::RSA_encrypt(key, &raw mut length, to, room, from, input.len(), self.padding)
                };
                ended(done == 1 && length == self.size, output, "RSA_encrypt")
            }
            Operands::Decipher { input, output, written } if self.deciphers && output.len() == self.size => {
                // SAFETY: a ciphertext and a buffer with their lengths, and a private key, which AWS-LC locks where it changes it.
                let done = unsafe {
                    let (to, room, from) = (output.as_mut_ptr(), output.len(), input.as_ptr());
                    let key = self.key.as_ptr();
                    lc::RSA_decrypt(key, &raw mut length, to, room, from, input.len(), self.padding)
                };
                *written = length;
                ended(done == 1 && length <= self.size, output, "RSA_decrypt")
            }
            _ => wrong_kind(),
        }
    }
}

/// What AWS-LC refuses of the input is no failure. SP 800-56B, 7.1.2, has no ciphertext of 0, 1 or the modulus less 1, nor has AWS-LC.
fn ended(done: bool, output: &mut [u8], call: &'static str) -> Result<Outcome, Fault> {
    if done {
        return Ok(Outcome::Done);
    }
    output.fill(0);
    // SAFETY: reads the queue of this thread.
    let error = unsafe { lc::ERR_peek_last_error() };
    let fault = failed(call);
    let refused = [lc::RSA_R_DATA_TOO_LARGE_FOR_MODULUS, lc::RSA_R_PADDING_CHECK_FAILED].map(of_rsa);
    if refused.contains(&error) { Ok(Outcome::Malformed) } else { Err(fault) }
}

/// An error as AWS-LC's queue has it (err.h, `ERR_PACK`).
const fn of_rsa(reason: i32) -> u32 {
    (lc::ERR_LIB_RSA << 24 | reason).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use gantry_core::{Algorithm, Direction};

    use super::*;

    const SIZE: usize = 256;

    fn session(algorithm: Algorithm) -> Arc<dyn DeviceSession> {
        let open = if algorithm == Algorithm::Rsa2048Raw { open_raw } else { open_pkcs1 };
        open(&gantry_core::sample_params(algorithm)).expect("a key of RSA")
    }

    fn encipher(session: &dyn DeviceSession, input: &[u8]) -> (Outcome, Vec<u8>) {
        let mut output = vec![0xee; SIZE];
        (session.run(Operands::Encipher { input, output: &mut output }).expect("no fault"), output)
    }

    fn decipher(session: &dyn DeviceSession, input: &[u8]) -> (Outcome, Vec<u8>) {
        let (mut output, mut written) = (vec![0xee; SIZE], 0);
        let operands = Operands::Decipher { input, output: &mut output, written: &mut written };
        let outcome = session.run(operands).expect("no fault");
        // SAFETY: reads the queue of this thread.
        assert_eq!(unsafe { lc::ERR_peek_error() }, 0);
        if outcome == Outcome::Done {
            output.truncate(written);
        }
        (outcome, output)
    }

    /// The padded message `block`, enciphered without another padding, as a session for PKCS #1 v1.5 finds it.
    fn unpadded(block: &[u8]) -> (Outcome, Vec<u8>) {
        let (outcome, ciphertext) = encipher(&*session(Algorithm::Rsa2048Raw), block);
        assert_eq!(outcome, Outcome::Done);
        decipher(&*session(Algorithm::Rsaes2048Pkcs1), &ciphertext)
    }

    #[test]
    fn a_padding_is_two_eight_bytes_or_more_that_are_not_zero_and_a_zero() {
        let block = |first: [u8; 2], padding: usize, end: u8| {
            let mut block = vec![7; SIZE];
            block[..2].copy_from_slice(&first);
            block[2 + padding] = end;
            block
        };
        let refused = (Outcome::Malformed, vec![0; SIZE]);
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
    fn numbers_from_the_modulus_on_are_refused_both_ways() {
        let raw = session(Algorithm::Rsa2048Raw);
        let modulus = &gantry_core::sample_key(Algorithm::Rsa2048Raw).expect("there is one of each RSA")[..SIZE];
        let less = |by: u8| [&modulus[..SIZE - 1], &[modulus[SIZE - 1] - by]].concat();
        let refused = (Outcome::Malformed, vec![0; SIZE]);
        for number in [modulus, &[0xff; SIZE]] {
            assert_eq!(encipher(&*raw, number), refused);
            assert_eq!(decipher(&*raw, number), refused);
        }
        let (outcome, ciphertext) = encipher(&*raw, &less(2));
        assert_eq!((outcome, decipher(&*raw, &ciphertext)), (Outcome::Done, (Outcome::Done, less(2))));
        // These are their own ciphertexts.
        let one = [&[0; SIZE - 1][..], &[1]].concat();
        for number in [&vec![0; SIZE], &one, &less(1)] {
            assert_eq!(decipher(&*raw, number), refused);
        }
    }

    #[test]
    fn with_the_public_key_alone_nothing_is_deciphered() {
        let algorithm = Algorithm::Rsaes2048Pkcs1;
        let private = gantry_core::sample_key(algorithm).expect("there is one of each RSA");
        let params = SessionParams::new(algorithm, &private[..gantry_core::rsa::public_length(SIZE)]);
        let public = open_pkcs1(&params.direction(Direction::Encrypt)).expect("a public key");
        let (outcome, ciphertext) = encipher(&*public, b"secret");
        assert_eq!((outcome, ciphertext.len()), (Outcome::Done, SIZE));
        let (mut output, mut written) = ([0; SIZE], 0);
        let operands = Operands::Decipher { input: &ciphertext, output: &mut output, written: &mut written };
        assert!(public.run(operands).is_err());
        assert_eq!(decipher(&*session(algorithm), &ciphertext), (Outcome::Done, b"secret".to_vec()));
    }
}
