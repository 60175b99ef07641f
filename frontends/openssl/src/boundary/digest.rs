//! Digests: our entries, and the host's functions behind them.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use gantry_core::{Operation, SessionParams};

use super::core::{Table, dispatch, entry};
use super::family::{
    Common, Context, Contexts, Family, Host, Pieces, bytes, dupctx, freectx, functions, get_ctx_params,
    gettable_ctx_params, gettable_params, new_context, piece, settable_ctx_params,
};
use super::guard;
use super::wrapped::{Functions, Wrapped};
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::digest::Digesting;
use crate::framework::Done;
use crate::sizes::Sizes;
use crate::table::DIGESTS;

/// The host's functions of one algorithm.
pub(crate) struct DigestFns {
    newctx: Option<NewCtx>,
    init: Option<SetParams>,
    update: Option<Update>,
    finish: Option<Final>,
    digest: Option<DigestDigest>,
    copyctx: Option<CopyCtx>,
    gettable_params: Option<Gettable>,
    common: Common,
    squeeze: Option<Final>,
    serialize: Option<Serialize>,
    deserialize: Option<Update>,
}

impl DigestFns {
    pub(super) fn new(table: Table) -> Self {
        Self {
            newctx: entry!(table, OSSL_FUNC_DIGEST_NEWCTX, NewCtx),
            init: entry!(table, OSSL_FUNC_DIGEST_INIT, SetParams),
            update: entry!(table, OSSL_FUNC_DIGEST_UPDATE, Update),
            finish: entry!(table, OSSL_FUNC_DIGEST_FINAL, Final),
            digest: entry!(table, OSSL_FUNC_DIGEST_DIGEST, DigestDigest),
            copyctx: entry!(table, OSSL_FUNC_DIGEST_COPYCTX, CopyCtx),
            gettable_params: entry!(table, OSSL_FUNC_DIGEST_GETTABLE_PARAMS, Gettable),
            common: Common {
                dupctx: entry!(table, OSSL_FUNC_DIGEST_DUPCTX, NewCtx),
                freectx: entry!(table, OSSL_FUNC_DIGEST_FREECTX, FreeCtx),
                get_ctx_params: entry!(table, OSSL_FUNC_DIGEST_GET_CTX_PARAMS, GetParams),
                set_ctx_params: entry!(table, OSSL_FUNC_DIGEST_SET_CTX_PARAMS, SetParams),
                gettable_ctx_params: entry!(table, OSSL_FUNC_DIGEST_GETTABLE_CTX_PARAMS, GettableCtx),
                settable_ctx_params: entry!(table, OSSL_FUNC_DIGEST_SETTABLE_CTX_PARAMS, GettableCtx),
            },
            squeeze: entry!(table, OSSL_FUNC_DIGEST_SQUEEZE, Final),
            serialize: entry!(table, OSSL_FUNC_DIGEST_SERIALIZE, Serialize),
            deserialize: entry!(table, OSSL_FUNC_DIGEST_DESERIALIZE, Update),
        }
    }
}

/// A digest of the host: of a message that is signed with it, or of the device that the host is.
pub(crate) type HostDigest = Host<DigestFns>;

impl HostDigest {
    pub(super) fn begin(functions: &DigestFns, theirs: *mut c_void) -> Option<Self> {
        // SAFETY: the host, with its own context; ours: the provider owns the functions.
        let this = unsafe { Self::new(theirs, functions, begin) }?;
        this.init().then_some(this)
    }

    fn init(&self) -> bool {
        // SAFETY: the host, with its own context.
        self.functions().init.is_some_and(|init| unsafe { init(self.context(), ptr::null()) == 1 })
    }

    /// Digests a message from its beginning to its end: the digest, and its length.
    pub(crate) fn whole(&mut self, message: &[u8]) -> Option<([u8; LONGEST], usize)> {
        // SAFETY: a slice to read.
        let good = self.init() && unsafe { self.update(message.as_ptr(), message.len()) } == 1;
        good.then(|| self.finish())?
    }

    /// # Safety
    ///
    /// The call: `length` bytes that can be read.
    pub(super) unsafe fn update(&self, input: *const u8, length: usize) -> c_int {
        // SAFETY: the host, with what the caller promises.
        self.functions().update.map_or(0, |update| unsafe { update(self.context(), input, length) })
    }

    /// The end: the digest, and its length.
    pub(super) fn finish(&self) -> Option<([u8; LONGEST], usize)> {
        let (mut digest, mut length) = ([0; LONGEST], 0);
        // SAFETY: the host, with its own context and room for any digest.
        let good =
            unsafe { self.functions().finish?(self.context(), digest.as_mut_ptr(), &raw mut length, LONGEST) } == 1;
        (good && length <= LONGEST).then_some((digest, length))
    }
}

/// A digest algorithm of the host, for contexts that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostDigests {
    theirs: *mut c_void,
    wrapped: *const Wrapped,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostDigests {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostDigests {}

impl HostDigests {
    pub(crate) fn new(wrapped: &Wrapped) -> Option<Self> {
        let theirs = wrapped.default_ctx();
        let is_digest = matches!(wrapped.functions, Functions::Digest(_));
        (is_digest && !theirs.is_null()).then_some(Self { theirs, wrapped })
    }

    /// A context for any number of messages.
    pub(crate) fn context(&self) -> Option<HostDigest> {
        // SAFETY: ours: the provider owns it, and outlives its framework.
        let functions = DigestFns::of(unsafe { &(*self.wrapped).functions })?;
        HostDigest::begin(functions, self.theirs)
    }
}

/// EVP_MAX_MD_SIZE.
const LONGEST: usize = 64;

/// What the core calls `dctx`.
type DigestCtx = Context<DigestFns>;

impl DigestCtx {
    /// Where the next piece goes at once.
    fn settle(&mut self, wrapped: &Wrapped) {
        self.state.elsewhere = self.state.message.elsewhere(wrapped, wrapped.algorithm());
    }
}

/// Asks the host for a context, with its own.
fn begin(functions: &DigestFns, theirs: *mut c_void) -> Option<*mut c_void> {
    // SAFETY: the host, with its own context.
    functions.newctx.map(|newctx| unsafe { newctx(theirs) })
}

unsafe extern "C" fn newctx<const PLACE: usize>(provider: *mut c_void) -> *mut c_void {
    let state = |_: &DigestFns, wrapped: &Wrapped| {
        // Nothing is asked before the initialisation, which follows.
        Pieces::new(Digesting::default(), if wrapped.watches() { Sizes::ALL } else { Sizes::NONE })
    };
    // SAFETY: the call.
    unsafe { new_context(provider, PLACE, begin, state) }
}

unsafe extern "C" fn copyctx(to: *mut c_void, from: *mut c_void) {
    guard((), || {
        // SAFETY: the call: both are of the same algorithm.
        let ((to, functions, _), (from, ..)) = unsafe { (DigestCtx::of(to), DigestCtx::of(from)) };
        if let Some(copyctx) = functions.copyctx {
            // SAFETY: the host, with its own contexts.
            unsafe { copyctx(to.host.context(), from.host.context()) };
            to.state = from.state.clone();
        }
    });
}

unsafe extern "C" fn init(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        this.count_straight();
        // SAFETY: the host, with what the call brought.
        let result = functions.init.map_or(0, |init| unsafe { init(this.host.context(), params) });
        if result == 1 {
            this.state.fresh = true;
            this.state.message.begin();
        } else {
            this.state.message.leave();
        }
        this.settle(wrapped);
        result
    })
}

unsafe extern "C" fn update(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    // SAFETY: the call.
    unsafe { piece(context, input, length, |functions: &DigestFns| functions.update, ours) }
}

/// # Safety
///
/// The call.
#[inline(never)]
unsafe extern "C" fn ours(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let ((this, functions, wrapped), slice) = unsafe { (DigestCtx::of(context), bytes(input, length)) };
        if wrapped.fails() {
            return 0;
        }
        let Some(algorithm) = wrapped.algorithm() else { return 0 };
        let params = || SessionParams::new(algorithm, &[]);
        let result = match this.state.message.update(wrapped, algorithm, params, slice, this.state.fresh) {
            Done::Good => 1,
            Done::Bad => 0,
            Done::Host => {
                this.state.fresh &= length == 0;
                // SAFETY: the host, with what the call brought.
                functions.update.map_or(0, |update| unsafe { update(this.host.context(), input, length) })
            }
        };
        this.settle(wrapped);
        result
    })
}

unsafe extern "C" fn finish(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    let this = context.cast::<DigestCtx>();
    // SAFETY: the call, and the host with what it brought. Nothing here can panic.
    unsafe {
        // What is not the host's, or is counted, is looked at piece by piece, whatever its size.
        if (*this).state.elsewhere != Sizes::ALL
            && let Some(finish) = (*(*this).host.functions).finish
        {
            // Nothing follows.
            (*this).state.fresh = false;
            (*this).count_straight();
            return finish((*this).host.context(), output, written, room);
        }
    }
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        if wrapped.fails() {
            return 0;
        }
        this.count_straight();
        let size = wrapped.algorithm().map_or(0, |algorithm| algorithm.info().tag.max);
        if size <= room && !output.is_null() {
            // SAFETY: the call: there is room for as many bytes.
            let place = unsafe { slice::from_raw_parts_mut(output, size) };
            match this.state.message.finish(wrapped, &[], place) {
                Done::Good => {
                    // SAFETY: the call.
                    unsafe { *written = size };
                    return 1;
                }
                Done::Bad => return 0,
                Done::Host => {}
            }
        }
        // SAFETY: the host, with what the call brought.
        functions.finish.map_or(0, |finish| unsafe { finish(this.host.context(), output, written, room) })
    })
}

unsafe extern "C" fn squeeze(context: *mut c_void, output: *mut u8, written: *mut usize, room: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let host =
            || functions.squeeze.map_or(0, |squeeze| unsafe { squeeze(this.host.context(), output, written, room) });
        if wrapped.fails() || !this.state.message.leave() { 0 } else { host() }
    })
}

/// A message in one call, without a context.
unsafe extern "C" fn digest<const PLACE: usize>(
    provider: *mut c_void,
    input: *const u8,
    length: usize,
    output: *mut u8,
    written: *mut usize,
    room: usize,
) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let Some((wrapped, functions)) = (unsafe { functions::<DigestFns>(provider, PLACE) }) else { return 0 };
        let Some(digest) = functions.digest.filter(|_| !wrapped.fails()) else { return 0 };
        wrapped.hosts(Operation::Digest.index(), 1, length);
        // SAFETY: the host, with its own context and what the call brought.
        unsafe { digest(wrapped.default_ctx(), input, length, output, written, room) }
    })
}

/// What can be set (how SSL 3 ends a message, how long an output is) only the host understands.
unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { DigestCtx::of(context) };
        if !this.state.message.leave() {
            return 0;
        }
        this.settle(wrapped);
        // SAFETY: the call.
        unsafe { this.host.set_params(params) }
    })
}

unsafe extern "C" fn serialize(context: *mut c_void, output: *mut u8, written: *mut usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let host =
            || functions.serialize.map_or(0, |serialize| unsafe { serialize(this.host.context(), output, written) });
        // The state of a message on a device has no form that the host could read.
        if this.state.message.is_hosts() { host() } else { 0 }
    })
}

unsafe extern "C" fn deserialize(context: *mut c_void, input: *const u8, length: usize) -> c_int {
    guard(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { DigestCtx::of(context) };
        // SAFETY: the host, with what the call brought.
        let result =
            functions.deserialize.map_or(0, |deserialize| unsafe { deserialize(this.host.context(), input, length) });
        if result == 1 {
            this.state.message = Digesting::default();
            this.settle(wrapped);
        }
        result
    })
}

impl Family for DigestFns {
    const KIND: usize = 0;

    fn of(functions: &Functions) -> Option<&Self> {
        if let Functions::Digest(functions) = functions { Some(functions) } else { None }
    }

    fn gettable_params(&self) -> Option<Gettable> {
        self.gettable_params
    }
}

impl Contexts for DigestFns {
    type State = Pieces<Digesting>;

    fn common(&self) -> &Common {
        &self.common
    }
}

/// Functions that are told only their place in our table.
struct AtPlace {
    newctx: NewCtx,
    digest: DigestDigest,
    gettable_params: Gettable,
    gettable_ctx_params: GettableCtx,
    settable_ctx_params: GettableCtx,
}

const fn at<const PLACE: usize>() -> AtPlace {
    AtPlace {
        newctx: newctx::<PLACE>,
        digest: digest::<PLACE>,
        gettable_params: gettable_params::<DigestFns, PLACE>,
        gettable_ctx_params: gettable_ctx_params::<DigestFns, PLACE>,
        settable_ctx_params: settable_ctx_params::<DigestFns, PLACE>,
    }
}

macro_rules! at_places {
    ($($place:literal)*) => { [$(at::<$place>()),*] };
}

static AT: [AtPlace; DIGESTS.len()] = at_places!(0 1 2 3 4 5 6 7 8 9 10 11);

/// Our table for an algorithm: what the host has of it.
pub(super) fn dispatch(theirs: Table, place: usize) -> Vec<Dispatch> {
    let at = &AT[place];
    let ours = dispatch! {
        OSSL_FUNC_DIGEST_NEWCTX => at.newctx, NewCtx;
        OSSL_FUNC_DIGEST_INIT => init, SetParams;
        OSSL_FUNC_DIGEST_UPDATE => update, Update;
        OSSL_FUNC_DIGEST_FINAL => finish, Final;
        OSSL_FUNC_DIGEST_DIGEST => at.digest, DigestDigest;
        OSSL_FUNC_DIGEST_FREECTX => freectx::<DigestFns>, FreeCtx;
        OSSL_FUNC_DIGEST_DUPCTX => dupctx::<DigestFns>, NewCtx;
        OSSL_FUNC_DIGEST_COPYCTX => copyctx, CopyCtx;
        OSSL_FUNC_DIGEST_GET_CTX_PARAMS => get_ctx_params::<DigestFns>, GetParams;
        OSSL_FUNC_DIGEST_SET_CTX_PARAMS => set_ctx_params, SetParams;
        OSSL_FUNC_DIGEST_GETTABLE_PARAMS => at.gettable_params, Gettable;
        OSSL_FUNC_DIGEST_GETTABLE_CTX_PARAMS => at.gettable_ctx_params, GettableCtx;
        OSSL_FUNC_DIGEST_SETTABLE_CTX_PARAMS => at.settable_ctx_params, GettableCtx;
        OSSL_FUNC_DIGEST_SQUEEZE => squeeze, Final;
        OSSL_FUNC_DIGEST_SERIALIZE => serialize, Serialize;
        OSSL_FUNC_DIGEST_DESERIALIZE => deserialize, Update;
    };
    super::core::complete(theirs, &ours, &[crate::abi::OSSL_FUNC_DIGEST_GET_PARAMS])
}
