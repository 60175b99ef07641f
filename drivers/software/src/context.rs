//! AWS-LC's contexts: opaque, changed by every use, and copied with their keys.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use aws_lc_sys as lc;
use gantry::Fault;

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
}

impl<T: Object> Drop for Context<T> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it after this.
        unsafe { T::FREE(self.0.as_ptr()) }
    }
}

/// Contexts that threads borrow for one request each. Nobody waits: where all are in use, one more is made, and where all
/// places are taken when it comes back, it is dropped.
pub(crate) struct Pool<T: Object> {
    prototype: Context<T>,
    slots: [Slot<T>; 16],
}

/// On a cache line of its own, because each thread has its favourite.
#[repr(align(64))]
struct Slot<T>(AtomicPtr<T>);

impl<T: Object> Pool<T> {
    /// Every context of the pool is made as a copy of `prototype`.
    pub(crate) fn new(prototype: Context<T>) -> Self {
        Self { prototype, slots: std::array::from_fn(|_| Slot(AtomicPtr::new(ptr::null_mut()))) }
    }

    /// A context that nobody else has. It stands where the last one who had it left it.
    #[inline]
    pub(crate) fn take(&self) -> Result<Lease<'_, T>, Fault> {
        // `Acquire` here and `Release` in `put` hand over what the last thread wrote into it.
        let free = self.in_turn().find_map(|slot| NonNull::new(slot.swap(ptr::null_mut(), Ordering::Acquire)));
        let context = match free {
            Some(context) => Context(context),
            None => self.make().ok_or_else(|| failed("out of memory"))?,
        };
        Ok(Lease { pool: self, context: ManuallyDrop::new(context) })
    }

    /// A context that nobody else has, at the beginning, and to be kept.
    pub(crate) fn make(&self) -> Option<Context<T>> {
        self.prototype.duplicate()
    }

    #[inline]
    fn put(&self, context: Context<T>) {
        let context = ManuallyDrop::new(context);
        let free = self.in_turn().any(|slot| {
            slot.compare_exchange(ptr::null_mut(), context.0.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok()
        });
        if !free {
            drop(ManuallyDrop::into_inner(context));
        }
    }

    /// All slots, each thread from one of its own on, so that threads seldom meet.
    #[inline]
    fn in_turn(&self) -> impl Iterator<Item = &AtomicPtr<T>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let first = FIRST.with(|first| *first);
        (0..self.slots.len()).map(move |index| &self.slots[(first + index) % self.slots.len()].0)
    }
}

impl<T: Object> Drop for Pool<T> {
    fn drop(&mut self) {
        for Slot(slot) in &mut self.slots {
            if let Some(context) = NonNull::new(*slot.get_mut()) {
                drop(Context(context));
            }
        }
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
