//! AWS-LC's contexts: opaque, changed by every use, and copied with their keys.

use std::ffi::c_int;
use std::mem::{self, ManuallyDrop};
use std::ops::ControlFlow;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use aws_lc_sys as lc;
use gantry::Fault;
use once_cell::race::OnceBox;

use crate::session::failed;

/// A type of context, with its three functions.
///
/// # Safety
///
/// `NEW` gives a context or null; `COPY` reads its second argument and makes the first one equal to it; `FREE` overwrites
/// and releases. A context is not tied to the thread that made it.
pub(crate) unsafe trait Object {
    const NEW: unsafe extern "C" fn() -> *mut Self;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int;
    const FREE: unsafe extern "C" fn(*mut Self);
}

// SAFETY: digest.h. Memory of AWS-LC is overwritten by OPENSSL_free.
unsafe impl Object for lc::EVP_MD_CTX {
    const NEW: unsafe extern "C" fn() -> *mut Self = lc::EVP_MD_CTX_new;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int = lc::EVP_MD_CTX_copy_ex;
    const FREE: unsafe extern "C" fn(*mut Self) = lc::EVP_MD_CTX_free;
}

// SAFETY: cipher.h. Memory of AWS-LC is overwritten by OPENSSL_free.
unsafe impl Object for lc::EVP_CIPHER_CTX {
    const NEW: unsafe extern "C" fn() -> *mut Self = lc::EVP_CIPHER_CTX_new;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int = lc::EVP_CIPHER_CTX_copy;
    const FREE: unsafe extern "C" fn(*mut Self) = lc::EVP_CIPHER_CTX_free;
}

// SAFETY: cmac.h. Memory of AWS-LC is overwritten by OPENSSL_free.
unsafe impl Object for lc::CMAC_CTX {
    const NEW: unsafe extern "C" fn() -> *mut Self = lc::CMAC_CTX_new;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int = lc::CMAC_CTX_copy;
    const FREE: unsafe extern "C" fn(*mut Self) = lc::CMAC_CTX_free;
}

/// A context of our own.
pub(crate) struct Context<T: Object>(NonNull<T>);

// SAFETY: `Object` promises that contexts can change threads.
unsafe impl<T: Object> Send for Context<T> {}
// SAFETY: a shared context is only ever read, by `duplicate`; `as_mut_ptr` needs it exclusively.
unsafe impl<T: Object> Sync for Context<T> {}

impl<T: Object> Context<T> {
    /// Nothing in it yet; `None` when memory ran out.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: without conditions.
        NonNull::new(unsafe { T::NEW() }).map(Self)
    }

    /// A second one that stands where this one does; `None` when memory ran out.
    pub(crate) fn duplicate(&self) -> Option<Self> {
        let copy = Self::new()?;
        // SAFETY: both are alive, and the copy is nobody else's.
        (unsafe { T::COPY(copy.0.as_ptr(), self.0.as_ptr()) } == 1).then_some(copy)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.0.as_ptr()
    }

    fn into_raw(self) -> *mut T {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl<T: Object> Drop for Context<T> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it after this.
        unsafe { T::FREE(self.0.as_ptr()) }
    }
}

/// Contexts that threads borrow for one request each. Nobody waits for a context: where all are in use, one more is made, and
/// where all places are taken when it comes back, it is dropped.
pub(crate) struct Pool<T: Object> {
    /// Most sessions are one thread's, and it is all that they need.
    first: Slot<T>,
    /// From the first time on that two contexts were in use.
    others: OnceBox<[Padded<T>; 16]>,
}

/// On a cache line of its own, because each thread has its favourite.
#[repr(align(64))]
struct Padded<T: Object>(Slot<T>);

impl<T: Object> Pool<T> {
    /// Of one context, if there is one already.
    pub(crate) fn new(context: Option<Context<T>>) -> Self {
        Self { first: Slot::new(context), others: OnceBox::new() }
    }

    /// A context that nobody else has: a new one, or one that stands where the last one who had it left it.
    #[inline]
    pub(crate) fn take(&self, make: impl FnOnce() -> Option<Context<T>>) -> Result<Lease<'_, T>, Fault> {
        let free = self.others.get().and_then(|others| in_turn(others).find_map(Slot::take));
        let context = free.or_else(|| self.first.take()).or_else(make).ok_or_else(|| failed("out of memory"))?;
        Ok(Lease { pool: self, context: ManuallyDrop::new(context) })
    }

    #[inline]
    fn put(&self, context: Context<T>) {
        let left = match self.others.get() {
            None => self.first.put(context),
            Some(_) => Err(context),
        };
        if let Err(context) = left {
            self.put_among_others(context);
        }
    }

    fn put_among_others(&self, context: Context<T>) {
        let others = self.others.get_or_init(|| Box::new(std::array::from_fn(|_| Padded(Slot::new(None)))));
        // Who finds no place is dropped at the end.
        let _ = in_turn(others).try_fold(context, |context, slot| match slot.put(context) {
            Ok(()) => ControlFlow::Break(()),
            Err(context) => ControlFlow::Continue(context),
        });
    }
}

/// All slots, each thread from one of its own on, so that threads seldom meet.
#[inline]
fn in_turn<T: Object>(slots: &[Padded<T>; 16]) -> impl Iterator<Item = &Slot<T>> {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    let first = FIRST.with(|first| *first);
    (0..slots.len()).map(move |index| &slots[(first + index) % slots.len()].0)
}

/// A place for one context, or null.
struct Slot<T: Object>(AtomicPtr<T>);

impl<T: Object> Slot<T> {
    fn new(context: Option<Context<T>>) -> Self {
        Self(AtomicPtr::new(context.map_or(ptr::null_mut(), Context::into_raw)))
    }

    /// `Acquire` here and `Release` in `put` hand over what the last thread wrote into the context.
    #[inline]
    fn take(&self) -> Option<Context<T>> {
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::Acquire)).map(Context)
    }

    /// Gives it back where there is one already.
    #[inline]
    fn put(&self, context: Context<T>) -> Result<(), Context<T>> {
        let at = context.0.as_ptr();
        match self.0.compare_exchange(ptr::null_mut(), at, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                mem::forget(context);
                Ok(())
            }
            Err(_) => Err(context),
        }
    }
}

impl<T: Object> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A context out of the pool, which goes back when this is dropped.
pub(crate) struct Lease<'p, T: Object> {
    pool: &'p Pool<T>,
    context: ManuallyDrop<Context<T>>,
}

impl<T: Object> Lease<'_, T> {
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.context.as_mut_ptr()
    }
}

impl<T: Object> Drop for Lease<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `context` is not used after this.
        self.pool.put(unsafe { ManuallyDrop::take(&mut self.context) });
    }
}
