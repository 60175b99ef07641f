//! SLH-DSA signatures, by `gantry-slh-dsa`, because AWS-LC has none.

use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Algorithm, Fault, Operation, Outcome, Prehash, SessionParams};
use gantry_slh_dsa::{Error, ParameterSet, PreHash, PrivateKey, PublicKey};

use crate::prehash::HashFunction;
use crate::session::{SessionResult, failed_call, unsupported_operation};

/// Opens an SLH-DSA session (FIPS 205). A session with only the public key cannot sign. Signatures are hedged by a random number, unless
/// the session is deterministic.
pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let set = ParameterSet::ALL.into_iter().find(|set| set.name().eq_ignore_ascii_case(params.algorithm().name()));
    let set = set.ok_or(Unsupported::because("not a parameter set of SLH-DSA"))?;
    let bytes = params.key();
    let key = if !params.allows(Operation::Sign) {
        PublicKey::from_bytes(set, bytes).map(Key::Public)
    } else if bytes.len() == set.seed_bytes() {
        PrivateKey::generate(set, bytes).map(Key::Private)
    } else {
        PrivateKey::from_bytes(set, bytes).map(Key::Private)
    };
    let key = key.map_err(|_| Unsupported::because("invalid key for SLH-DSA"))?;
    let prehash = match params.prehash() {
        Prehash::Pure => None,
        Prehash::Hash(algorithm) => Some(prehash_function(algorithm)?),
        _ => return Err(Unsupported::because("SLH-DSA signs messages and their digests")),
    };
    let context = params.context().into();
    Ok(Arc::new(SlhDsa { key, prehash, context, is_deterministic: params.is_deterministic() }))
}

/// Returns AWS-LC's function for a message, and the same function as `gantry-slh-dsa` names it.
fn prehash_function(algorithm: Algorithm) -> Result<(HashFunction, PreHash), Unsupported> {
    let name = match algorithm {
        Algorithm::Sha224 => PreHash::Sha224,
        Algorithm::Sha256 => PreHash::Sha256,
        Algorithm::Sha384 => PreHash::Sha384,
        Algorithm::Sha512 => PreHash::Sha512,
        Algorithm::Sha512_256 => PreHash::Sha512_256,
        Algorithm::Sha3_224 => PreHash::Sha3_224,
        Algorithm::Sha3_256 => PreHash::Sha3_256,
        Algorithm::Sha3_384 => PreHash::Sha3_384,
        Algorithm::Sha3_512 => PreHash::Sha3_512,
        Algorithm::Shake128 => PreHash::Shake128,
        Algorithm::Shake256 => PreHash::Shake256,
        _ => return Err(Unsupported::because("not a hash function for signatures")),
    };
    let function =
        HashFunction::of(algorithm).ok_or(Unsupported::because("the device does not support the hash function"))?;
    Ok((function, name))
}

enum Key {
    Private(PrivateKey),
    Public(PublicKey),
}

struct SlhDsa {
    key: Key,
    prehash: Option<(HashFunction, PreHash)>,
    context: Box<[u8]>,
    is_deterministic: bool,
}

impl SlhDsa {
    fn sign(&self, key: &PrivateKey, message: &[u8], output: &mut [u8]) -> Result<(), Fault> {
        let mut random = [0; 32];
        let n = key.public_key().parameter_set().n();
        // SAFETY: the buffer has 32 bytes, and `n` is at most 32.
        if !self.is_deterministic && unsafe { lc::RAND_bytes(random.as_mut_ptr(), n) } != 1 {
            return Err(failed_call("RAND_bytes"));
        }
        let randomness = (!self.is_deterministic).then_some(&random[..n]);
        let signature = match self.prehash {
            None => key.sign(message, &self.context, randomness),
            Some((function, name)) => {
                let digest = function.digest(&[message]).ok_or_else(|| failed_call("EVP_DigestFinal_ex"))?;
                key.sign_digest(name, &digest[..function.digest_len()], &self.context, randomness)
            }
        };
        let signature = signature.map_err(|_| Fault::failed("SLH-DSA: the key does not sign"))?;
        output.copy_from_slice(&signature);
        Ok(())
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<Outcome, Fault> {
        let key = match &self.key {
            Key::Private(key) => key.public_key(),
            Key::Public(key) => key,
        };
        let verdict = match self.prehash {
            None => key.verify(message, &self.context, signature),
            Some((function, name)) => {
                let digest = function.digest(&[message]).ok_or_else(|| failed_call("EVP_DigestFinal_ex"))?;
                key.verify_digest(name, &digest[..function.digest_len()], &self.context, signature)
            }
        };
        match verdict {
            Ok(()) => Ok(Outcome::Done),
            Err(Error::Signature) => Ok(Outcome::BadTag),
            Err(_) => Err(Fault::failed("SLH-DSA: the key does not verify")),
        }
    }
}

impl DeviceSession for SlhDsa {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match (operands, &self.key) {
            (Operands::Sign { input, output }, Key::Private(key))
                if output.len() == key.public_key().parameter_set().signature_bytes() =>
            {
                self.sign(key, input, output).map(|()| Outcome::Done)
            }
            (Operands::Verify { input, signature }, _) => self.verify(input, signature),
            _ => unsupported_operation(),
        }
    }
}
