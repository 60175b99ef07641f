//! Signatures: our entries, and the host's functions behind them.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use gantry_core::driver::Operands;
use gantry_core::{Algorithm, Outcome};

use super::core::{Table, dispatch};
use super::family::{
    Context, Contexts, Family, Host, bytes, dupctx, freectx, get_ctx_params, gettable_ctx_params, is_empty,
    new_context, settable_ctx_params,
};
use super::functions::{Common, Functions, SignatureFns};
use super::guard;
use super::host_keys::{HostKey, HostPair};
use super::keys::KeyData;
use super::slhdsa::{self, Framing};
use super::wrapped::Wrapped;
use crate::abi::fns::*;
use crate::abi::{self, Dispatch, Param};
use crate::table::{Mode, PAIRS};

impl SignatureFns {
    /// Begins to sign, or to verify.
    pub(super) fn init<const SIGN: bool>(&self) -> Option<KeyedInit> {
        if SIGN { self.sign_init } else { self.verify_init }
    }

    pub(super) fn message_init<const SIGN: bool>(&self) -> Option<KeyedInit> {
        if SIGN { self.sign_message_init } else { self.verify_message_init }
    }

    pub(super) fn digest_init<const SIGN: bool>(&self) -> Option<SignatureDigestInit> {
        if SIGN { self.digest_sign_init } else { self.digest_verify_init }
    }
}

/// What the core calls `sigctx`.
pub(super) type SignatureCtx = Context<SignatureFns>;

/// The key of messages in one piece; `None` where something was said that only the host understands (RFC 8032 has variants of its
/// signatures), and for calls that only newer releases have.
#[derive(Clone, Default)]
pub(crate) struct Signer {
    pub(super) key: Option<Arc<KeyData>>,
    /// Of SLH-DSA.
    pub(super) framing: Framing,
}

impl Signer {
    /// A request to another device, if it is to go there.
    pub(super) fn elsewhere(&self, wrapped: &Wrapped, algorithm: Algorithm, operands: Operands<'_>) -> Option<Outcome> {
        let key = self.key.as_ref()?;
        key.pair().run(wrapped, algorithm, || key.raw(), operands)
    }

    /// The same with a message as a whole.
    fn message(&mut self, wrapped: &Wrapped, operands: Operands<'_>) -> Option<Outcome> {
        match wrapped.algorithm()? {
            slh_dsa if slh_dsa.is_slh_dsa() => self.slh_dsa(wrapped, slh_dsa, operands),
            other => self.elsewhere(wrapped, other, operands),
        }
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void, properties: *const c_char) -> *mut c_void {
    let begin = |functions: &SignatureFns, theirs| {
        // SAFETY: the host, with its own context and what the call brought.
        functions.newctx.map(|newctx| unsafe { newctx(theirs, properties) })
    };
    // SAFETY: the call, and the host's answer.
    unsafe { new_context(provider, PLACE, begin, |_, _| Signer::default()) }
}

/// # Safety
///
/// The call. `init` is one of the host's functions that give a context a key.
pub(super) unsafe fn keyed(
    context: *mut c_void,
    key: *mut c_void,
    plain: bool,
    init: impl FnOnce(&SignatureFns, *mut c_void, *mut c_void) -> Option<c_int>,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (SignatureCtx::of(context), KeyData::hold(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        let result = init(functions, this.host.context(), host).unwrap_or(0);
        // Without a key it is the one from before.
        let key = key.or_else(|| this.state.key.take());
        this.state.key = key.filter(|_| plain && result == 1);
        result
    })
}

unsafe extern "C" fn digest_init<const SIGN: bool>(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    unsafe {
        keyed(context, key, is_empty(params), |functions, context, key| {
            Some(functions.digest_init::<SIGN>()?(context, digest, key, params))
        })
    }
}

/// The functions that begin something of which the host does everything.
macro_rules! hosts {
    ($($name:ident),+) => {
        $(unsafe extern "C" fn $name<const SIGN: bool>(
            context: *mut c_void,
            key: *mut c_void,
            params: *const Param,
        ) -> c_int {
            // SAFETY: the call, and the host with what it brought.
            unsafe {
                keyed(context, key, false, |functions, context, key| {
                    Some(functions.$name::<SIGN>()?(context, key, params))
                })
            }
        })+
    };
}

hosts!(init, message_init);

/// `DIGEST` is whether the call is `EVP_DigestSign`, and not `EVP_PKEY_sign` for a whole message, which OpenSSL has since 3.4.
pub(super) unsafe extern "C" fn sign_message<const DIGEST: bool>(
    context: *mut c_void,
    signature: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { SignatureCtx::of(context) };
        // Without a place for the signature this only asks for its length.
        if !signature.is_null() {
            if wrapped.fails() {
                return 0;
            }
            let size = wrapped.algorithm().map_or(usize::MAX, |algorithm| algorithm.info().tag.max);
            if size <= room {
                // SAFETY: the call: there is room for as many bytes, and a message to read.
                let (input, output) = unsafe { (bytes(input, length), slice::from_raw_parts_mut(signature, size)) };
                if this.state.message(wrapped, Operands::Sign { input, output }) == Some(Outcome::Done) {
                    // SAFETY: the call.
                    unsafe { *written = size };
                    return 1;
                }
            }
        }
        let sign = if DIGEST { functions.digest_sign } else { functions.sign };
        // SAFETY: the host, with what the call brought.
        sign.map_or(0, |sign| unsafe { sign(this.host.context(), signature, written, room, input, length) })
    })
}

/// As [`sign_message`].
pub(super) unsafe extern "C" fn verify_message<const DIGEST: bool>(
    context: *mut c_void,
    signature: *const u8,
    size: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { SignatureCtx::of(context) };
        if wrapped.fails() {
            return 0;
        }
        // SAFETY: the call: both can be read.
        let (message, theirs) = unsafe { (bytes(input, length), bytes(signature, size)) };
        match this.state.message(wrapped, Operands::Verify { input: message, signature: theirs }) {
            Some(Outcome::Done) => return 1,
            Some(Outcome::BadTag) => return 0,
            _ => {}
        }
        let verify = if DIGEST { functions.digest_verify } else { functions.verify };
        // SAFETY: the host, with what the call brought.
        verify.map_or(0, |verify| unsafe { verify(this.host.context(), signature, size, input, length) })
    })
}

unsafe extern "C" fn sign(
    context: *mut c_void,
    signature: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { SignatureCtx::of(context) };
        if !signature.is_null() && wrapped.fails() {
            return 0;
        }
        // SAFETY: the call.
        unsafe { this.host.sign((signature, written, room), (input, length)) }
    })
}

unsafe extern "C" fn verify(
    context: *mut c_void,
    signature: *const u8,
    size: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { SignatureCtx::of(context) };
        // SAFETY: the call.
        if wrapped.fails() { 0 } else { unsafe { this.host.verify((signature, size), (input, length)) } }
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, ..), says_nothing) = unsafe { (SignatureCtx::of(context), is_empty(params)) };
        if !says_nothing {
            this.state.key = None;
        }
        // SAFETY: the call.
        unsafe { this.host.set_params(params) }
    })
}

/// With the key that the context was given last.
impl Host<SignatureFns> {
    /// # Safety
    ///
    /// The call, or slices: null, or room for the signature and a place for its length; a message or digest to read.
    pub(super) unsafe fn sign(
        &self,
        (signature, written, room): (*mut u8, *mut usize, usize),
        (input, length): (*const u8, usize),
    ) -> c_int {
        // SAFETY: the host, with what the caller promises.
        self.functions().sign.map_or(0, |sign| unsafe { sign(self.context(), signature, written, room, input, length) })
    }

    /// # Safety
    ///
    /// The call, or slices: a signature, and a message or digest, to read.
    pub(super) unsafe fn verify(
        &self,
        (signature, size): (*const u8, usize),
        (input, length): (*const u8, usize),
    ) -> c_int {
        // SAFETY: the host, with what the caller promises.
        self.functions().verify.map_or(0, |verify| unsafe { verify(self.context(), signature, size, input, length) })
    }
}

impl HostPair {
    /// A signature for which no program asked.
    pub(crate) fn sign(&self, key: &HostKey, input: &[u8], output: &mut [u8]) -> bool {
        let Some(host) = self.signature() else { return false };
        let SignatureFns { digest_sign_init: Some(init), digest_sign: Some(sign), .. } = host.functions() else {
            return false;
        };
        let mut written = 0;
        // SAFETY: the host, with its own context and key, a message to read and room for the signature.
        let good = unsafe {
            let (signature, room) = (output.as_mut_ptr(), output.len());
            init(host.context(), ptr::null(), key.as_ptr(), ptr::null()) == 1
                && sign(host.context(), signature, &raw mut written, room, input.as_ptr(), input.len()) == 1
        };
        good && written == output.len()
    }

    pub(crate) fn verify(&self, key: &HostKey, input: &[u8], signature: &[u8]) -> bool {
        let Some(host) = self.signature() else { return false };
        let SignatureFns { digest_verify_init: Some(init), digest_verify: Some(verify), .. } = host.functions() else {
            return false;
        };
        // SAFETY: the host, with its own context and key, a message and a signature to read.
        unsafe {
            init(host.context(), ptr::null(), key.as_ptr(), ptr::null()) == 1
                && verify(host.context(), signature.as_ptr(), signature.len(), input.as_ptr(), input.len()) == 1
        }
    }

    pub(super) fn signature(&self) -> Option<Host<SignatureFns>> {
        self.context(|functions: &SignatureFns, theirs| {
            // SAFETY: the host, with its own context.
            functions.newctx.map(|newctx| unsafe { newctx(theirs, ptr::null()) })
        })
    }
}

impl Family for SignatureFns {
    const KIND: usize = 3;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Signature(functions) = functions { Some(functions) } else { None }
    }
}

impl Contexts for SignatureFns {
    type State = Signer;

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (SignatureNewCtx, GettableCtx, GettableCtx);

const fn at<const PLACE: usize>() -> AtPlace {
    (newctx::<PLACE>, gettable_ctx_params::<SignatureFns, PLACE>, settable_ctx_params::<SignatureFns, PLACE>)
}

static AT: [AtPlace; PAIRS.len()] = super::family::at_places!(0 1 2 3 4 5 6 7 8 9 10 11 12 13);

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = AT[place];
    let mut ours = dispatch! {
        OSSL_FUNC_SIGNATURE_NEWCTX => newctx, SignatureNewCtx;
        OSSL_FUNC_SIGNATURE_DUPCTX => dupctx::<SignatureFns>, NewCtx;
        OSSL_FUNC_SIGNATURE_FREECTX => freectx::<SignatureFns>, FreeCtx;
        OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS => get_ctx_params::<SignatureFns>, GetParams;
        OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    }
    .to_vec();
    let messages = dispatch! {
        OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT => digest_init::<true>, SignatureDigestInit;
        OSSL_FUNC_SIGNATURE_DIGEST_SIGN => sign_message::<true>, SignatureSign;
        OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT => digest_init::<false>, SignatureDigestInit;
        OSSL_FUNC_SIGNATURE_DIGEST_VERIFY => verify_message::<true>, SignatureVerify;
        OSSL_FUNC_SIGNATURE_SIGN_INIT => init::<true>, KeyedInit;
        OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT => message_init::<true>, KeyedInit;
        OSSL_FUNC_SIGNATURE_SIGN => sign, SignatureSign;
        OSSL_FUNC_SIGNATURE_VERIFY_INIT => init::<false>, KeyedInit;
        OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT => message_init::<false>, KeyedInit;
        OSSL_FUNC_SIGNATURE_VERIFY => verify, SignatureVerify;
        OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS => set_ctx_params, SetParams;
    };
    match PAIRS[place].mode {
        Mode::SlhDsa => ours.extend(slhdsa::entries()),
        _ => ours.extend(messages),
    }
    super::core::complete(theirs, &ours, &[abi::OSSL_FUNC_SIGNATURE_QUERY_KEY_TYPES])
}
