//! Signatures and key exchange on Curve25519.

use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams};

use crate::session::{Secret, SessionResult, failed_call, unsupported_operation};

/// Bytes of private keys, public keys and secrets.
const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// Opens a session of Ed25519 (RFC 8032). With only the public key, it verifies.
pub(crate) fn open_ed25519(params: &SessionParams) -> SessionResult {
    let key = read_key(params)?;
    if !params.allows(Operation::Sign) {
        return Ok(Arc::new(Ed25519 { public: *key, private: None }));
    }
    let mut session = Ed25519 { public: [0; KEY_BYTES], private: Some(Secret::boxed()) };
    if let Some(private) = &mut session.private {
        // SAFETY: all three have the sizes that the function writes or reads: 32, 64 and 32 bytes.
        unsafe { lc::ED25519_keypair_from_seed(session.public.as_mut_ptr(), private.as_mut_ptr(), key.as_ptr()) };
    }
    Ok(Arc::new(session))
}

/// Opens a session of X25519 (RFC 7748).
pub(crate) fn open_x25519(params: &SessionParams) -> SessionResult {
    let mut private = Secret::<[u8; KEY_BYTES]>::boxed();
    private.copy_from_slice(read_key(params)?);
    Ok(Arc::new(X25519 { private }))
}

fn read_key(params: &SessionParams) -> Result<&[u8; KEY_BYTES], Unsupported> {
    params.key().try_into().map_err(|_| Unsupported::because("the key has a wrong length"))
}

struct Ed25519 {
    public: [u8; KEY_BYTES],
    /// In AWS-LC's form: the seed, then the public key.
    private: Option<Box<Secret<[u8; SIGNATURE_BYTES]>>>,
}

impl DeviceSession for Ed25519 {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Sign { input, output } => {
                let (Some(private), Ok(output)) = (&self.private, <&mut [u8; SIGNATURE_BYTES]>::try_from(output))
                else {
                    return unsupported_operation();
                };
                // SAFETY: the message has its length, `output` has space for 64 bytes, and the private key has 64 bytes.
                let signed =
                    unsafe { lc::ED25519_sign(output.as_mut_ptr(), input.as_ptr(), input.len(), private.as_ptr()) };
                if signed == 1 { Ok(Outcome::Done) } else { Err(failed_call("ED25519_sign")) }
            }
            Operands::Verify { input, signature } => {
                let Ok(signature) = <&[u8; SIGNATURE_BYTES]>::try_from(signature) else { return Ok(Outcome::BadTag) };
                // SAFETY: the message has its length, the signature has 64 bytes, and the public key has 32 bytes.
                let good = unsafe {
                    lc::ED25519_verify(input.as_ptr(), input.len(), signature.as_ptr(), self.public.as_ptr())
                };
                if good != 1 {
                    // An invalid signature leaves an error in the queue.
                    let _ = failed_call("ED25519_verify");
                    return Ok(Outcome::BadTag);
                }
                Ok(Outcome::Done)
            }
            _ => unsupported_operation(),
        }
    }
}

struct X25519 {
    private: Box<Secret<[u8; KEY_BYTES]>>,
}

impl DeviceSession for X25519 {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Derive { input, output } = operands else { return unsupported_operation() };
        let (Ok(peer), Ok(output)) = (<&[u8; KEY_BYTES]>::try_from(input), <&mut [u8; KEY_BYTES]>::try_from(output))
        else {
            return unsupported_operation();
        };
        // SAFETY: all three buffers have 32 bytes.
        let shared = unsafe { lc::X25519(output.as_mut_ptr(), self.private.as_ptr(), peer.as_ptr()) };
        if shared != 1 {
            // The secret in the output is all zeros.
            let _ = failed_call("X25519");
            output.fill(0);
            return Ok(Outcome::BadKey);
        }
        Ok(Outcome::Done)
    }
}
