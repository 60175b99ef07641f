//! Signatures and key exchange on P-256.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams};

use crate::owned::{Owned, bignum};
use crate::session::{SessionResult, failed_call, failed_open, unsupported_operation};

/// Bytes of private keys, coordinates, secrets, and of each half of a signature.
const FIELD_BYTES: usize = 32;

/// Opens a session of ECDSA over digests (FIPS 186-5). A session with only the public key cannot sign.
pub(crate) fn open_ecdsa(params: &SessionParams) -> SessionResult {
    let key = if params.allows(Operation::Sign) {
        read_private_key(params.key(), params.allows(Operation::Verify))?
    } else {
        read_public_key(params.key())?
    };
    Ok(Arc::new(Ecdsa { key, can_sign: params.allows(Operation::Sign) }))
}

/// Opens a session of ECDH (SP 800-56A, 5.7.1.2). The secret is the x coordinate of the shared point.
pub(crate) fn open_ecdh(params: &SessionParams) -> SessionResult {
    Ok(Arc::new(Ecdh { key: read_private_key(params.key(), false)? }))
}

/// Creates a point without a value.
fn new_point() -> Option<Owned<lc::EC_POINT>> {
    // SAFETY: the group is a constant; the point is new.
    unsafe { Owned::new(lc::EC_POINT_new(lc::EC_group_p256()), lc::EC_POINT_free) }
}

/// Reads a point of the curve from 4 ‖ x ‖ y; `None` if it is not on the curve.
fn read_point(bytes: &[u8]) -> Option<Owned<lc::EC_POINT>> {
    if bytes.len() != 1 + 2 * FIELD_BYTES {
        return None;
    }
    let point = new_point()?;
    // SAFETY: the point belongs to the group, and the bytes have the length that is passed.
    let good = unsafe {
        lc::EC_POINT_oct2point(lc::EC_group_p256(), point.as_ptr(), bytes.as_ptr(), bytes.len(), ptr::null_mut())
    };
    (good == 1).then_some(point)
}

fn empty_key() -> Option<Owned<lc::EC_KEY>> {
    // SAFETY: the key is new; the group is a constant.
    unsafe {
        let key = Owned::new(lc::EC_KEY_new(), lc::EC_KEY_free)?;
        (lc::EC_KEY_set_group(key.as_ptr(), lc::EC_group_p256()) == 1).then_some(key)
    }
}

/// Reads a private key, and computes the public one if the session verifies too.
fn read_private_key(bytes: &[u8], can_verify: bool) -> Result<Owned<lc::EC_KEY>, Unsupported> {
    let make = || {
        let (key, number) = (empty_key()?, bignum(bytes)?);
        // SAFETY: the key has its group, and `number` is a valid number.
        let mut good = unsafe { lc::EC_KEY_set_private_key(key.as_ptr(), number.as_ptr()) } == 1;
        if good && can_verify {
            let (point, none) = (new_point()?, ptr::null());
            // SAFETY: point, number and key are of the same group; without another point, the function multiplies only the
            // generator.
            good = unsafe {
                lc::EC_POINT_mul(
                    lc::EC_group_p256(),
                    point.as_ptr(),
                    number.as_ptr(),
                    none,
                    none.cast(),
                    ptr::null_mut(),
                ) == 1
                    && lc::EC_KEY_set_public_key(key.as_ptr(), point.as_ptr()) == 1
            };
        }
        good.then_some(key)
    };
    if bytes.len() != FIELD_BYTES {
        return Err(Unsupported::because("the key has a wrong length"));
    }
    make().ok_or_else(|| failed_open("invalid private key for P-256"))
}

fn read_public_key(bytes: &[u8]) -> Result<Owned<lc::EC_KEY>, Unsupported> {
    let make = || {
        let (key, point) = (empty_key()?, read_point(bytes)?);
        // SAFETY: both are of the same group.
        (unsafe { lc::EC_KEY_set_public_key(key.as_ptr(), point.as_ptr()) } == 1).then_some(key)
    };
    make().ok_or_else(|| failed_open("invalid public key for P-256"))
}

struct Ecdsa {
    key: Owned<lc::EC_KEY>,
    can_sign: bool,
}

impl Ecdsa {
    fn sign(&self, digest: &[u8], output: &mut [u8; 2 * FIELD_BYTES]) -> bool {
        // SAFETY: the digest has the length that is passed, and the key is private; the signature is new. The numbers of the
        // signature live as long as the signature, and each is written to a buffer of its maximum length.
        unsafe {
            let signature = lc::ECDSA_do_sign(digest.as_ptr(), digest.len(), self.key.as_ptr());
            let Some(signature) = Owned::new(signature, lc::ECDSA_SIG_free) else { return false };
            let (r, s) = output.split_at_mut(FIELD_BYTES);
            lc::BN_bn2bin_padded(r.as_mut_ptr(), FIELD_BYTES, lc::ECDSA_SIG_get0_r(signature.as_ptr())) == 1
                && lc::BN_bn2bin_padded(s.as_mut_ptr(), FIELD_BYTES, lc::ECDSA_SIG_get0_s(signature.as_ptr())) == 1
        }
    }

    /// Verifies a signature; `None` if memory is exhausted.
    fn verify(&self, digest: &[u8], signature: &[u8; 2 * FIELD_BYTES]) -> Option<bool> {
        let (r, s) = signature.split_at(FIELD_BYTES);
        // SAFETY: the signature is new and takes ownership of the two numbers. The digest has the length that is passed, and AWS-LC
        // refuses a key without a public part.
        unsafe {
            let both = Owned::new(lc::ECDSA_SIG_new(), lc::ECDSA_SIG_free)?;
            let (r, s) = (bignum(r)?, bignum(s)?);
            if lc::ECDSA_SIG_set0(both.as_ptr(), r.as_ptr(), s.as_ptr()) != 1 {
                return None;
            }
            std::mem::forget((r, s));
            Some(lc::ECDSA_do_verify(digest.as_ptr(), digest.len(), both.as_ptr(), self.key.as_ptr()) == 1)
        }
    }
}

impl DeviceSession for Ecdsa {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Sign { input, output } => {
                let (Ok(output), true) = (output.try_into(), self.can_sign) else { return unsupported_operation() };
                if self.sign(input, output) { Ok(Outcome::Done) } else { Err(failed_call("ECDSA_do_sign")) }
            }
            Operands::Verify { input, signature } => {
                let Ok(signature) = signature.try_into() else { return Ok(Outcome::BadTag) };
                match self.verify(input, signature) {
                    Some(true) => Ok(Outcome::Done),
                    Some(false) => {
                        // An invalid signature leaves an error in the queue.
                        let _ = failed_call("ECDSA_do_verify");
                        Ok(Outcome::BadTag)
                    }
                    None => Err(failed_call("ECDSA_SIG_set0")),
                }
            }
            _ => unsupported_operation(),
        }
    }
}

struct Ecdh {
    key: Owned<lc::EC_KEY>,
}

impl DeviceSession for Ecdh {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Derive { input, output } = operands else { return unsupported_operation() };
        let Ok(output) = <&mut [u8; FIELD_BYTES]>::try_from(output) else { return unsupported_operation() };
        if input.len() != 1 + 2 * FIELD_BYTES {
            return unsupported_operation();
        }
        let Some(peer) = read_point(input) else {
            let _ = failed_call("EC_POINT_oct2point");
            return Ok(Outcome::BadKey);
        };
        // SAFETY: the buffer has the length of the secret, and the point and the private key belong to the same group.
        let written = unsafe {
            lc::ECDH_compute_key(output.as_mut_ptr().cast(), FIELD_BYTES, peer.as_ptr(), self.key.as_ptr(), None)
        };
        if usize::try_from(written) == Ok(FIELD_BYTES) {
            Ok(Outcome::Done)
        } else {
            Err(failed_call("ECDH_compute_key"))
        }
    }
}
