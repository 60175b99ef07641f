//! AES-256-XTS: the only cipher whose fast code AWS-LC keeps behind `EVP_CIPHER_CTX`.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry::driver::{DeviceSession, Operands};
use gantry::{Fault, Operation, Outcome, SessionParams};

use crate::cipher::direction;
use crate::context::{Context, Pool};
use crate::session::{Opened, Span, failed, iv, refused, wrong_kind};

pub(crate) fn open(params: &SessionParams) -> Opened {
    let encrypts = params.allows(Operation::Encrypt);
    let first = if encrypts { Operation::Encrypt } else { Operation::Decrypt };
    let first = Pool::new(Some(context(params, first).ok_or_else(|| refused("EVP_CipherInit_ex"))?));
    let (encrypt, decrypt) = if encrypts { (first, Pool::new(None)) } else { (Pool::new(None), first) };
    Ok(Arc::new(XtsSession { params: params.clone(), encrypt, decrypt }))
}

/// A context with its keys, if they are such as XTS can have, and there is memory.
fn context(params: &SessionParams, operation: Operation) -> Option<Context<lc::EVP_CIPHER_CTX>> {
    let key: &[u8; 64] = params.key().try_into().ok()?;
    let mut context = Context::<lc::EVP_CIPHER_CTX>::new()?;
    let enc = direction(operation);
    // SAFETY: a new context, and a key of the 64 bytes that this cipher has.
    let good = unsafe {
        let cipher = lc::EVP_aes_256_xts();
        lc::EVP_CipherInit_ex(context.as_mut_ptr(), cipher, ptr::null_mut(), key.as_ptr(), ptr::null(), enc) == 1
    };
    good.then_some(context)
}

/// The round keys differ between the directions, of which a session may have one.
struct XtsSession {
    params: SessionParams,
    encrypt: Pool<lc::EVP_CIPHER_CTX>,
    decrypt: Pool<lc::EVP_CIPHER_CTX>,
}

impl DeviceSession for XtsSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Cipher { operation, iv: tweak, data } = operands else { return wrong_kind() };
        let (tweak, data) = (iv::<16>(tweak)?, Span::new(data)?);
        if !self.params.allows(operation) {
            return wrong_kind();
        }
        let pool = if operation == Operation::Encrypt { &self.encrypt } else { &self.decrypt };
        let mut context = pool.take(|| context(&self.params, operation))?;
        let context = context.as_mut_ptr();
        // SAFETY: a context with its keys, to which a new IV brings a new data unit; buffers as `Span` promises. A length that
        // XTS cannot have is refused here, if core has not refused it.
        let good = unsafe {
            lc::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), ptr::null(), tweak.as_ptr(), -1) == 1
                && lc::EVP_Cipher(context, data.output, data.input, data.len) == 1
        };
        if good { Ok(Outcome::Done) } else { Err(failed("EVP_Cipher of XTS")) }
    }
}
