//! Signatures of ML-DSA.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Algorithm, Fault, Operation, Outcome, Prehash, SessionParams};

use crate::owned::Owned;
use crate::prehash::{Function, LONGEST};
use crate::session::{Opened, failed, refused, wrong_kind};

/// FIPS 204. With the public key alone, sessions verify. Each signature is made with a random number (the hedged variant): AWS-LC has no
/// other.
pub(crate) fn open(params: &SessionParams) -> Opened {
    let nid = match params.algorithm() {
        Algorithm::MlDsa44 => lc::NID_MLDSA44,
        Algorithm::MlDsa65 => lc::NID_MLDSA65,
        Algorithm::MlDsa87 => lc::NID_MLDSA87,
        _ => return Err(Unsupported::because("no parameter set of ML-DSA")),
    };
    let (bytes, signs) = (params.key(), params.allows(Operation::Sign));
    let make = if signs { lc::EVP_PKEY_pqdsa_new_raw_private_key } else { lc::EVP_PKEY_pqdsa_new_raw_public_key };
    // SAFETY: bytes with their length, which are copied; the key is a new one.
    let key = unsafe { Owned::new(make(nid, bytes.as_ptr(), bytes.len()), lc::EVP_PKEY_free) };
    let key = key.ok_or_else(|| refused("no key of ML-DSA"))?;
    let message = match params.prehashed() {
        Prehash::Pure => Message::Pure(params.context_string().into()),
        Prehash::Mu => Message::Mu,
        prehash => Message::Hash(Hash::new(prehash, params.context_string(), &key)?),
    };
    Ok(Arc::new(MlDsa { key, signs, size: params.tag_length(), message }))
}

/// Bytes of the representative of a message, and of the hash of a public key.
const MU: usize = LONGEST;
/// Bytes of the longest public key.
const LONGEST_KEY: usize = 2592;

/// What is signed.
enum Message {
    /// What comes, with this context.
    Pure(Box<[u8]>),
    /// What comes is the representative.
    Mu,
    /// The representative of a digest of what comes.
    Hash(Hash),
}

/// How the representative of a digest is made (FIPS 204, algorithms 4 and 7).
struct Hash {
    function: Function,
    /// The hash of the public key, then all of the message that stands before the digest.
    before: Box<[u8]>,
}

impl Hash {
    fn new(prehash: Prehash, context: &[u8], key: &Owned<lc::EVP_PKEY>) -> Result<Self, Unsupported> {
        let function = if let Prehash::Hash(algorithm) = prehash { Function::of(algorithm) } else { None };
        let (Some(function), Some(identifier), Ok(length)) =
            (function, prehash.identifier(), u8::try_from(context.len()))
        else {
            return Err(Unsupported::because("no function that the device hashes with before it signs"));
        };
        let (mut public, mut bytes) = ([0; LONGEST_KEY], LONGEST_KEY);
        // SAFETY: a key, and room for a public key with its length.
        let known = unsafe { lc::EVP_PKEY_get_raw_public_key(key.as_ptr(), public.as_mut_ptr(), &raw mut bytes) };
        let hash = || shake256()?.digest(&[public.get(..bytes)?]);
        let hash = if known == 1 { hash() } else { None };
        let hash = hash.ok_or_else(|| refused("EVP_PKEY_get_raw_public_key"))?;
        Ok(Self { function, before: [&hash[..], &[1, length], context, &identifier].concat().into() })
    }

    fn representative(&self, message: &[u8]) -> Option<[u8; MU]> {
        let digest = self.function.digest(&[message])?;
        shake256()?.digest(&[&self.before, &digest[..self.function.bytes()]])
    }
}

fn shake256() -> Option<Function> {
    Function::of(Algorithm::Shake256)
}

struct MlDsa {
    key: Owned<lc::EVP_PKEY>,
    signs: bool,
    /// Bytes of a signature.
    size: usize,
    message: Message,
}

/// Either direction of a signature.
enum Signature<'a> {
    Make(&'a mut [u8]),
    Verify(&'a [u8]),
}

impl MlDsa {
    /// Whether the signature was made, or is that of the message; `None` when memory ran out.
    fn apply(&self, message: &[u8], signature: Signature<'_>) -> Option<bool> {
        match &self.message {
            Message::Pure(context) => self.pure(message, context, signature),
            Message::Mu => self.of_representative(message, signature),
            Message::Hash(hash) => self.of_representative(&hash.representative(message)?, signature),
        }
    }

    fn pure(&self, message: &[u8], string: &[u8], signature: Signature<'_>) -> Option<bool> {
        // SAFETY: the context is a new one, which holds the key; what belongs to the key is the context's. A message, a string and
        // a signature with their lengths.
        unsafe {
            let context = Owned::new(lc::EVP_MD_CTX_new(), lc::EVP_MD_CTX_free)?;
            let (context, mut of_key, key) = (context.as_ptr(), ptr::null_mut(), self.key.as_ptr());
            let init =
                if let Signature::Make(_) = signature { lc::EVP_DigestSignInit } else { lc::EVP_DigestVerifyInit };
            let ready = init(context, &raw mut of_key, ptr::null(), ptr::null_mut(), key) == 1
                && (string.is_empty()
                    || lc::EVP_PKEY_CTX_set_signature_context(of_key, string.as_ptr(), string.len()) == 1);
            if !ready {
                return None;
            }
            let (data, bytes) = (message.as_ptr(), message.len());
            Some(match signature {
                Signature::Make(room) => {
                    let mut written = room.len();
                    lc::EVP_DigestSign(context, room.as_mut_ptr(), &raw mut written, data, bytes) == 1
                        && written == self.size
                }
                Signature::Verify(made) => lc::EVP_DigestVerify(context, made.as_ptr(), made.len(), data, bytes) == 1,
            })
        }
    }

    fn of_representative(&self, mu: &[u8], signature: Signature<'_>) -> Option<bool> {
        // SAFETY: the context is a new one, which holds the key. A representative and a signature with their lengths.
        unsafe {
            let context = lc::EVP_PKEY_CTX_new(self.key.as_ptr(), ptr::null_mut());
            let context = Owned::new(context, lc::EVP_PKEY_CTX_free)?;
            let (context, data, bytes) = (context.as_ptr(), mu.as_ptr(), mu.len());
            Some(match signature {
                Signature::Make(room) => {
                    let mut written = room.len();
                    lc::EVP_PKEY_sign_init(context) == 1
                        && lc::EVP_PKEY_sign(context, room.as_mut_ptr(), &raw mut written, data, bytes) == 1
                        && written == self.size
                }
                Signature::Verify(made) => {
                    lc::EVP_PKEY_verify_init(context) == 1
                        && lc::EVP_PKEY_verify(context, made.as_ptr(), made.len(), data, bytes) == 1
                }
            })
        }
    }
}

impl DeviceSession for MlDsa {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Sign { input, output } if self.signs && output.len() == self.size => {
                match self.apply(input, Signature::Make(output)) {
                    Some(true) => Ok(Outcome::Done),
                    _ => Err(failed("EVP_DigestSign")),
                }
            }
            Operands::Verify { input, signature } => match self.apply(input, Signature::Verify(signature)) {
                Some(true) => Ok(Outcome::Done),
                Some(false) => {
                    // A signature that is none leaves an error on the queue.
                    let _ = failed("EVP_DigestVerify");
                    Ok(Outcome::BadTag)
                }
                None => Err(failed("EVP_DigestVerifyInit")),
            },
            _ => wrong_kind(),
        }
    }
}
