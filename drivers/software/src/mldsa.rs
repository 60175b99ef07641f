//! ML-DSA signatures.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Algorithm, Fault, Operation, Outcome, Prehash, SessionParams};

use crate::owned::Owned;
use crate::prehash::{HashFunction, MAX_DIGEST_BYTES};
use crate::session::{SessionResult, failed_call, failed_open, unsupported_operation};

/// Opens an ML-DSA session (FIPS 204). A session with only the public key cannot sign. Each signature uses a random number (the hedged
/// variant), because AWS-LC supports no other.
pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let nid = match params.algorithm() {
        Algorithm::MlDsa44 => lc::NID_MLDSA44,
        Algorithm::MlDsa65 => lc::NID_MLDSA65,
        Algorithm::MlDsa87 => lc::NID_MLDSA87,
        _ => return Err(Unsupported::because("not a parameter set of ML-DSA")),
    };
    let (bytes, can_sign) = (params.key(), params.allows(Operation::Sign));
    let make = if can_sign { lc::EVP_PKEY_pqdsa_new_raw_private_key } else { lc::EVP_PKEY_pqdsa_new_raw_public_key };
    // SAFETY: the bytes have the length that is passed, and are copied; the key is new.
    let key = unsafe { Owned::new(make(nid, bytes.as_ptr(), bytes.len()), lc::EVP_PKEY_free) };
    let key = key.ok_or_else(|| failed_open("invalid key for ML-DSA"))?;
    let message = match params.prehash() {
        Prehash::Pure => MessageForm::Pure(params.context().into()),
        Prehash::Mu => MessageForm::Mu,
        prehash => MessageForm::Hash(Hash::new(prehash, params.context(), &key)?),
    };
    Ok(Arc::new(MlDsa { key, can_sign, signature_len: params.tag_len(), message }))
}

/// Bytes of a message representative, and of the hash of a public key.
const MU_BYTES: usize = MAX_DIGEST_BYTES;
/// Bytes of the longest public key.
const MAX_PUBLIC_KEY_BYTES: usize = 2592;

/// The input to sign or verify, made from the message of a request.
enum MessageForm {
    /// The message itself, with this context.
    Pure(Box<[u8]>),
    /// The representative, which the caller has computed.
    Mu,
    /// The representative of the message's digest.
    Hash(Hash),
}

/// The computation of a digest's representative (FIPS 204, algorithms 4 and 7).
struct Hash {
    function: HashFunction,
    /// The hash of the public key, then all that precedes the digest in M': a 1, the context's length, the context, and the identifier.
    prefix: Box<[u8]>,
}

impl Hash {
    fn new(prehash: Prehash, context: &[u8], key: &Owned<lc::EVP_PKEY>) -> Result<Self, Unsupported> {
        let function = if let Prehash::Hash(algorithm) = prehash { HashFunction::of(algorithm) } else { None };
        let (Some(function), Some(identifier), Ok(length)) =
            (function, prehash.identifier(), u8::try_from(context.len()))
        else {
            return Err(Unsupported::because("the device does not support the hash function for signatures"));
        };
        let (mut public, mut bytes) = ([0; MAX_PUBLIC_KEY_BYTES], MAX_PUBLIC_KEY_BYTES);
        // SAFETY: `key` is a valid key, and the buffer for the public key has the length that is passed.
        let status = unsafe { lc::EVP_PKEY_get_raw_public_key(key.as_ptr(), public.as_mut_ptr(), &raw mut bytes) };
        let hash = || shake256()?.digest(&[public.get(..bytes)?]);
        let hash = if status == 1 { hash() } else { None };
        let hash = hash.ok_or_else(|| failed_open("EVP_PKEY_get_raw_public_key"))?;
        Ok(Self { function, prefix: [&hash[..], &[1, length], context, &identifier].concat().into() })
    }

    fn representative(&self, message: &[u8]) -> Option<[u8; MU_BYTES]> {
        let digest = self.function.digest(&[message])?;
        shake256()?.digest(&[&self.prefix, &digest[..self.function.digest_len()]])
    }
}

fn shake256() -> Option<HashFunction> {
    HashFunction::of(Algorithm::Shake256)
}

struct MlDsa {
    key: Owned<lc::EVP_PKEY>,
    can_sign: bool,
    /// Length of a signature in bytes.
    signature_len: usize,
    message: MessageForm,
}

/// A signature to make or to verify.
enum SignatureBuffer<'a> {
    Make(&'a mut [u8]),
    Verify(&'a [u8]),
}

impl MlDsa {
    /// Makes or verifies a signature. Returns whether it was made or is valid; `None` if memory ran out.
    fn apply(&self, message: &[u8], signature: SignatureBuffer<'_>) -> Option<bool> {
        match &self.message {
            MessageForm::Pure(context) => self.apply_to_message(message, context, signature),
            MessageForm::Mu => self.apply_to_representative(message, signature),
            MessageForm::Hash(hash) => self.apply_to_representative(&hash.representative(message)?, signature),
        }
    }

    fn apply_to_message(&self, message: &[u8], string: &[u8], signature: SignatureBuffer<'_>) -> Option<bool> {
        // SAFETY: `context` is new and holds a reference to the key, and it owns `key_context`. The message, the context string and the
        // signature have the lengths that are passed.
        unsafe {
            let context = Owned::new(lc::EVP_MD_CTX_new(), lc::EVP_MD_CTX_free)?;
            let (context, mut key_context, key) = (context.as_ptr(), ptr::null_mut(), self.key.as_ptr());
            let init = if let SignatureBuffer::Make(_) = signature {
                lc::EVP_DigestSignInit
            } else {
                lc::EVP_DigestVerifyInit
            };
            let ready = init(context, &raw mut key_context, ptr::null(), ptr::null_mut(), key) == 1
                && (string.is_empty()
                    || lc::EVP_PKEY_CTX_set_signature_context(key_context, string.as_ptr(), string.len()) == 1);
            if !ready {
                return None;
            }
            let (data, bytes) = (message.as_ptr(), message.len());
            Some(match signature {
                SignatureBuffer::Make(output) => {
                    let mut written = output.len();
                    lc::EVP_DigestSign(context, output.as_mut_ptr(), &raw mut written, data, bytes) == 1
                        && written == self.signature_len
                }
                SignatureBuffer::Verify(signature) => {
                    lc::EVP_DigestVerify(context, signature.as_ptr(), signature.len(), data, bytes) == 1
                }
            })
        }
    }

    fn apply_to_representative(&self, mu: &[u8], signature: SignatureBuffer<'_>) -> Option<bool> {
        // SAFETY: the context is new and holds a reference to the key. Representative and signature have the lengths that are passed.
        unsafe {
            let context = lc::EVP_PKEY_CTX_new(self.key.as_ptr(), ptr::null_mut());
            let context = Owned::new(context, lc::EVP_PKEY_CTX_free)?;
            let (context, data, bytes) = (context.as_ptr(), mu.as_ptr(), mu.len());
            Some(match signature {
                SignatureBuffer::Make(output) => {
                    let mut written = output.len();
                    lc::EVP_PKEY_sign_init(context) == 1
                        && lc::EVP_PKEY_sign(context, output.as_mut_ptr(), &raw mut written, data, bytes) == 1
                        && written == self.signature_len
                }
                SignatureBuffer::Verify(signature) => {
                    lc::EVP_PKEY_verify_init(context) == 1
                        && lc::EVP_PKEY_verify(context, signature.as_ptr(), signature.len(), data, bytes) == 1
                }
            })
        }
    }
}

impl DeviceSession for MlDsa {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Sign { input, output } if self.can_sign && output.len() == self.signature_len => {
                match self.apply(input, SignatureBuffer::Make(output)) {
                    Some(true) => Ok(Outcome::Done),
                    _ => Err(failed_call("EVP_DigestSign")),
                }
            }
            Operands::Verify { input, signature } => match self.apply(input, SignatureBuffer::Verify(signature)) {
                Some(true) => Ok(Outcome::Done),
                Some(false) => {
                    // An invalid signature leaves an error in the queue.
                    let _ = failed_call("EVP_DigestVerify");
                    Ok(Outcome::BadTag)
                }
                None => Err(failed_call("EVP_DigestVerifyInit")),
            },
            _ => unsupported_operation(),
        }
    }
}
