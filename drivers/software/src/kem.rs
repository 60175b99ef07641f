//! Key encapsulation: ML-KEM.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Algorithm, Fault, Operation, Outcome, SessionParams};

use crate::owned::Owned;
use crate::session::{Secret, SessionResult, failed_call, failed_open, unsupported_operation};

/// Opens an ML-KEM session (FIPS 203). A session without a private key generates keys and encapsulates.
pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let set = ParameterSet::of(params.algorithm()).ok_or(Unsupported::because("not a parameter set of ML-KEM"))?;
    let key = params.allows(Operation::Decapsulate).then(|| set.read_private_key(params.key())).transpose()?;
    Ok(Arc::new(Kem { set, key }))
}

/// Bytes of the seed of private keys, d ‖ z.
const SEED_BYTES: usize = 64;
/// Bytes of a secret, and of the random input of encapsulation.
const SECRET_BYTES: usize = 32;
/// Bytes of the longest ciphertext.
const MAX_CIPHERTEXT_BYTES: usize = 1568;

/// A parameter set, with its sizes in bytes.
#[derive(Clone, Copy)]
struct ParameterSet {
    nid: i32,
    private_bytes: usize,
    public_bytes: usize,
    ciphertext_bytes: usize,
}

impl ParameterSet {
    /// Returns the parameter set of an algorithm (FIPS 203, table 3).
    fn of(algorithm: Algorithm) -> Option<Self> {
        let (nid, private_bytes, public_bytes, ciphertext_bytes) = match algorithm {
            Algorithm::MlKem512 => (lc::NID_MLKEM512, 1632, 800, 768),
            Algorithm::MlKem768 => (lc::NID_MLKEM768, 2400, 1184, 1088),
            Algorithm::MlKem1024 => (lc::NID_MLKEM1024, 3168, 1568, MAX_CIPHERTEXT_BYTES),
            _ => return None,
        };
        Some(Self { nid, private_bytes, public_bytes, ciphertext_bytes })
    }

    /// Derives the keys from a seed.
    fn derive_keys(self, seed: &[u8; SEED_BYTES]) -> Option<Owned<lc::EVP_PKEY>> {
        // SAFETY: context and key are new, and the seed has the length that is passed.
        unsafe {
            let context = lc::EVP_PKEY_CTX_new_id(lc::EVP_PKEY_KEM, ptr::null_mut());
            let context = Owned::new(context, lc::EVP_PKEY_CTX_free)?;
            let (mut key, mut length) = (ptr::null_mut(), SEED_BYTES);
            let good = lc::EVP_PKEY_CTX_kem_set_params(context.as_ptr(), self.nid) == 1
                && lc::EVP_PKEY_keygen_init(context.as_ptr()) == 1
                && lc::EVP_PKEY_keygen_deterministic(context.as_ptr(), &raw mut key, seed.as_ptr(), &raw mut length)
                    == 1;
            Owned::new(key, lc::EVP_PKEY_free).filter(|_| good)
        }
    }

    /// Reads a private key from its seed or its expanded form.
    fn read_private_key(self, bytes: &[u8]) -> Result<Owned<lc::EVP_PKEY>, Unsupported> {
        if let Ok(seed) = bytes.try_into() {
            return self.derive_keys(seed).ok_or_else(|| failed_open("out of memory for a key"));
        }
        if bytes.len() != self.private_bytes {
            return Err(Unsupported::because("the key has a wrong length"));
        }
        // SAFETY: the bytes have the length that is passed, and are copied; the key is new.
        let key = unsafe {
            let key = lc::EVP_PKEY_kem_new_raw_secret_key(self.nid, bytes.as_ptr(), bytes.len());
            Owned::new(key, lc::EVP_PKEY_free)
        };
        // AWS-LC makes the hash check (FIPS 203, 7.3) at each decapsulation, so try one with any ciphertext.
        let mut secret = Secret::zeroed();
        key.filter(|key| decapsulate(key, &[0; MAX_CIPHERTEXT_BYTES][..self.ciphertext_bytes], &mut secret))
            .ok_or_else(|| failed_open("invalid decapsulation key for ML-KEM"))
    }

    fn key_gen(self, seed: &[u8], private: &mut [u8], public: &mut [u8]) -> Result<Outcome, Fault> {
        let mut buffer = Secret::<[u8; SEED_BYTES]>::zeroed();
        let seed = match seed.len() {
            0 => fill_random(&mut buffer)?,
            SEED_BYTES => seed.try_into().expect("the length was checked"),
            _ => return unsupported_operation(),
        };
        if public.len() != self.public_bytes
            || !matches!(private.len(), SEED_BYTES) && private.len() != self.private_bytes
        {
            return unsupported_operation();
        }
        let key = self.derive_keys(seed).ok_or_else(|| failed_call("EVP_PKEY_keygen_deterministic"))?;
        let mut length = public.len();
        // SAFETY: the buffer has the length that is passed.
        let mut good = unsafe {
            lc::EVP_PKEY_get_raw_public_key(key.as_ptr(), public.as_mut_ptr(), &raw mut length) == 1
                && length == public.len()
        };
        if private.len() == SEED_BYTES {
            private.copy_from_slice(seed);
        } else {
            length = private.len();
            // SAFETY: the buffer has the length that is passed.
            good &= unsafe {
                lc::EVP_PKEY_get_raw_private_key(key.as_ptr(), private.as_mut_ptr(), &raw mut length) == 1
                    && length == private.len()
            };
        }
        if good { Ok(Outcome::Done) } else { Err(failed_call("EVP_PKEY_get_raw_private_key")) }
    }

    fn encapsulate(
        self,
        peer: &[u8],
        seed: &[u8],
        ciphertext: &mut [u8],
        secret: &mut [u8; SECRET_BYTES],
    ) -> Result<Outcome, Fault> {
        if peer.len() != self.public_bytes || ciphertext.len() != self.ciphertext_bytes {
            return unsupported_operation();
        }
        let mut buffer = Secret::<[u8; SECRET_BYTES]>::zeroed();
        let seed: &[u8; SECRET_BYTES] = match seed.len() {
            0 => fill_random(&mut buffer)?,
            SECRET_BYTES => seed.try_into().expect("the length was checked"),
            _ => return unsupported_operation(),
        };
        // SAFETY: the bytes have the length that is passed; key and context are new.
        let context = unsafe {
            let key = lc::EVP_PKEY_kem_new_raw_public_key(self.nid, peer.as_ptr(), peer.len());
            let key = Owned::new(key, lc::EVP_PKEY_free);
            key.and_then(|key| new_context(&key))
        };
        let Some(context) = context else { return Err(failed_call("EVP_PKEY_kem_new_raw_public_key")) };
        let (mut long, mut short, mut random) = (ciphertext.len(), SECRET_BYTES, SECRET_BYTES);
        // SAFETY: ciphertext, secret and seed have the lengths that are passed.
        let good = unsafe {
            lc::EVP_PKEY_encapsulate_deterministic(
                context.as_ptr(),
                ciphertext.as_mut_ptr(),
                &raw mut long,
                secret.as_mut_ptr(),
                &raw mut short,
                seed.as_ptr(),
                &raw mut random,
            )
        };
        if good == 1 {
            return Ok(Outcome::Done);
        }
        // Only the modulus check (FIPS 203, 7.2) can fail: everything else was checked.
        let _ = failed_call("EVP_PKEY_encapsulate_deterministic");
        ciphertext.fill(0);
        secret.fill(0);
        Ok(Outcome::BadKey)
    }
}

/// Fills `bytes` from AWS-LC's generator, which the operating system seeds.
fn fill_random<const N: usize>(bytes: &mut [u8; N]) -> Result<&[u8; N], Fault> {
    // SAFETY: the buffer has the length that is passed.
    if unsafe { lc::RAND_bytes(bytes.as_mut_ptr(), N) } == 1 { Ok(bytes) } else { Err(failed_call("RAND_bytes")) }
}

/// Makes the context that a request needs in addition to a key.
fn new_context(key: &Owned<lc::EVP_PKEY>) -> Option<Owned<lc::EVP_PKEY_CTX>> {
    // SAFETY: the context is new, and holds its own reference to the key.
    unsafe { Owned::new(lc::EVP_PKEY_CTX_new(key.as_ptr(), ptr::null_mut()), lc::EVP_PKEY_CTX_free) }
}

/// Decapsulates a ciphertext. It must have the length that the key's parameter set gives.
fn decapsulate(key: &Owned<lc::EVP_PKEY>, ciphertext: &[u8], secret: &mut [u8; SECRET_BYTES]) -> bool {
    let Some(context) = new_context(key) else { return false };
    let mut length = SECRET_BYTES;
    let (from, to) = (ciphertext.as_ptr(), secret.as_mut_ptr());
    // SAFETY: ciphertext and secret have the lengths that are passed.
    unsafe { lc::EVP_PKEY_decapsulate(context.as_ptr(), to, &raw mut length, from, ciphertext.len()) == 1 }
}

struct Kem {
    set: ParameterSet,
    key: Option<Owned<lc::EVP_PKEY>>,
}

impl DeviceSession for Kem {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::KeyGen { seed, private, public } => self.set.key_gen(seed, private, public),
            Operands::Encapsulate { input, seed, ciphertext, output } => match output.try_into() {
                Ok(secret) => self.set.encapsulate(input, seed, ciphertext, secret),
                Err(_) => unsupported_operation(),
            },
            Operands::Decapsulate { input, output } => {
                let (Some(key), Ok(output)) = (&self.key, output.try_into()) else { return unsupported_operation() };
                if input.len() != self.set.ciphertext_bytes {
                    return unsupported_operation();
                }
                if decapsulate(key, input, output) {
                    Ok(Outcome::Done)
                } else {
                    Err(failed_call("EVP_PKEY_decapsulate"))
                }
            }
            _ => unsupported_operation(),
        }
    }
}
