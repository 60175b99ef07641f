//! Signatures: our entries, and the host's functions behind them.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use gantry::Outcome;
use gantry::driver::Operands;

use super::core::{Table, entry};
use super::family::{Family, functions, gettable_ctx_params, settable_ctx_params};
use super::guard;
use super::keys::{HostKey, KeyData};
use super::provider::{Functions, Wrapped, dispatch};
use crate::abi::fns::*;
use crate::abi::{self, Dispatch, Param};
use crate::table::CURVES;

/// The host's functions of one algorithm.
pub(in crate::boundary) struct SignatureFns {
    newctx: Option<SignatureNewCtx>,
    dupctx: Option<NewCtx>,
    freectx: Option<FreeCtx>,
    digest_sign_init: Option<SignatureDigestInit>,
    digest_sign: Option<SignatureSign>,
    digest_verify_init: Option<SignatureDigestInit>,
    digest_verify: Option<SignatureVerify>,
    sign_init: Option<KeyedInit>,
    sign_message_init: Option<KeyedInit>,
    sign: Option<SignatureSign>,
    verify_init: Option<KeyedInit>,
    verify_message_init: Option<KeyedInit>,
    verify: Option<SignatureVerify>,
    get_ctx_params: Option<GetParams>,
    set_ctx_params: Option<SetParams>,
    gettable_ctx_params: Option<GettableCtx>,
    settable_ctx_params: Option<GettableCtx>,
}

impl SignatureFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_SIGNATURE_NEWCTX, SignatureNewCtx),
            dupctx: entry!(table, OSSL_FUNC_SIGNATURE_DUPCTX, NewCtx),
            freectx: entry!(table, OSSL_FUNC_SIGNATURE_FREECTX, FreeCtx),
            digest_sign_init: entry!(table, OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, SignatureDigestInit),
            digest_sign: entry!(table, OSSL_FUNC_SIGNATURE_DIGEST_SIGN, SignatureSign),
            digest_verify_init: entry!(table, OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT, SignatureDigestInit),
            digest_verify: entry!(table, OSSL_FUNC_SIGNATURE_DIGEST_VERIFY, SignatureVerify),
            sign_init: entry!(table, OSSL_FUNC_SIGNATURE_SIGN_INIT, KeyedInit),
            sign_message_init: entry!(table, OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT, KeyedInit),
            sign: entry!(table, OSSL_FUNC_SIGNATURE_SIGN, SignatureSign),
            verify_init: entry!(table, OSSL_FUNC_SIGNATURE_VERIFY_INIT, KeyedInit),
            verify_message_init: entry!(table, OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT, KeyedInit),
            verify: entry!(table, OSSL_FUNC_SIGNATURE_VERIFY, SignatureVerify),
            get_ctx_params: entry!(table, OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS, GetParams),
            set_ctx_params: entry!(table, OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, SetParams),
            gettable_ctx_params: entry!(table, OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS, GettableCtx),
            settable_ctx_params: entry!(table, OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, GettableCtx),
        }
    }
}

/// What the core calls `sigctx`.
struct SignatureCtx {
    /// The host's own.
    host: *mut c_void,
    functions: *const SignatureFns,
    wrapped: *const Wrapped,
    /// That of messages in one piece; `None` where something was said that only the host understands (RFC 8032 has variants of
    /// its signatures), and for calls that only newer releases have.
    key: Option<Arc<KeyData>>,
}

impl SignatureCtx {
    /// # Safety
    ///
    /// The call: what `newctx` or `dupctx` gave out.
    unsafe fn of<'c>(context: *mut c_void) -> (&'c mut Self, &'c SignatureFns, &'c Wrapped) {
        // SAFETY: as the caller promises; the provider owns the others, and outlives its contexts.
        unsafe {
            let this = context.cast::<Self>();
            let (functions, wrapped) = (&*(*this).functions, &*(*this).wrapped);
            (&mut *this, functions, wrapped)
        }
    }

    /// A request to another device, if it is to go there.
    fn elsewhere(&self, wrapped: &Wrapped, operands: Operands<'_>) -> Option<Outcome> {
        let key = self.key.as_ref()?;
        key.pair().run(wrapped, key.raw()?, operands)
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void, properties: *const c_char) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let Some((wrapped, functions)) = (unsafe { functions::<SignatureFns>(provider, PLACE) }) else {
            return ptr::null_mut();
        };
        let theirs = wrapped.default_ctx();
        let Some(newctx) = functions.newctx.filter(|_| !theirs.is_null()) else { return ptr::null_mut() };
        // SAFETY: the host, with its own context and what the call brought.
        let host = unsafe { newctx(theirs, properties) };
        if host.is_null() {
            return host;
        }
        Box::into_raw(Box::new(SignatureCtx { host, functions, wrapped, key: None })).cast()
    })
}

unsafe extern "C" fn dupctx(context: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { SignatureCtx::of(context) };
        // SAFETY: the host, with its own context.
        let host = functions.dupctx.map_or(ptr::null_mut(), |dupctx| unsafe { dupctx(this.host) });
        if host.is_null() {
            return host;
        }
        Box::into_raw(Box::new(SignatureCtx { host, key: this.key.clone(), ..*this })).cast()
    })
}

unsafe extern "C" fn freectx(context: *mut c_void) {
    guard((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `newctx` or `dupctx`, and the core frees it once; the host, with its own context, once.
        unsafe {
            let this = Box::from_raw(context.cast::<SignatureCtx>());
            if let Some(freectx) = (*this.functions).freectx {
                freectx(this.host);
            }
        }
    });
}

/// # Safety
///
/// The call. `init` is one of the host's functions that give a context a key.
unsafe fn keyed(
    context: *mut c_void,
    key: *mut c_void,
    plain: bool,
    init: impl FnOnce(&SignatureFns, *mut c_void, *mut c_void) -> Option<c_int>,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (SignatureCtx::of(context), KeyData::hold(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        let result = init(functions, this.host, host).unwrap_or(0);
        // Without a key it is the one from before.
        let key = key.or_else(|| this.key.take());
        this.key = key.filter(|_| plain && result == 1);
        result
    })
}

unsafe extern "C" fn digest_sign_init(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    unsafe {
        keyed(context, key, nothing(params), |functions, context, key| {
            Some(functions.digest_sign_init?(context, digest, key, params))
        })
    }
}

unsafe extern "C" fn digest_verify_init(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    unsafe {
        keyed(context, key, nothing(params), |functions, context, key| {
            Some(functions.digest_verify_init?(context, digest, key, params))
        })
    }
}

/// # Safety
///
/// The call: null, or a table with its end.
unsafe fn nothing(params: *const Param) -> bool {
    // SAFETY: as the caller promises.
    params.is_null() || unsafe { (*params).key.is_null() }
}

/// The functions that begin something of which the host does everything.
macro_rules! hosts {
    ($($name:ident),+) => {
        $(unsafe extern "C" fn $name(context: *mut c_void, key: *mut c_void, params: *const Param) -> c_int {
            // SAFETY: the call, and the host with what it brought.
            unsafe {
                keyed(context, key, false, |functions, context, key| Some(functions.$name?(context, key, params)))
            }
        })+
    };
}

hosts!(sign_init, sign_message_init, verify_init, verify_message_init);

unsafe extern "C" fn digest_sign(
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
        let size = wrapped.algorithm().map_or(usize::MAX, |algorithm| algorithm.info().tag.max);
        // Without a place for the signature this only asks for its length.
        if !signature.is_null() {
            if wrapped.fails() {
                return 0;
            }
            if size <= room {
                // SAFETY: the call: there is room for as many bytes, and a message to read.
                let (input, output) = unsafe { (message(input, length), slice::from_raw_parts_mut(signature, size)) };
                if this.elsewhere(wrapped, Operands::Sign { input, output }) == Some(Outcome::Done) {
                    // SAFETY: the call.
                    unsafe { *written = size };
                    return 1;
                }
            }
        }
        // SAFETY: the host, with what the call brought.
        functions.digest_sign.map_or(0, |sign| unsafe { sign(this.host, signature, written, room, input, length) })
    })
}

unsafe extern "C" fn digest_verify(
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
        let (bytes, theirs) = unsafe { (message(input, length), message(signature, size)) };
        match this.elsewhere(wrapped, Operands::Verify { input: bytes, signature: theirs }) {
            Some(Outcome::Done) => 1,
            Some(Outcome::BadTag) => 0,
            _ => functions.digest_verify.map_or(0, |verify| {
                // SAFETY: the host, with what the call brought.
                unsafe { verify(this.host, signature, size, input, length) }
            }),
        }
    })
}

/// # Safety
///
/// The call: `length` bytes that can be read.
unsafe fn message<'c>(input: *const u8, length: usize) -> &'c [u8] {
    // SAFETY: as the caller promises.
    if length == 0 || input.is_null() { &[] } else { unsafe { slice::from_raw_parts(input, length) } }
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
        let (this, functions, wrapped) = unsafe { SignatureCtx::of(context) };
        if !signature.is_null() && wrapped.fails() {
            return 0;
        }
        // SAFETY: the host, with what the call brought.
        functions.sign.map_or(0, |sign| unsafe { sign(this.host, signature, written, room, input, length) })
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
        let (this, functions, wrapped) = unsafe { SignatureCtx::of(context) };
        let verify = functions.verify.filter(|_| !wrapped.fails());
        // SAFETY: the host, with what the call brought.
        verify.map_or(0, |verify| unsafe { verify(this.host, signature, size, input, length) })
    })
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { SignatureCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        functions.get_ctx_params.map_or(0, |get| unsafe { get(this.host, params) })
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { SignatureCtx::of(context) };
        // SAFETY: the call.
        if !unsafe { nothing(params) } {
            this.key = None;
        }
        // SAFETY: the host, with what the call brought.
        functions.set_ctx_params.map_or(0, |set| unsafe { set(this.host, params) })
    })
}

/// The host's signatures of one algorithm, for keys that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostSignature {
    theirs: *const Wrapped,
    keys: *const Wrapped,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostSignature {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostSignature {}

impl HostSignature {
    pub(crate) fn new(theirs: &Wrapped) -> Option<Self> {
        Some(Self { theirs, keys: theirs.keys()? })
    }

    /// A key that signs, or one that only verifies.
    pub(crate) fn key(&self, raw: &[u8], is_private: bool) -> Option<HostKey> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        HostKey::new(unsafe { &*self.keys }, raw, is_private)
    }

    pub(crate) fn sign(&self, key: &HostKey, input: &[u8], output: &mut [u8]) -> bool {
        let mut written = 0;
        let run = |functions: &SignatureFns, context: *mut c_void| {
            let (init, sign) = (functions.digest_sign_init?, functions.digest_sign?);
            // SAFETY: the host, with its own context and key, a message to read and room for the signature.
            Some(unsafe {
                init(context, ptr::null(), key.as_ptr(), ptr::null()) == 1
                    && sign(context, output.as_mut_ptr(), &raw mut written, output.len(), input.as_ptr(), input.len())
                        == 1
            })
        };
        self.with(run) == Some(true) && written == output.len()
    }

    pub(crate) fn verify(&self, key: &HostKey, input: &[u8], signature: &[u8]) -> bool {
        let run = |functions: &SignatureFns, context: *mut c_void| {
            let (init, verify) = (functions.digest_verify_init?, functions.digest_verify?);
            // SAFETY: the host, with its own context and key, a message and a signature to read.
            Some(unsafe {
                init(context, ptr::null(), key.as_ptr(), ptr::null()) == 1
                    && verify(context, signature.as_ptr(), signature.len(), input.as_ptr(), input.len()) == 1
            })
        };
        self.with(run) == Some(true)
    }

    fn with<T>(&self, run: impl FnOnce(&SignatureFns, *mut c_void) -> Option<T>) -> Option<T> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        let wrapped = unsafe { &*self.theirs };
        let functions = SignatureFns::of(&wrapped.functions)?;
        let (newctx, freectx, theirs) = (functions.newctx?, functions.freectx?, wrapped.default_ctx());
        if theirs.is_null() {
            return None;
        }
        // SAFETY: the host, with its own context.
        let context = unsafe { newctx(theirs, ptr::null()) };
        if context.is_null() {
            return None;
        }
        let result = run(functions, context);
        // SAFETY: the host, with its own context, once.
        unsafe { freectx(context) };
        result
    }
}

impl Family for SignatureFns {
    const KIND: usize = 5;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Signature(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        None
    }

    fn gettable_ctx_params(&self) -> Option<GettableCtx> {
        self.gettable_ctx_params
    }

    fn settable_ctx_params(&self) -> Option<GettableCtx> {
        self.settable_ctx_params
    }

    unsafe fn host_context(context: *mut c_void) -> *mut c_void {
        // SAFETY: as the caller promises.
        unsafe { (*context.cast::<SignatureCtx>()).host }
    }
}

/// Functions that are told only their place in our table.
type AtPlace = (SignatureNewCtx, GettableCtx, GettableCtx);

const fn at<const PLACE: usize>() -> AtPlace {
    (newctx::<PLACE>, gettable_ctx_params::<SignatureFns, PLACE>, settable_ctx_params::<SignatureFns, PLACE>)
}

static AT: [AtPlace; CURVES.len()] = [at::<0>(), at::<1>()];

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let (newctx, gettable_ctx_params, settable_ctx_params) = AT[place];
    let ours = dispatch! {
        OSSL_FUNC_SIGNATURE_NEWCTX => newctx, SignatureNewCtx;
        OSSL_FUNC_SIGNATURE_DUPCTX => dupctx, NewCtx;
        OSSL_FUNC_SIGNATURE_FREECTX => freectx, FreeCtx;
        OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT => digest_sign_init, SignatureDigestInit;
        OSSL_FUNC_SIGNATURE_DIGEST_SIGN => digest_sign, SignatureSign;
        OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT => digest_verify_init, SignatureDigestInit;
        OSSL_FUNC_SIGNATURE_DIGEST_VERIFY => digest_verify, SignatureVerify;
        OSSL_FUNC_SIGNATURE_SIGN_INIT => sign_init, KeyedInit;
        OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT => sign_message_init, KeyedInit;
        OSSL_FUNC_SIGNATURE_SIGN => sign, SignatureSign;
        OSSL_FUNC_SIGNATURE_VERIFY_INIT => verify_init, KeyedInit;
        OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT => verify_message_init, KeyedInit;
        OSSL_FUNC_SIGNATURE_VERIFY => verify, SignatureVerify;
        OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS => get_ctx_params, GetParams;
        OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS => gettable_ctx_params, GettableCtx;
        OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS => settable_ctx_params, GettableCtx;
    };
    super::provider::complete(theirs, &ours, &[abi::OSSL_FUNC_SIGNATURE_QUERY_KEY_TYPES])
}
