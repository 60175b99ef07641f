//! AES-256-XTS. AWS-LC offers its fast XTS code only through `EVP_CIPHER_CTX`, so each request borrows a context from a pool.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, Operands, Unsupported};
use gantry_core::{Fault, Operation, Outcome, SessionParams};

use crate::cipher::direction;
use crate::context::{Context, Lease, Pool};
use crate::session::{RawBuffers, Secret, SessionResult, failed_call, failed_open, iv_array, unsupported_operation};

pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let key: &[u8; 64] = params.key().try_into().map_err(|_| Unsupported::because("the key has a wrong length"))?;
    let mut session =
        Arc::new(XtsSession { key: Secret::zeroed(), encrypt: Pool::new(None), decrypt: Pool::new(None) });
    if let Some(session) = Arc::get_mut(&mut session) {
        // Write the key in place: moving it would leave a copy behind.
        *session.key = *key;
        // Make the first context now, because AWS-LC then refuses a key of two equal halves.
        let first = if params.allows(Operation::Encrypt) { Operation::Encrypt } else { Operation::Decrypt };
        let context = session.context(first).ok_or_else(|| failed_open("EVP_CipherInit_ex"))?;
        let pool = if first == Operation::Encrypt { &mut session.encrypt } else { &mut session.decrypt };
        *pool = Pool::new(Some(context));
    }
    Ok(session)
}

/// A session with a pool for each direction, because their round keys differ. Most sessions use one direction.
struct XtsSession {
    key: Secret<[u8; 64]>,
    encrypt: Pool<lc::EVP_CIPHER_CTX>,
    decrypt: Pool<lc::EVP_CIPHER_CTX>,
}

impl XtsSession {
    fn lease(&self, operation: Operation) -> Result<Lease<'_, lc::EVP_CIPHER_CTX>, Fault> {
        let pool = if operation == Operation::Encrypt { &self.encrypt } else { &self.decrypt };
        pool.take(|| self.context(operation))
    }

    fn context(&self, operation: Operation) -> Option<Context<lc::EVP_CIPHER_CTX>> {
        let mut context = Context::<lc::EVP_CIPHER_CTX>::new()?;
        let (at, key, enc) = (context.as_mut_ptr(), self.key.as_ptr(), direction(operation));
        // SAFETY: the context is new, and the key has the 64 bytes of this cipher.
        let good =
            unsafe { lc::EVP_CipherInit_ex(at, lc::EVP_aes_256_xts(), ptr::null_mut(), key, ptr::null(), enc) == 1 };
        good.then_some(context)
    }
}

impl DeviceSession for XtsSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Cipher { operation, iv: tweak, data } = operands else { return unsupported_operation() };
        let (tweak, data) = (iv_array::<16>(tweak)?, RawBuffers::new(data)?);
        let mut context = self.lease(operation)?;
        let context = context.as_mut_ptr();
        // SAFETY: the context has its keys, and a new IV starts a new data unit. `RawBuffers` guarantees the lengths of the buffers, and
        // that they are equal or do not overlap. AWS-LC refuses any length that XTS does not allow.
        let good = unsafe {
            lc::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), ptr::null(), tweak.as_ptr(), -1) == 1
                && lc::EVP_Cipher(context, data.output, data.input, data.len) == 1
        };
        if good { Ok(Outcome::Done) } else { Err(failed_call("EVP_Cipher of XTS")) }
    }
}
