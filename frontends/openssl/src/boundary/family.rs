//! What ciphers, key derivations, key exchange and signatures have in common: how a function that is told only its place finds the
//! host's, and contexts of ours, each with one of the host's in it.

use std::ffi::{c_int, c_void};
use std::{mem, ptr, slice};

use super::functions::{Common, Functions};
use super::provider::Provider;
use super::wrapped::Wrapped;
use super::{guard, stack};
use crate::abi::Param;
use crate::abi::fns::*;

/// The host's functions of an algorithm of one kind.
pub(crate) trait Family: Sized + 'static {
    /// The place of the kind among those that we serve.
    const KIND: usize;

    fn of(functions: &Functions) -> Option<&Self>;

    fn gettable_params(&self) -> Option<Gettable> {
        None
    }
}

/// A family whose algorithms are used through contexts.
pub(crate) trait Contexts: Family {
    /// What is known of a context beside the host's.
    type State: Clone;

    /// There is a key in it.
    const HAS_KEY: bool = false;

    fn common(&self) -> &Common;
}

/// A context of the host, and its functions. It is ours alone, and freed with this.
pub(crate) struct Host<F: Contexts> {
    context: *mut c_void,
    pub(super) functions: *const F,
}

// SAFETY: the host: a context belongs to no thread.
unsafe impl<F: Contexts> Send for Host<F> {}

impl<F: Contexts> Host<F> {
    /// A new one, which `begin` asks the host for with the host's own context.
    ///
    /// # Safety
    ///
    /// `begin` answers null, or with a context that nobody else has; ours: the provider owns the functions, and outlives this.
    pub(super) unsafe fn new(
        theirs: *mut c_void,
        functions: *const F,
        begin: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    ) -> Option<Self> {
        if theirs.is_null() {
            return None;
        }
        // SAFETY: as the caller promises.
        let context = begin(unsafe { &*functions }, theirs)?;
        (!context.is_null()).then_some(Self { context, functions })
    }

    pub(crate) fn duplicate(&self) -> Option<Self> {
        // SAFETY: the host, with its own context, of which it makes another one.
        unsafe {
            Self::new(self.context(), self.functions, |functions, context| Some(functions.common().dupctx?(context)))
        }
    }

    #[inline(always)]
    pub(super) fn context(&self) -> *mut c_void {
        self.context
    }

    pub(super) fn functions(&self) -> &F {
        // SAFETY: ours: the provider owns them, and outlives its contexts.
        unsafe { &*self.functions }
    }

    /// What it says of itself.
    ///
    /// # Safety
    ///
    /// The call, or a table of ours with its end, whose data has room.
    pub(super) unsafe fn get_params(&self, params: *mut Param) -> c_int {
        // SAFETY: the host, with what the caller promises.
        self.functions().common().get_ctx_params.map_or(0, |get| unsafe { get(self.context(), params) })
    }

    /// # Safety
    ///
    /// The call, or a table of ours with its end.
    pub(super) unsafe fn set_params(&self, params: *const Param) -> c_int {
        // SAFETY: the host, with what the caller promises.
        self.functions().common().set_ctx_params.map_or(0, |set| unsafe { set(self.context(), params) })
    }
}

impl<F: Contexts> Drop for Host<F> {
    fn drop(&mut self) {
        if let Some(freectx) = self.functions().common().freectx {
            // SAFETY: the host, with its own context, once.
            unsafe { freectx(self.context) };
        }
    }
}

/// What the core calls a context of an algorithm.
pub(super) struct Context<F: Contexts> {
    pub(super) host: Host<F>,
    wrapped: *const Wrapped,
    pub(super) straight: Straight,
    pub(super) state: F::State,
}

/// What went straight to the host. It is counted at the end of a message, when another one begins, or when it is [`MUCH`]: to look for the
/// counters of a thread takes longer than most calls have.
#[derive(Default)]
pub(super) struct Straight {
    /// The operation takes what the other one of its kind makes.
    pub(super) back: bool,
    calls: usize,
    bytes: usize,
}

/// Bytes that wait to be counted at most, so that a message without an end, or a context that nobody frees, is counted, too.
const MUCH: usize = 4096;

impl<F: Contexts> Context<F> {
    /// Counts what went straight to the host.
    #[inline(always)]
    pub(super) fn count_straight(&mut self) {
        if self.straight.calls > 0 {
            self.count_some();
        }
    }

    /// A call with so many bytes goes straight to the host.
    #[inline(always)]
    pub(super) fn goes_straight(&mut self, bytes: usize) {
        let Straight { calls, bytes: all, .. } = &mut self.straight;
        (*calls, *all) = (calls.wrapping_add(1), all.wrapping_add(bytes));
        if *all >= MUCH {
            self.count_some();
        }
    }

    #[inline(never)]
    fn count_some(&mut self) {
        let Straight { back, ref mut calls, ref mut bytes } = self.straight;
        let (calls, bytes) = (mem::take(calls), mem::take(bytes));
        // SAFETY: the provider owns it, and outlives its contexts.
        unsafe { &*self.wrapped }.hosts(usize::from(back), calls, bytes);
    }

    /// # Safety
    ///
    /// The call: what `newctx` or `dupctx` gave out.
    #[inline(always)]
    pub(super) unsafe fn of<'c>(context: *mut c_void) -> (&'c mut Self, &'c F, &'c Wrapped) {
        // SAFETY: as the caller promises; the provider owns the others, and outlives its contexts.
        unsafe {
            let this = context.cast::<Self>();
            let (functions, wrapped) = (&*(*this).host.functions, &*(*this).wrapped);
            (&mut *this, functions, wrapped)
        }
    }

    /// Made where it stays: what would be moved afterwards costs as much as all the rest of it.
    #[inline(always)]
    fn give(host: Host<F>, wrapped: &Wrapped, state: impl FnOnce() -> F::State) -> *mut c_void {
        let place = Box::<Self>::new_uninit();
        Box::into_raw(Box::write(place, Self { host, wrapped, straight: Straight::default(), state: state() })).cast()
    }
}

/// # Safety
///
/// The call: `provider` is what `OSSL_provider_init` gave out.
pub(super) unsafe fn functions<'p, F: Family>(provider: *mut c_void, place: usize) -> Option<(&'p Wrapped, &'p F)> {
    // SAFETY: as the caller promises.
    let wrapped = unsafe { Provider::wrapped(provider, F::KIND, place) }?;
    Some((wrapped, F::of(&wrapped.functions)?))
}

/// A context of ours around one of the host's, which `begin` asks for.
///
/// # Safety
///
/// The call: `provider` is what `OSSL_provider_init` gave out; `begin` as for [`Host::new`].
pub(super) unsafe fn new_context<F: Contexts>(
    provider: *mut c_void,
    place: usize,
    begin: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    state: impl FnOnce(&F, &Wrapped) -> F::State,
) -> *mut c_void {
    guard(ptr::null_mut(), || {
        let context = || {
            // SAFETY: as the caller promises.
            let (wrapped, functions) = unsafe { functions::<F>(provider, place) }?;
            // SAFETY: as the caller promises.
            let host = unsafe { Host::new(wrapped.default_ctx(), functions, begin) }?;
            Some(Context::give(host, wrapped, || state(functions, wrapped)))
        };
        context().unwrap_or(ptr::null_mut())
    })
}

pub(super) unsafe extern "C" fn dupctx<F: Contexts>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the call.
    let copy = unsafe { duplicate::<F>(context) };
    if F::HAS_KEY {
        // On its way into the copy, the key may have lain there.
        stack::wipe();
    }
    copy
}

/// # Safety
///
/// The call.
#[inline(never)]
unsafe fn duplicate<F: Contexts>(context: *mut c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { Context::<F>::of(context) };
        let copy = |host| Context::give(host, wrapped, || this.state.clone());
        this.host.duplicate().map_or(ptr::null_mut(), copy)
    })
}

pub(super) unsafe extern "C" fn freectx<F: Contexts>(context: *mut c_void) {
    guard((), || {
        if !context.is_null() {
            // SAFETY: ours: made by `newctx` or `dupctx`, and the core frees it once.
            unsafe { Box::from_raw(context.cast::<Context<F>>()) }.count_straight();
        }
    });
}

pub(super) unsafe extern "C" fn get_ctx_params<F: Contexts>(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the call.
    guard(0, || unsafe { Context::<F>::of(context).0.host.get_params(params) })
}

pub(super) unsafe extern "C" fn gettable_params<F: Family, const PLACE: usize>(provider: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<F>(provider, PLACE) else { return ptr::null() };
            functions.gettable_params().map_or(ptr::null(), |gettable| gettable(wrapped.default_ctx()))
        }
    })
}

pub(super) unsafe extern "C" fn gettable_ctx_params<F: Contexts, const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { ctx_params::<F>(context, provider, PLACE, |common| common.gettable_ctx_params) }
}

pub(super) unsafe extern "C" fn settable_ctx_params<F: Contexts, const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { ctx_params::<F>(context, provider, PLACE, |common| common.settable_ctx_params) }
}

/// # Safety
///
/// The call: a context of ours or null.
unsafe fn ctx_params<F: Contexts>(
    context: *mut c_void,
    provider: *mut c_void,
    place: usize,
    which: fn(&Common) -> Option<GettableCtx>,
) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own contexts.
        unsafe {
            let Some((wrapped, functions)) = functions::<F>(provider, place) else { return ptr::null() };
            let context = if context.is_null() { context } else { Context::<F>::of(context).0.host.context() };
            which(functions.common()).map_or(ptr::null(), |which| which(context, wrapped.default_ctx()))
        }
    })
}

/// The functions of each place, as `at` where it is used has them.
macro_rules! at_places {
    ($($place:literal)*) => { [$(at::<$place>()),*] };
}
pub(super) use at_places;

/// What a call brought to be read.
///
/// # Safety
///
/// The call: null, or `length` bytes that can be read for as long as the result lives.
pub(super) unsafe fn bytes<'c>(input: *const u8, length: usize) -> &'c [u8] {
    // SAFETY: as the caller promises.
    if length == 0 || input.is_null() { &[] } else { unsafe { slice::from_raw_parts(input, length) } }
}

/// Whether parameters say nothing.
///
/// # Safety
///
/// The call: null, or a table with its end.
pub(super) unsafe fn is_empty(params: *const Param) -> bool {
    // SAFETY: as the caller promises.
    params.is_null() || unsafe { (*params).key.is_null() }
}
