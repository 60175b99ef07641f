//! Authentication codes.
//!
//! The prepared states of HMAC and Poly1305 are flat, so a request works on a copy on its stack. CMAC takes a context from a
//! pool. GMAC is AES-GCM with associated data only.

use std::ptr;
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{DeviceSession, DigestStream, Operands, Unsupported};
use gantry_core::{Algorithm as A, Fault, Operation, Outcome, SessionParams};

use crate::aead::AeadKey;
use crate::context::{Context, Pool};
use crate::digest::Md;
use crate::session::{
    PlainMemory, Secret, SessionResult, abort_out_of_memory, failed_call, failed_open, unsupported_operation,
};

// ---- HMAC

/// HMAC with its key: the states after the inner and the outer key block, copied for each message.
#[derive(Clone)]
pub(crate) struct Hmac {
    context: Box<Secret<lc::HMAC_CTX>>,
    mac_len: usize,
}

/// Length of the longest HMAC in bytes: HMAC with SHA-512.
pub(crate) const MAX_HMAC_BYTES: usize = 64;

impl Hmac {
    pub(crate) fn new(digest: Option<A>, key: &[u8]) -> Result<Self, Unsupported> {
        let md = digest.and_then(Md::of).ok_or(Unsupported::because("not a digest of AWS-LC"))?;
        let mut context = Secret::<lc::HMAC_CTX>::boxed();
        // SAFETY: a zeroed context is an empty one (hmac.h), the key has the given length, and `md` is a table of AWS-LC.
        let good = unsafe {
            lc::HMAC_Init_ex(&raw mut **context, key.as_ptr().cast(), key.len(), md.as_ptr(), ptr::null_mut()) == 1
        };
        if good { Ok(Self { context, mac_len: md.digest_len() }) } else { Err(failed_open("HMAC_Init_ex")) }
    }

    /// Writes the MAC of the concatenated pieces, truncated to the length of `output`.
    #[inline]
    pub(crate) fn mac(&self, pieces: &[&[u8]], output: &mut [u8]) -> Result<(), Fault> {
        let mut state = Secret::clone(&self.context);
        for piece in pieces {
            Self::update(&mut state, piece)?;
        }
        self.finish(&mut state, output)
    }

    fn update(state: &mut Secret<lc::HMAC_CTX>, input: &[u8]) -> Result<(), Fault> {
        // SAFETY: the context is a copy of a context with its key.
        let good = unsafe { lc::HMAC_Update(&raw mut **state, input.as_ptr(), input.len()) } == 1;
        if good { Ok(()) } else { Err(failed_call("HMAC_Update")) }
    }

    fn finish(&self, state: &mut Secret<lc::HMAC_CTX>, output: &mut [u8]) -> Result<(), Fault> {
        if output.len() > self.mac_len {
            return Err(Fault::failed("the MAC has a wrong length"));
        }
        let mut whole = Secret::<[u8; MAX_HMAC_BYTES]>::zeroed();
        let destination = if output.len() == self.mac_len { output.as_mut_ptr() } else { whole.as_mut_ptr() };
        // SAFETY: the context is a copy of a context with its key, and the buffer is as long as the whole MAC.
        let good = unsafe { lc::HMAC_Final(&raw mut **state, destination, ptr::null_mut()) } == 1;
        if output.len() < self.mac_len {
            output.copy_from_slice(&whole[..output.len()]);
        }
        if good { Ok(()) } else { Err(failed_call("HMAC_Final")) }
    }
}

pub(crate) fn open_hmac(params: &SessionParams) -> SessionResult {
    Ok(Arc::new(HmacSession(Hmac::new(params.algorithm().info().digest, params.key())?)))
}

struct HmacSession(Hmac);

impl DeviceSession for HmacSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Mac { input, output, .. } = operands else { return unsupported_operation() };
        self.0.mac(&[input], output).map(|()| Outcome::Done)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(HmacStream { key: self.0.clone(), state: self.0.context.clone() }))
    }
}

struct HmacStream {
    key: Hmac,
    state: Box<Secret<lc::HMAC_CTX>>,
}

impl DigestStream for HmacStream {
    fn operation(&self) -> Operation {
        Operation::Mac
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        Hmac::update(&mut self.state, input)
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        self.key.finish(&mut self.state, output)?;
        self.state.clone_from(&self.key.context);
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(HmacStream { key: self.key.clone(), state: self.state.clone() })
    }
}

// ---- CMAC

pub(crate) fn open_cmac(params: &SessionParams) -> SessionResult {
    let key = params.key();
    // SAFETY: the functions have no preconditions, and return pointers to static tables.
    let cipher = unsafe {
        match key.len() {
            16 => lc::EVP_aes_128_cbc(),
            24 => lc::EVP_aes_192_cbc(),
            _ => lc::EVP_aes_256_cbc(),
        }
    };
    let mut context = Context::<lc::CMAC_CTX>::new().ok_or_else(|| failed_open("CMAC_CTX_new"))?;
    // SAFETY: the context is new, the key has the given length, and AWS-LC refuses a key that does not fit the cipher.
    let good =
        unsafe { lc::CMAC_Init(context.as_mut_ptr(), key.as_ptr().cast(), key.len(), cipher, ptr::null_mut()) == 1 };
    if good {
        Ok(Arc::new(CmacSession { initial: context, pool: Pool::new(None) }))
    } else {
        Err(failed_open("CMAC_Init"))
    }
}

struct CmacSession {
    /// The context with its key, at the beginning of a message. New contexts are copies of it.
    initial: Context<lc::CMAC_CTX>,
    pool: Pool<lc::CMAC_CTX>,
}

impl DeviceSession for CmacSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Mac { input, output, .. } = operands else { return unsupported_operation() };
        let mut context = self.pool.take(|| self.initial.duplicate())?;
        // SAFETY: contexts in the pool are copies of a context with its key. They are also at the beginning of a message, because
        // `cmac_update` does not fail, and `cmac_finish` fails only for an output that core does not pass.
        unsafe {
            cmac_update(context.as_mut_ptr(), input)?;
            cmac_finish(context.as_mut_ptr(), output)?;
        }
        Ok(Outcome::Done)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        let context = self.initial.duplicate().ok_or_else(|| failed_open("CMAC_CTX_copy"))?;
        Ok(Box::new(CmacStream(context)))
    }
}

struct CmacStream(Context<lc::CMAC_CTX>);

impl DigestStream for CmacStream {
    fn operation(&self) -> Operation {
        Operation::Mac
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        // SAFETY: the context is a copy of a context with its key.
        unsafe { cmac_update(self.0.as_mut_ptr(), input) }
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: the context is a copy of a context with its key.
        unsafe { cmac_finish(self.0.as_mut_ptr(), output) }
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(CmacStream(self.0.duplicate().unwrap_or_else(|| abort_out_of_memory())))
    }
}

/// # Safety
///
/// The context must have its key.
unsafe fn cmac_update(context: *mut lc::CMAC_CTX, input: &[u8]) -> Result<(), Fault> {
    // SAFETY: as the caller guarantees.
    let good = unsafe { lc::CMAC_Update(context, input.as_ptr(), input.len()) } == 1;
    if good { Ok(()) } else { Err(failed_call("CMAC_Update")) }
}

/// Writes the MAC, and leaves the context at the beginning of the next message.
///
/// # Safety
///
/// The context must have its key.
unsafe fn cmac_finish(context: *mut lc::CMAC_CTX, output: &mut [u8]) -> Result<(), Fault> {
    let (mut whole, mut len) = (Secret::<[u8; 16]>::zeroed(), 0);
    if output.len() > whole.len() {
        return Err(Fault::failed("the MAC has a wrong length"));
    }
    // SAFETY: as the caller guarantees, and `whole` is as long as an AES block.
    let good =
        unsafe { lc::CMAC_Final(context, whole.as_mut_ptr(), &raw mut len) == 1 && lc::CMAC_Reset(context) == 1 };
    output.copy_from_slice(&whole[..output.len()]);
    if good { Ok(()) } else { Err(failed_call("CMAC_Final")) }
}

// ---- GMAC

pub(crate) fn open_gmac(params: &SessionParams) -> SessionResult {
    Ok(Arc::new(GmacSession(AeadKey::new(params)?)))
}

struct GmacSession(AeadKey);

impl DeviceSession for GmacSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Mac { iv, input, output } = operands else { return unsupported_operation() };
        self.0.seal(iv, input, (&mut []).into(), output)
    }
}

// ---- Poly1305

/// AWS-LC's state starts at the first multiple of 64 in this memory, so a copy must have the same alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Poly1305State(lc::poly1305_state);

// SAFETY: the state holds only numbers (poly1305.c), and both original and copy start at a multiple of 64.
unsafe impl PlainMemory for Poly1305State {}

pub(crate) fn open_poly1305(params: &SessionParams) -> SessionResult {
    let key: &[u8; 32] = params.key().try_into().map_err(|_| Unsupported::because("the key has a wrong length"))?;
    let mut state = Secret::<Poly1305State>::boxed();
    // SAFETY: `state` has the size of a Poly1305 state, and the key has 32 bytes.
    unsafe { lc::CRYPTO_poly1305_init(&raw mut state.0, key.as_ptr()) };
    Ok(Arc::new(Poly1305Session { initial: state }))
}

struct Poly1305Session {
    /// The state with its key, at the beginning of a message. Copied for each message.
    initial: Box<Secret<Poly1305State>>,
}

impl DeviceSession for Poly1305Session {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Mac { input, output, .. } = operands else { return unsupported_operation() };
        let mut state = Secret::clone(&self.initial);
        poly1305_update(&mut state, input);
        poly1305_finish(&mut state, output).map(|()| Outcome::Done)
    }

    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Ok(Box::new(Poly1305Stream { initial: self.initial.clone(), state: self.initial.clone() }))
    }
}

struct Poly1305Stream {
    initial: Box<Secret<Poly1305State>>,
    state: Box<Secret<Poly1305State>>,
}

impl DigestStream for Poly1305Stream {
    fn operation(&self) -> Operation {
        Operation::Mac
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        poly1305_update(&mut self.state, input);
        Ok(())
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        poly1305_finish(&mut self.state, output)?;
        self.state.clone_from(&self.initial);
        Ok(())
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        Box::new(Poly1305Stream { initial: self.initial.clone(), state: self.state.clone() })
    }
}

fn poly1305_update(state: &mut Secret<Poly1305State>, input: &[u8]) {
    // SAFETY: the state is a copy of a state with its key.
    unsafe { lc::CRYPTO_poly1305_update(&raw mut state.0, input.as_ptr(), input.len()) }
}

fn poly1305_finish(state: &mut Secret<Poly1305State>, output: &mut [u8]) -> Result<(), Fault> {
    let output: &mut [u8; 16] = output.try_into().map_err(|_| Fault::failed("the MAC has a wrong length"))?;
    // SAFETY: the state is a copy of a state with its key, and `output` has 16 bytes for the MAC.
    unsafe { lc::CRYPTO_poly1305_finish(&raw mut state.0, output.as_mut_ptr()) };
    Ok(())
}
