//! Digests, by AWS-LC's one-call functions if there are any, otherwise by contexts from a pool. Streams are contexts.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, DigestStream, Operands, Unsupported};
use gantry_core::{Algorithm as A, Fault, Operation, Outcome, SessionParams};

use crate::context::{Context, Pool};
use crate::session::{SessionResult, abort_out_of_memory, failed_call, failed_open, unsupported_operation};

/// An AWS-LC digest: a pointer to a static table, never null.
#[derive(Clone, Copy)]
pub(crate) struct Md(*const lc::EVP_MD);

// SAFETY: the table is static and constant.
unsafe impl Send for Md {}
// SAFETY: the table is static and constant.
unsafe impl Sync for Md {}

impl Md {
    pub(crate) fn of(algorithm: A) -> Option<Md> {
        let table = match algorithm {
            A::Md5 => lc::EVP_md5,
            A::Sha1 => lc::EVP_sha1,
            A::Sha224 => lc::EVP_sha224,
            A::Sha256 => lc::EVP_sha256,
            A::Sha384 => lc::EVP_sha384,
            A::Sha512 => lc::EVP_sha512,
            A::Sha512_256 => lc::EVP_sha512_256,
            A::Sha3_224 => lc::EVP_sha3_224,
            A::Sha3_256 => lc::EVP_sha3_256,
            A::Sha3_384 => lc::EVP_sha3_384,
            A::Sha3_512 => lc::EVP_sha3_512,
            A::Shake128 => lc::EVP_shake128,
            A::Shake256 => lc::EVP_shake256,
            A::Ripemd160 => lc::EVP_ripemd160,
            A::Blake2b256 => lc::EVP_blake2b256,
            _ => return None,
        };
        // SAFETY: the function has no preconditions.
        Some(Md(unsafe { table() }))
    }

    pub(crate) fn as_ptr(self) -> *const lc::EVP_MD {
        self.0
    }

    /// Returns the length of the digest in bytes, for a function whose digests have a fixed length.
    pub(crate) fn digest_len(self) -> usize {
        // SAFETY: the pointer is to a table of AWS-LC.
        unsafe { lc::EVP_MD_size(self.0) }
    }

    /// Returns whether the digest may have any length.
    fn is_xof(self) -> bool {
        // SAFETY: the pointer is to a table of AWS-LC.
        unsafe { lc::EVP_MD_flags(self.0) & lc::EVP_MD_FLAG_XOF as u32 != 0 }
    }

    fn check_output(self, output: &[u8]) -> Result<(), Fault> {
        let fits = self.is_xof() || output.len() == self.digest_len();
        if fits { Ok(()) } else { Err(Fault::failed("the digest has a wrong length")) }
    }
}

/// Hashes a message in one call, with the state on the stack. The SHA functions overwrite the whole state at the end. Those for MD5 and
/// RIPEMD-160 overwrite only the last part of the message.
type OneShot = unsafe extern "C" fn(*const u8, usize, *mut u8) -> *mut u8;

fn one_shot(algorithm: A) -> Option<OneShot> {
    Some(match algorithm {
        A::Md5 => lc::MD5,
        A::Sha1 => lc::SHA1,
        A::Sha224 => lc::SHA224,
        A::Sha256 => lc::SHA256,
        A::Sha384 => lc::SHA384,
        A::Sha512 => lc::SHA512,
        A::Sha512_256 => lc::SHA512_256,
        A::Ripemd160 => lc::RIPEMD160,
        _ => return None,
    })
}

pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let algorithm = params.algorithm();
    let md = Md::of(algorithm).ok_or(Unsupported::because("not a digest of AWS-LC"))?;
    let method = match one_shot(algorithm) {
        Some(function) => Method::OneShot(function),
        None => Method::Context(Pool::new(Some(begin(md).ok_or_else(|| failed_open("EVP_DigestInit_ex"))?))),
    };
    Ok(Arc::new(DigestSession { md, method }))
}

struct DigestSession {
    md: Md,
    method: Method,
}

enum Method {
    OneShot(OneShot),
    Context(Pool<lc::EVP_MD_CTX>),
}

impl DeviceSession for DigestSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Digest { input, output } = operands else { return unsupported_operation() };
        self.md.check_output(output)?;
        match &self.method {
            Method::OneShot(function) => {
                // SAFETY: `input` has the given length, and `output` has the length of the digest.
                unsafe { function(input.as_ptr(), input.len(), output.as_mut_ptr()) };
            }
            Method::Context(pool) => {
                let mut context = pool.take(|| begin(self.md))?;
                // SAFETY: `begin` or `finish` has initialised the context for `md`, and `check_output` has allowed the length.
                unsafe {
                    update(context.as_mut_ptr(), input)?;
                    finish(context.as_mut_ptr(), self.md, output)?;
                }
            }
        }
        Ok(Outcome::Done)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        let context = begin(self.md).ok_or_else(|| failed_open("EVP_DigestInit_ex"))?;
        Ok(Box::new(Stream { md: self.md, context }))
    }
}

struct Stream {
    md: Md,
    context: Context<lc::EVP_MD_CTX>,
}

impl DigestStream for Stream {
    fn operation(&self) -> Operation {
        Operation::Digest
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        // SAFETY: the context is initialised by `begin` or `finish`.
        unsafe { update(self.context.as_mut_ptr(), input) }
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        self.md.check_output(output)?;
        // SAFETY: `begin` or `finish` has initialised the context for `md`, and `check_output` has allowed the length.
        unsafe { finish(self.context.as_mut_ptr(), self.md, output) }
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        let context = self.context.duplicate().unwrap_or_else(|| abort_out_of_memory());
        Box::new(Stream { md: self.md, context })
    }
}

/// Returns a context at the beginning of a message; `None` if memory is exhausted.
fn begin(md: Md) -> Option<Context<lc::EVP_MD_CTX>> {
    let mut context = Context::new()?;
    // SAFETY: the context is new, and `md` is a table of AWS-LC.
    (unsafe { lc::EVP_DigestInit_ex(context.as_mut_ptr(), md.0, ptr::null_mut()) } == 1).then_some(context)
}

/// # Safety
///
/// The context must be initialised.
unsafe fn update(context: *mut lc::EVP_MD_CTX, input: &[u8]) -> Result<(), Fault> {
    // SAFETY: as the caller guarantees.
    let good = unsafe { lc::EVP_DigestUpdate(context, input.as_ptr().cast(), input.len()) } == 1;
    if good { Ok(()) } else { Err(failed_call("EVP_DigestUpdate")) }
}

/// Writes the digest, and leaves the context at the beginning of the next message without traces of the last one.
///
/// # Safety
///
/// The context must be initialised for `md`, which must allow the length of `output`.
unsafe fn finish(context: *mut lc::EVP_MD_CTX, md: Md, output: &mut [u8]) -> Result<(), Fault> {
    if md.is_xof() {
        // SAFETY: as the caller guarantees.
        return unsafe { squeeze(context, md, output) };
    }
    // SAFETY: as the caller guarantees.
    let good = unsafe {
        lc::EVP_DigestFinal_ex(context, output.as_mut_ptr(), ptr::null_mut()) == 1
            && lc::EVP_DigestInit_ex(context, md.0, ptr::null_mut()) == 1
    };
    if good { Ok(()) } else { Err(failed_call("EVP_DigestFinal_ex")) }
}

/// Writes a digest of any length. `EVP_DigestFinalXOF` is not used, because it releases the memory of the context, which would be allocated
/// again for each message.
///
/// # Safety
///
/// The context must be initialised for `md`.
unsafe fn squeeze(context: *mut lc::EVP_MD_CTX, md: Md, output: &mut [u8]) -> Result<(), Fault> {
    // `EVP_DigestInit_ex` clears the state, but not the buffer, which may hold the end of the message. Hashing zeros overwrites the buffer
    // except its last byte, because a whole block would bypass it. The last byte then holds padding or output.
    let zeros = [0; SHAKE128_BLOCK_BYTES - 1];
    // SAFETY: as the caller guarantees.
    let good = unsafe {
        let zeros = &zeros[..lc::EVP_MD_block_size(md.0) - 1];
        lc::EVP_DigestSqueeze(context, output.as_mut_ptr(), output.len()) == 1
            && lc::EVP_DigestInit_ex(context, md.0, ptr::null_mut()) == 1
            && update(context, zeros).is_ok()
            && lc::EVP_DigestInit_ex(context, md.0, ptr::null_mut()) == 1
    };
    if good { Ok(()) } else { Err(failed_call("EVP_DigestSqueeze")) }
}

/// Bytes of a block of SHAKE128, the longest block.
const SHAKE128_BLOCK_BYTES: usize = 168;
