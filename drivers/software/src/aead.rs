//! Authenticated encryption.
//!
//! An `EVP_AEAD_CTX` is a key that any number of threads may use at once. AWS-LC has such CCM contexts only for the lengths of
//! Bluetooth and Matter, so CCM takes an `EVP_CIPHER_CTX` from a pool.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use aws_lc_sys as lc;
use gantry_core::driver::{AeadStream, Buffers, DeviceSession, Operands, Unsupported};
use gantry_core::{Algorithm as A, Fault, Operation, Outcome, SessionParams};

use crate::context::{Context, Pool};
use crate::session::{RawBuffers, SessionResult, abort_out_of_memory, failed_call, failed_open, unsupported_operation};

// ---- EVP_AEAD

pub(crate) fn open(params: &SessionParams) -> SessionResult {
    Ok(Arc::new(AeadSession(AeadKey::new(params)?)))
}

/// Opens a session with streams, which are `EVP_CIPHER_CTX`s. Programs rarely use both whole messages and streams, so the state of either
/// is made at its first use.
pub(crate) fn open_streaming(params: &SessionParams) -> SessionResult {
    let info = params.algorithm().info();
    if !info.key.allows(params.key().len()) || params.tag_len() == 0 || !info.tag.allows(params.tag_len()) {
        return Err(Unsupported::because("the key or the tag has a wrong length"));
    }
    Ok(Arc::new(StreamingSession { whole: OnceLock::new(), params: params.clone() }))
}

struct AeadSession(AeadKey);

impl DeviceSession for AeadSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Seal { iv, aad, data, tag } => self.0.seal(iv, aad, data, tag),
            Operands::Open { iv, aad, data, tag } => self.0.open(iv, aad, data, tag),
            _ => unsupported_operation(),
        }
    }
}

/// A key for an AEAD of AWS-LC, with the length of its tags.
pub(crate) struct AeadKey {
    context: NonNull<lc::EVP_AEAD_CTX>,
    tag_len: usize,
}

// SAFETY: the context is on the heap, and is not tied to a thread.
unsafe impl Send for AeadKey {}
// SAFETY: sealing and opening take the context as a constant ("These functions may be called concurrently on the same
// EVP_AEAD_CTX", aead.h), and nothing else is done with it before it is dropped.
unsafe impl Sync for AeadKey {}

impl AeadKey {
    /// Creates the key of an AEAD or of GMAC, which is GCM without data.
    pub(crate) fn new(params: &SessionParams) -> Result<Self, Unsupported> {
        let aead = match params.algorithm() {
            A::Aes128Gcm | A::Aes128Gmac => lc::EVP_aead_aes_128_gcm,
            A::Aes192Gcm | A::Aes192Gmac => lc::EVP_aead_aes_192_gcm,
            A::Aes256Gcm | A::Aes256Gmac => lc::EVP_aead_aes_256_gcm,
            A::ChaCha20Poly1305 => lc::EVP_aead_chacha20_poly1305,
            A::XChaCha20Poly1305 => lc::EVP_aead_xchacha20_poly1305,
            _ => return Err(Unsupported::because("not an AEAD of AWS-LC")),
        };
        let (key, tag_len) = (params.key(), params.tag_len());
        // AWS-LC takes 0 as its default length.
        if tag_len == 0 {
            return Err(Unsupported::because("the tag has a wrong length"));
        }
        // SAFETY: the key has the given length, and AWS-LC refuses keys and tags of a length that the algorithm does not have.
        let context = unsafe { lc::EVP_AEAD_CTX_new(aead(), key.as_ptr(), key.len(), tag_len) };
        let context = NonNull::new(context).ok_or_else(|| failed_open("EVP_AEAD_CTX_new"))?;
        Ok(Self { context, tag_len })
    }

    #[inline]
    pub(crate) fn seal(&self, iv: &[u8], aad: &[u8], data: Buffers<'_>, tag: &mut [u8]) -> Result<Outcome, Fault> {
        let data = RawBuffers::new(data)?;
        if tag.len() != self.tag_len {
            return Err(Fault::failed("the tag has a wrong length"));
        }
        let mut written = 0;
        // SAFETY: `RawBuffers` guarantees the buffers; the tag does not overlap them, and all have the given lengths.
        let good = unsafe {
            lc::EVP_AEAD_CTX_seal_scatter(
                self.context.as_ptr(),
                data.output,
                tag.as_mut_ptr(),
                &raw mut written,
                tag.len(),
                iv.as_ptr(),
                iv.len(),
                data.input,
                data.len,
                ptr::null(),
                0,
                aad.as_ptr(),
                aad.len(),
            ) == 1
        };
        // Only wrong lengths could make the call fail, and core has checked the lengths. So AWS-LC never zeroes data in place that another
        // device needs.
        if good { Ok(Outcome::Done) } else { Err(failed_call("EVP_AEAD_CTX_seal_scatter")) }
    }

    #[inline]
    fn open(&self, iv: &[u8], aad: &[u8], data: Buffers<'_>, tag: &[u8]) -> Result<Outcome, Fault> {
        let data = RawBuffers::new(data)?;
        // SAFETY: `RawBuffers` guarantees the buffers, and all have the given lengths.
        let good = unsafe {
            lc::EVP_AEAD_CTX_open_gather(
                self.context.as_ptr(),
                data.output,
                iv.as_ptr(),
                iv.len(),
                data.input,
                data.len,
                tag.as_ptr(),
                tag.len(),
                aad.as_ptr(),
                aad.len(),
            ) == 1
        };
        if good {
            return Ok(Outcome::Done);
        }
        // SAFETY: the call only reads the error queue of this thread.
        let bad_tag = lc::ERR_GET_REASON(unsafe { lc::ERR_peek_last_error() }) == lc::CIPHER_R_BAD_DECRYPT;
        // AWS-LC has already zeroed the output.
        let fault = failed_call("EVP_AEAD_CTX_open_gather");
        if bad_tag { Ok(Outcome::BadTag) } else { Err(fault) }
    }
}

impl Drop for AeadKey {
    fn drop(&mut self) {
        // SAFETY: the context is owned here. OPENSSL_free overwrites it.
        unsafe { lc::EVP_AEAD_CTX_free(self.context.as_ptr()) }
    }
}

// ---- in pieces

struct StreamingSession {
    /// For whole messages; `None` if memory was exhausted.
    whole: OnceLock<Option<AeadSession>>,
    params: SessionParams,
}

impl DeviceSession for StreamingSession {
    #[inline]
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let whole = self.whole.get_or_init(|| AeadKey::new(&self.params).ok().map(AeadSession));
        whole.as_ref().ok_or_else(|| Fault::failed("out of memory"))?.run(operands)
    }

    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        let cipher = match self.params.algorithm() {
            A::Aes128Gcm => lc::EVP_aes_128_gcm,
            A::Aes192Gcm => lc::EVP_aes_192_gcm,
            A::Aes256Gcm => lc::EVP_aes_256_gcm,
            A::ChaCha20Poly1305 => lc::EVP_chacha20_poly1305,
            _ => return Err(Unsupported::because("the algorithm has no streams")),
        };
        let tag_len = self.params.tag_len();
        let mut context = Context::<lc::EVP_CIPHER_CTX>::new().ok_or_else(|| failed_open("EVP_CIPHER_CTX_new"))?;
        let (key, enc) = (self.params.key().as_ptr(), c_int::from(operation == Operation::Seal));
        // SAFETY: the context is new, and the key has the cipher's length, which `open_streaming` has checked.
        let good = unsafe {
            lc::EVP_CipherInit_ex(context.as_mut_ptr(), cipher(), ptr::null_mut(), key, ptr::null(), enc) == 1
        };
        if good {
            let is_chacha = self.params.algorithm() == A::ChaCha20Poly1305;
            Ok(Box::new(EvpCipherStream { context, tag_len, iv_len: 0, is_chacha }))
        } else {
            Err(failed_open("EVP_CipherInit_ex of an AEAD"))
        }
    }
}

struct EvpCipherStream {
    context: Context<lc::EVP_CIPHER_CTX>,
    tag_len: usize,
    /// The nonce length, in bytes, that the context is set to; 0 if none is set.
    iv_len: c_int,
    is_chacha: bool,
}

/// Maximum number of bytes in one call, because AWS-LC counts them in an `int`. A multiple of every block length.
const MAX_CALL_BYTES: usize = 1 << 30;

impl EvpCipherStream {
    /// Feeds bytes to the context. `output` is null for associated data; for data, it advances together with `input`.
    ///
    /// # Safety
    ///
    /// `len` bytes can be read at `input` and, if `output` is not null, written at `output`. `output` is `input` or does not
    /// overlap it.
    unsafe fn feed(&mut self, output: *mut u8, input: *const u8, len: usize) -> Result<(), Fault> {
        let context = self.context.as_mut_ptr();
        for at in (0..len).step_by(MAX_CALL_BYTES) {
            let to = if output.is_null() { output } else { output.wrapping_add(at) };
            // SAFETY: the context has its key and nonce, and the buffers are as the caller guarantees.
            if unsafe { lc::EVP_Cipher(context, to, input.wrapping_add(at), (len - at).min(MAX_CALL_BYTES)) } < 0 {
                return Err(failed_call("EVP_Cipher of an AEAD"));
            }
        }
        Ok(())
    }
}

impl AeadStream for EvpCipherStream {
    fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<(), Fault> {
        let context = self.context.as_mut_ptr();
        let length = c_int::try_from(iv.len()).map_err(|_| Fault::failed("the IV has a wrong length"))?;
        let is_set = mem::replace(&mut self.iv_len, length) == length;
        // SAFETY: the context has its key, and is set to the length of this nonce; `-1` keeps the direction.
        let good = unsafe {
            (is_set || lc::EVP_CIPHER_CTX_ctrl(context, lc::EVP_CTRL_AEAD_SET_IVLEN, length, ptr::null_mut()) == 1)
                && lc::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr(), -1) == 1
        };
        if !good {
            self.iv_len = 0;
            return Err(failed_call("EVP_CipherInit_ex of an AEAD"));
        }
        // SAFETY: the associated data is a slice, and there is no output.
        unsafe { self.feed(ptr::null_mut(), aad.as_ptr(), aad.len()) }
    }

    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault> {
        let data = RawBuffers::new(data)?;
        // SAFETY: `RawBuffers` guarantees the buffers.
        unsafe { self.feed(data.output, data.input, data.len) }
    }

    /// Authenticates associated data after the data, as OpenSSL does. Only ChaCha20-Poly1305 supports this.
    fn aad_after_data(&mut self, aad: &[u8]) -> Result<Outcome, Fault> {
        if !self.is_chacha {
            return Ok(Outcome::Malformed);
        }
        // SAFETY: the associated data is a slice, and there is no output.
        unsafe { self.feed(ptr::null_mut(), aad.as_ptr(), aad.len()) }.map(|()| Outcome::Done)
    }

    fn seal(&mut self, tag: &mut [u8]) -> Result<(), Fault> {
        if tag.len() != self.tag_len {
            return Err(Fault::failed("the tag has a wrong length"));
        }
        let context = self.context.as_mut_ptr();
        // SAFETY: the context has its key, and the tag has the given length, at most 16 bytes.
        let good = unsafe {
            lc::EVP_Cipher(context, ptr::null_mut(), ptr::null(), 0) >= 0
                && lc::EVP_CIPHER_CTX_ctrl(
                    context,
                    lc::EVP_CTRL_AEAD_GET_TAG,
                    to_c_int(tag.len()),
                    tag.as_mut_ptr().cast(),
                ) == 1
        };
        if good { Ok(()) } else { Err(failed_call("EVP_Cipher of an AEAD")) }
    }

    fn open(&mut self, tag: &[u8]) -> Result<Outcome, Fault> {
        if !(1..=16).contains(&tag.len()) {
            return Ok(Outcome::BadTag);
        }
        let context = self.context.as_mut_ptr();
        let at = tag.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the context has its key, and the tag has the given length, at most 16 bytes. It is only read.
        if unsafe { lc::EVP_CIPHER_CTX_ctrl(context, lc::EVP_CTRL_AEAD_SET_TAG, to_c_int(tag.len()), at) } != 1 {
            return Err(failed_call("EVP_CIPHER_CTX_ctrl of an AEAD"));
        }
        // SAFETY: as above. Key and nonce are set, so only the tag can be wrong.
        let good = unsafe { lc::EVP_Cipher(context, ptr::null_mut(), ptr::null(), 0) } >= 0;
        Ok(if good { Outcome::Done } else { Outcome::BadTag })
    }

    fn duplicate(&self) -> Box<dyn AeadStream> {
        let context = self.context.duplicate().unwrap_or_else(|| abort_out_of_memory());
        let Self { tag_len, iv_len, is_chacha, .. } = *self;
        Box::new(EvpCipherStream { context, tag_len, iv_len, is_chacha })
    }
}

// ---- CCM

/// Maximum number of bytes of data, and of associated data, in one request: AWS-LC counts them in an `int`.
pub(crate) const CCM_MAX_BYTES: usize = c_int::MAX as usize;

pub(crate) fn open_ccm(params: &SessionParams) -> SessionResult {
    let cipher = match params.algorithm() {
        A::Aes128Ccm => lc::EVP_aes_128_ccm,
        A::Aes192Ccm => lc::EVP_aes_192_ccm,
        A::Aes256Ccm => lc::EVP_aes_256_ccm,
        _ => return Err(Unsupported::because("not CCM")),
    };
    let info = params.algorithm().info();
    if !info.key.allows(params.key().len()) || !info.tag.allows(params.tag_len()) {
        return Err(Unsupported::because("the key or the tag has a wrong length"));
    }
    let mut session = CcmSession { cipher, params: params.clone(), pool: Pool::new(None) };
    session.pool = Pool::new(Some(session.context().ok_or_else(|| failed_open("EVP_CipherInit_ex"))?));
    Ok(Arc::new(session))
}

struct CcmSession {
    cipher: unsafe extern "C" fn() -> *const lc::EVP_CIPHER,
    params: SessionParams,
    pool: Pool<lc::EVP_CIPHER_CTX>,
}

impl DeviceSession for CcmSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Seal { iv, aad, data, tag } => {
                if tag.len() != self.params.tag_len() {
                    return Err(Fault::failed("the tag has a wrong length"));
                }
                self.crypt_ccm(lc::AES_ENCRYPT, iv, aad, data, tag.as_mut_ptr())
            }
            Operands::Open { iv, aad, data, tag } => {
                if tag.len() != self.params.tag_len() {
                    return Ok(Outcome::BadTag);
                }
                self.crypt_ccm(lc::AES_DECRYPT, iv, aad, data, tag.as_ptr().cast_mut())
            }
            _ => unsupported_operation(),
        }
    }
}

impl CcmSession {
    /// Creates a context with the key; `None` if memory is exhausted.
    fn context(&self) -> Option<Context<lc::EVP_CIPHER_CTX>> {
        let (key, tag_len) = (self.params.key(), to_c_int(self.params.tag_len()));
        let mut context = Context::<lc::EVP_CIPHER_CTX>::new()?;
        let at = context.as_mut_ptr();
        // SAFETY: the context is new, and the key has the cipher's length, which `open_ccm` has checked. The length of tags must be set
        // before the key.
        let good = unsafe {
            lc::EVP_CipherInit_ex(at, (self.cipher)(), ptr::null_mut(), ptr::null(), ptr::null(), lc::AES_ENCRYPT) == 1
                && lc::EVP_CIPHER_CTX_ctrl(at, lc::EVP_CTRL_AEAD_SET_TAG, tag_len, ptr::null_mut()) == 1
                && lc::EVP_CipherInit_ex(at, ptr::null(), ptr::null_mut(), key.as_ptr(), ptr::null(), -1) == 1
        };
        good.then_some(context)
    }

    /// Runs CCM. `tag` has the length of the session's tags; it is written with [`lc::AES_ENCRYPT`] only.
    fn crypt_ccm(&self, enc: c_int, iv: &[u8], aad: &[u8], data: Buffers<'_>, tag: *mut u8) -> Result<Outcome, Fault> {
        let data = RawBuffers::new(data)?;
        if !(7..=13).contains(&iv.len()) {
            return Err(Fault::failed("the IV has a wrong length"));
        }
        // RFC 3610: the length of the data is encoded in the 15 - N bytes that the nonce leaves.
        let max_len = if iv.len() > 11 { (1 << (8 * (15 - iv.len()))) - 1 } else { CCM_MAX_BYTES };
        if data.len > max_len || aad.len() > CCM_MAX_BYTES {
            return Ok(Outcome::BadLength);
        }
        let is_opening = enc == lc::AES_DECRYPT;
        let (iv_len, tag_len, tag) = (to_c_int(iv.len()), to_c_int(self.params.tag_len()), tag.cast::<c_void>());
        let mut context = self.pool.take(|| self.context())?;
        let at = context.as_mut_ptr();
        // AWS-LC demands this order: lengths, nonce, tag, length of the data, associated data, data. Passing the associated data, even if
        // empty, begins a new message after any previous state. SAFETY: the context has its key; `RawBuffers` guarantees the buffers, and
        // all have the lengths that are passed.
        let ready = unsafe {
            lc::EVP_CIPHER_CTX_ctrl(at, lc::EVP_CTRL_AEAD_SET_IVLEN, iv_len, ptr::null_mut()) == 1
                && lc::EVP_CipherInit_ex(at, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr(), enc) == 1
                && (!is_opening || lc::EVP_CIPHER_CTX_ctrl(at, lc::EVP_CTRL_AEAD_SET_TAG, tag_len, tag) == 1)
                && lc::EVP_Cipher(at, ptr::null_mut(), ptr::null(), data.len) >= 0
                && lc::EVP_Cipher(at, ptr::null_mut(), aad.as_ptr(), aad.len()) >= 0
        };
        if !ready {
            return Err(failed_call("EVP_CipherInit_ex of CCM"));
        }
        // SAFETY: as above.
        let good = unsafe {
            lc::EVP_Cipher(at, data.output, data.input, data.len) >= 0
                && (is_opening || lc::EVP_CIPHER_CTX_ctrl(at, lc::EVP_CTRL_AEAD_GET_TAG, tag_len, tag) == 1)
        };
        match (good, is_opening) {
            (true, _) => Ok(Outcome::Done),
            // Only the tag can be wrong: the rest was checked above. AWS-LC has already zeroed the output.
            (false, true) => Ok(Outcome::BadTag),
            (false, false) => Err(failed_call("EVP_Cipher of CCM")),
        }
    }
}

/// Converts the length of a nonce or a tag, at most 16.
fn to_c_int(len: usize) -> c_int {
    c_int::from(len as u8)
}
