//! AES-256-XTS: the only cipher whose fast code AWS-LC keeps behind `EVP_CIPHER_CTX`.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry::driver::{DeviceSession, Operands, Unsupported};
use gantry::{Fault, Operation, Outcome, SessionParams};

use crate::cipher::direction;
use crate::context::{Context, Pool};
use crate::session::{Opened, Span, failed, iv, refused, wrong_kind};

pub(crate) fn open(params: &SessionParams) -> Opened {
    let key: &[u8; 64] = params.key().try_into().map_err(|_| Unsupported::because("the key has a wrong length"))?;
    let pool = |operation| -> Result<_, Unsupported> {
        if !params.allows(operation) {
            return Ok(None);
        }
        let mut context = Context::<lc::EVP_CIPHER_CTX>::new().ok_or_else(|| refused("EVP_CIPHER_CTX_new"))?;
        // SAFETY: a new context, and a key of the 64 bytes that this cipher has.
        let good = unsafe {
            let cipher = lc::EVP_aes_256_xts();
            let enc = direction(operation);
            lc::EVP_CipherInit_ex(context.as_mut_ptr(), cipher, ptr::null_mut(), key.as_ptr(), ptr::null(), enc) == 1
        };
        if good { Ok(Some(Pool::new(context))) } else { Err(refused("EVP_CipherInit_ex")) }
    };
    Ok(Arc::new(XtsSession { encrypt: pool(Operation::Encrypt)?, decrypt: pool(Operation::Decrypt)? }))
}

/// The round keys differ between the directions, of which a session may have one.
struct XtsSession {
    encrypt: Option<Pool<lc::EVP_CIPHER_CTX>>,
    decrypt: Option<Pool<lc::EVP_CIPHER_CTX>>,
}

impl DeviceSession for XtsSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Cipher { operation, iv: tweak, data } = operands else { return wrong_kind() };
        let (tweak, data) = (iv::<16>(tweak)?, Span::new(data)?);
        let pool = if operation == Operation::Encrypt { &self.encrypt } else { &self.decrypt };
        let Some(pool) = pool else { return wrong_kind() };
        let mut context = pool.take()?;
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
