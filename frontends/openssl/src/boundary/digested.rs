//! Signatures of digests, ECDSA and RSA: our entries beside those of all signatures.
//!
//! Devices sign digests. Where the host would digest a message inside its own context, out of which no digest comes, a second
//! context of the host does it, one of a digest; and where it is then the host that is to sign, it is told that from now on its
//! own context signs digests. So the message is digested once, whoever signs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::{ptr, slice};

use gantry_core::driver::Operands;
use gantry_core::{Algorithm, Operation, Outcome};

use super::digest::HostDigest;
use super::family::{Host, bytes, is_empty};
use super::guard;
use super::keys::KeyData;
use super::params::{self, Answers};
use super::rsa::{self, Padding};
use super::signature::{SignatureCtx, SignatureFns, Signer};
use super::wrapped::Wrapped;
use crate::abi::Param;
use crate::abi::fns::*;
use crate::der;
use crate::framework::Side;
use crate::pair::{self, Pair};
use crate::table::Mode;

/// What a context is at, beside its key.
#[derive(Clone, Default)]
pub(super) struct Digested {
    /// Something was said that only the host understands, such as where its random numbers come from: it signs, for good.
    hosts: bool,
    takes: Takes,
    message: Message,
}

/// What is signed as devices sign it.
#[derive(Clone, Copy)]
enum Takes {
    /// ECDSA: digests of so many bytes; 0 for any number.
    Bytes(usize),
    /// RSA: what suits the padding, under a key with a modulus of so many bytes.
    Padded(Padding, usize),
}

impl Default for Takes {
    fn default() -> Self {
        Takes::Bytes(0)
    }
}

/// A message that comes in pieces.
#[derive(Default)]
enum Message {
    /// The host digests it, or there is none.
    #[default]
    Hosts,
    Ours(HostDigest),
    /// It has ended, or could not be copied.
    Ended,
}

impl Clone for Message {
    fn clone(&self) -> Self {
        match self {
            Message::Hosts => Message::Hosts,
            Message::Ours(digest) => digest.duplicate().map_or(Message::Ended, Message::Ours),
            Message::Ended => Message::Ended,
        }
    }
}

impl Digested {
    /// Properties say which digests may be used: the host asks for those.
    pub(super) fn new(properties: *const c_char) -> Self {
        Self { hosts: !properties.is_null(), ..Self::default() }
    }

    /// After the host has been told something.
    ///
    /// # Safety
    ///
    /// The call: null, or a table with its end.
    unsafe fn told(&mut self, mode: Mode, key: Option<&KeyData>, host: &Host<SignatureFns>, params: *const Param) {
        // SAFETY: as the caller promises.
        let said = unsafe { Answers::new(params) };
        let (understood, takes) = if mode == Mode::Rsa {
            let takes = Padding::of(host).map(|padding| Takes::Padded(padding, key.map_or(0, KeyData::size)));
            (said.of(rsa::TOLD).1, takes)
        } else {
            // SAFETY: the host, with a table of ours.
            let size = params::number(c"digest-size", |table| unsafe { host.get_params(table) });
            (said.of([c"digest", c"digest-size"]).1, size.map(Takes::Bytes))
        };
        self.hosts |= !understood || takes.is_none();
        self.takes = takes.unwrap_or_default();
    }

    /// Bytes of a digest of the function that the host was told; 0 where that is not known.
    fn size(&self) -> usize {
        match self.takes {
            Takes::Bytes(size) => size,
            Takes::Padded(padding, _) => padding.digest_size(),
        }
    }

    /// What a device is to do with a digest of so many bytes; `None` where only the host does as it was told.
    fn algorithm(&self, wrapped: &Wrapped, operation: Operation, bytes: usize) -> Option<Algorithm> {
        match self.takes {
            _ if self.hosts => None,
            Takes::Bytes(size) => wrapped.algorithm().filter(|_| size == 0 || size == bytes),
            Takes::Padded(padding, modulus) => padding.algorithm(modulus, operation, bytes),
        }
    }

    /// Has the host's context, which was to digest a message, take digests from now on. Whether it does.
    fn take_digests(&self, init: Option<KeyedInit>, host: &Host<SignatureFns>) -> bool {
        let begin = |params| {
            // SAFETY: the host, with its own context, which has its key, and a table with its end or none.
            init.is_some_and(|init| unsafe { init(host.context(), ptr::null_mut(), params) } == 1)
        };
        match self.takes {
            Takes::Bytes(_) => begin(ptr::null()),
            // It would forget them.
            Takes::Padded(padding, _) => padding.say(begin),
        }
    }
}

/// Whether another device has signed it.
///
/// # Safety
///
/// The call: null, or room for so many bytes.
unsafe fn sign_digest(
    this: &SignatureCtx,
    wrapped: &Wrapped,
    digest: &[u8],
    (signature, written, room): (*mut u8, *mut usize, usize),
) -> bool {
    let state = &this.state;
    let Some(algorithm) = state.digested.algorithm(wrapped, Operation::Sign, digest.len()) else {
        wrapped.count(Operation::Sign, Side::Host, digest.len());
        return false;
    };
    let sign = |output: &mut [u8]| {
        state.elsewhere(wrapped, algorithm, Operands::Sign { input: digest, output }) == Some(Outcome::Done)
    };
    let size = algorithm.info().tag.max;
    if wrapped.row().mode == Mode::Rsa {
        // SAFETY: as the caller promises.
        let good = room >= size && sign(unsafe { slice::from_raw_parts_mut(signature, size) });
        if good {
            // SAFETY: as the caller promises.
            unsafe { *written = size };
        }
        return good;
    }
    let mut both = [0; 2 * pair::SIZE];
    // The host wants as much room, whatever it then needs.
    if room < der::LONGEST || !sign(&mut both) {
        return false;
    }
    let (der, length) = der::encode(&both);
    // SAFETY: as the caller promises; there is room for the longest one.
    unsafe {
        slice::from_raw_parts_mut(signature, length).copy_from_slice(&der[..length]);
        *written = length;
    }
    true
}

/// Whether it is good. What is not may yet be another thing than a bad signature, which the host says with its error.
fn verify_digest(this: &SignatureCtx, wrapped: &Wrapped, digest: &[u8], signature: &[u8]) -> bool {
    let Some(algorithm) = this.state.digested.algorithm(wrapped, Operation::Verify, digest.len()) else {
        wrapped.count(Operation::Verify, Side::Host, digest.len());
        return false;
    };
    let verify = |signature: &[u8]| {
        let operands = Operands::Verify { input: digest, signature };
        this.state.elsewhere(wrapped, algorithm, operands) == Some(Outcome::Done)
    };
    match wrapped.row().mode {
        Mode::Rsa => verify(signature),
        _ => der::decode(signature).is_some_and(|both| verify(&both)),
    }
}

/// # Safety
///
/// The call. `init` is one of the host's functions that give a context a key; with `message`, for an operation and a digest.
unsafe fn keyed(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
    message: Option<(Operation, *const c_char)>,
    init: impl FnOnce(&SignatureFns, *mut c_void, *mut c_void) -> Option<c_int>,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, wrapped), key) = unsafe { (SignatureCtx::of(context), KeyData::hold(key)) };
        let host = key.as_ref().map_or(ptr::null_mut(), |key| key.host());
        let result = init(functions, this.host.context(), host).unwrap_or(0);
        // Without a key it is the one from before.
        let key = key.or_else(|| this.state.key.take()).filter(|_| result == 1);
        let mode = wrapped.row().mode;
        // SAFETY: the call.
        unsafe { this.state.digested.told(mode, key.as_deref(), &this.host, params) };
        let ours = || {
            let (operation, name) = message.filter(|(_, name)| !name.is_null())?;
            let digested = &this.state.digested;
            let algorithm = digested.algorithm(wrapped, operation, digested.size())?;
            // A key of which nothing is known is on another curve.
            if !Pair::may_go(wrapped, algorithm, operation) || !key.as_ref()?.raw()?.has_any() {
                return None;
            }
            // SAFETY: the call: a string.
            wrapped.host_digest(unsafe { CStr::from_ptr(name) })
        };
        this.state.digested.message = ours().map_or(Message::Hosts, Message::Ours);
        this.state.key = key;
        result
    })
}

pub(super) unsafe extern "C" fn init<const SIGN: bool>(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    unsafe {
        keyed(context, key, params, None, |functions, context, key| {
            Some(functions.beginning::<SIGN>().init?(context, key, params))
        })
    }
}

/// For the host, which gives back what was signed.
pub(super) unsafe extern "C" fn recover_init(context: *mut c_void, key: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    unsafe {
        keyed(context, key, params, None, |functions, context, key| {
            Some(functions.verify_recover_init?(context, key, params))
        })
    }
}

pub(super) unsafe extern "C" fn recover(
    context: *mut c_void,
    output: *mut u8,
    written: *mut usize,
    room: usize,
    signature: *const u8,
    size: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call, and the host with what it brought.
        unsafe {
            let (this, functions, _) = SignatureCtx::of(context);
            let recover = functions.verify_recover;
            recover.map_or(0, |recover| recover(this.host.context(), output, written, room, signature, size))
        }
    })
}

pub(super) unsafe extern "C" fn digest_init<const SIGN: bool>(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    let operation = if SIGN { Operation::Sign } else { Operation::Verify };
    // SAFETY: the call, and the host with what it brought.
    unsafe {
        keyed(context, key, params, Some((operation, digest)), |functions, context, key| {
            Some(functions.beginning::<SIGN>().digest_init?(context, digest, key, params))
        })
    }
}

pub(super) unsafe extern "C" fn digest_update<const SIGN: bool>(
    context: *mut c_void,
    input: *const u8,
    length: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call, and the host with what it brought.
        unsafe {
            let (this, functions, _) = SignatureCtx::of(context);
            match &this.state.digested.message {
                Message::Hosts => {
                    let update = functions.beginning::<SIGN>().digest_update;
                    update.map_or(0, |update| update(this.host.context(), input, length))
                }
                Message::Ours(digest) => digest.update(input, length),
                Message::Ended => 0,
            }
        }
    })
}

pub(super) unsafe extern "C" fn digest_sign_final(
    context: *mut c_void,
    signature: *mut u8,
    written: *mut usize,
    room: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { SignatureCtx::of(context) };
        let at_host = || {
            // SAFETY: the host, with what the call brought.
            functions.digest_sign_final.map_or(0, |sign| unsafe { sign(this.host.context(), signature, written, room) })
        };
        // Without a place for the signature this only asks for its length.
        if signature.is_null() {
            return at_host();
        }
        if wrapped.fails() {
            return 0;
        }
        match std::mem::replace(&mut this.state.digested.message, Message::Ended) {
            Message::Ours(digest) => {
                let Some((digest, length)) = digest.finish() else { return 0 };
                let digest = &digest[..length];
                // SAFETY: the call; the host, with its own context, what the call brought, and a digest.
                unsafe {
                    if sign_digest(this, wrapped, digest, (signature, written, room)) {
                        return 1;
                    }
                    if this.state.digested.take_digests(functions.to_sign.init, &this.host) {
                        this.host.sign((signature, written, room), (digest.as_ptr(), length))
                    } else {
                        0
                    }
                }
            }
            Message::Hosts => {
                this.state.digested.message = Message::Hosts;
                wrapped.count(Operation::Sign, Side::Host, 0);
                at_host()
            }
            Message::Ended => 0,
        }
    })
}

pub(super) unsafe extern "C" fn digest_verify_final(context: *mut c_void, signature: *const u8, size: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { SignatureCtx::of(context) };
        if wrapped.fails() {
            return 0;
        }
        match std::mem::replace(&mut this.state.digested.message, Message::Ended) {
            Message::Ours(digest) => {
                let Some((digest, length)) = digest.finish() else { return 0 };
                // SAFETY: the call.
                if verify_digest(this, wrapped, &digest[..length], unsafe { bytes(signature, size) }) {
                    return 1;
                }
                // SAFETY: the host, with its own context, what the call brought, and a digest.
                unsafe {
                    if this.state.digested.take_digests(functions.to_verify.init, &this.host) {
                        this.host.verify((signature, size), (digest.as_ptr(), length))
                    } else {
                        0
                    }
                }
            }
            Message::Hosts => {
                this.state.digested.message = Message::Hosts;
                wrapped.count(Operation::Verify, Side::Host, 0);
                // SAFETY: the host, with what the call brought.
                functions
                    .digest_verify_final
                    .map_or(0, |verify| unsafe { verify(this.host.context(), signature, size) })
            }
            Message::Ended => 0,
        }
    })
}

pub(super) unsafe extern "C" fn sign(
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
        if !signature.is_null() {
            if wrapped.fails() {
                return 0;
            }
            // SAFETY: the call.
            if unsafe { sign_digest(this, wrapped, bytes(input, length), (signature, written, room)) } {
                return 1;
            }
        }
        // SAFETY: the call.
        unsafe { this.host.sign((signature, written, room), (input, length)) }
    })
}

pub(super) unsafe extern "C" fn verify(
    context: *mut c_void,
    signature: *const u8,
    size: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { SignatureCtx::of(context) };
        if wrapped.fails() {
            return 0;
        }
        // SAFETY: the call.
        let good = unsafe { verify_digest(this, wrapped, bytes(input, length), bytes(signature, size)) };
        if good {
            return 1;
        }
        // SAFETY: the call.
        unsafe { this.host.verify((signature, size), (input, length)) }
    })
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        unsafe {
            let (this, _, wrapped) = SignatureCtx::of(context);
            let result = this.host.set_params(params);
            let Signer { key, digested, .. } = &mut this.state;
            digested.told(wrapped.row().mode, key.as_deref(), &this.host, params);
            result
        }
    })
}

pub(super) unsafe extern "C" fn set_ctx_md_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call, and the host with what it brought.
        unsafe {
            let (this, functions, _) = SignatureCtx::of(context);
            let result = functions.set_ctx_md_params.map_or(0, |set| set(this.host.context(), params));
            match &this.state.digested.message {
                Message::Ours(digest) if result == 1 && !is_empty(params) => digest.set_params(params),
                _ => result,
            }
        }
    })
}

pub(super) unsafe extern "C" fn get_ctx_md_params(context: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call, and the host with what it brought.
        unsafe {
            let (this, functions, _) = SignatureCtx::of(context);
            functions.get_ctx_md_params.map_or(0, |get| get(this.host.context(), params))
        }
    })
}

pub(super) unsafe extern "C" fn gettable_ctx_md_params(context: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call, and the host with its own context.
        unsafe {
            let (this, functions, _) = SignatureCtx::of(context);
            functions.gettable_ctx_md_params.map_or(ptr::null(), |gettable| gettable(this.host.context()))
        }
    })
}

pub(super) unsafe extern "C" fn settable_ctx_md_params(context: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call, and the host with its own context.
        unsafe {
            let (this, functions, _) = SignatureCtx::of(context);
            functions.settable_ctx_md_params.map_or(ptr::null(), |settable| settable(this.host.context()))
        }
    })
}
