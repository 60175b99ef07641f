//! AWS-LC's contexts: opaque objects that every use changes, and that are copied with their keys.

use std::ffi::c_int;
use std::mem::{self, ManuallyDrop};
use std::ops::ControlFlow;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use aws_lc_sys as lc;
use gantry_core::Fault;
use once_cell::race::OnceBox;

use crate::session::failed_call;

/// A type of context, with its functions.
///
/// # Safety
///
/// `NEW` returns a context or null. `COPY` reads its second argument and makes the first one equal to it. `FREE` overwrites the context and
/// releases it. A context is not tied to the thread that made it.
pub(crate) unsafe trait RawContext {
    const NEW: unsafe extern "C" fn() -> *mut Self;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int;
    const FREE: unsafe extern "C" fn(*mut Self);
}

// SAFETY: the functions do this according to digest.h. Memory of AWS-LC is overwritten by OPENSSL_free.
unsafe impl RawContext for lc::EVP_MD_CTX {
    const NEW: unsafe extern "C" fn() -> *mut Self = lc::EVP_MD_CTX_new;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int = lc::EVP_MD_CTX_copy_ex;
    const FREE: unsafe extern "C" fn(*mut Self) = lc::EVP_MD_CTX_free;
}

// SAFETY: the functions do this according to cipher.h. Memory of AWS-LC is overwritten by OPENSSL_free.
unsafe impl RawContext for lc::EVP_CIPHER_CTX {
    const NEW: unsafe extern "C" fn() -> *mut Self = lc::EVP_CIPHER_CTX_new;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int = lc::EVP_CIPHER_CTX_copy;
    const FREE: unsafe extern "C" fn(*mut Self) = lc::EVP_CIPHER_CTX_free;
}

// SAFETY: the functions do this according to cmac.h. Memory of AWS-LC is overwritten by OPENSSL_free.
unsafe impl RawContext for lc::CMAC_CTX {
    const NEW: unsafe extern "C" fn() -> *mut Self = lc::CMAC_CTX_new;
    const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int = lc::CMAC_CTX_copy;
    const FREE: unsafe extern "C" fn(*mut Self) = lc::CMAC_CTX_free;
}

/// An owned context.
pub(crate) struct Context<T: RawContext>(NonNull<T>);

// SAFETY: `RawContext` promises that contexts can change threads.
unsafe impl<T: RawContext> Send for Context<T> {}
// SAFETY: a shared context is only ever read, by `duplicate`; `as_mut_ptr` needs it exclusively.
unsafe impl<T: RawContext> Sync for Context<T> {}

impl<T: RawContext> Context<T> {
    /// Creates an empty context; `None` if memory is exhausted.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: the function has no preconditions.
        NonNull::new(unsafe { T::NEW() }).map(Self)
    }

    /// Copies the context with its state; `None` if memory is exhausted.
    pub(crate) fn duplicate(&self) -> Option<Self> {
        let copy = Self::new()?;
        // SAFETY: both are alive, and nothing else has the copy.
        (unsafe { T::COPY(copy.0.as_ptr(), self.0.as_ptr()) } == 1).then_some(copy)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.0.as_ptr()
    }

    fn into_raw(self) -> *mut T {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl<T: RawContext> Drop for Context<T> {
    fn drop(&mut self) {
        // SAFETY: the object is owned, and not used after this.
        unsafe { T::FREE(self.0.as_ptr()) }
    }
}

/// Contexts that threads borrow for one request each. No thread waits for a context: if all are in use, another one is made. It is dropped
/// later if the pool is full.
pub(crate) struct Pool<T: RawContext> {
    /// The first thread's context. Most sessions have one thread, and need no other.
    owner: OwnerSlot<T>,
    /// One context for further threads.
    spare: Slot<T>,
    /// The contexts of all threads, once two contexts were in use at a time. Several slots, because threads would contend for the cache
    /// line of a single slot.
    shared: OnceBox<[Padded<T>; 16]>,
}

/// A slot on its own cache line, because each thread starts at a different one.
#[repr(align(64))]
struct Padded<T: RawContext>(Slot<T>);

impl<T: RawContext> Pool<T> {
    /// Makes a pool, with one context if there is one already.
    pub(crate) fn new(context: Option<Context<T>>) -> Self {
        Self { owner: OwnerSlot::new(context), spare: Slot::new(None), shared: OnceBox::new() }
    }

    /// Takes a context: a new one, or one in the state in which its last user left it.
    #[inline]
    pub(crate) fn take(&self, make: impl FnOnce() -> Option<Context<T>>) -> Result<Lease<'_, T>, Fault> {
        let thread = this_thread();
        if self.shared.get().is_none()
            && let Some(context) = self.owner.take(thread)
        {
            return Ok(self.lease(context, Some(thread)));
        }
        self.take_slow(thread, make)
    }

    fn take_slow(&self, thread: usize, make: impl FnOnce() -> Option<Context<T>>) -> Result<Lease<'_, T>, Fault> {
        if self.owner.claim() {
            let Some(context) = self.owner.get_or_create(make) else {
                self.owner.release(UNOWNED); // a later request may succeed
                return Err(failed_call("out of memory"));
            };
            return Ok(self.lease(context, Some(thread)));
        }
        let free = self
            .shared
            .get()
            .and_then(|shared| rotated(shared).find_map(Slot::take).or_else(|| self.owner.remove(thread)));
        let context = free.or_else(|| self.spare.take()).or_else(make).ok_or_else(|| failed_call("out of memory"))?;
        Ok(self.lease(context, None))
    }

    #[inline]
    fn lease(&self, context: Context<T>, owner: Option<usize>) -> Lease<'_, T> {
        Lease { pool: self, context: ManuallyDrop::new(context), owner }
    }

    fn put(&self, context: Context<T>) {
        let alone = self.shared.get().is_none() && !self.owner.is_in_use();
        let unplaced = if alone { self.spare.put(context) } else { Err(context) };
        if let Err(context) = unplaced {
            self.put_shared(context);
        }
    }

    fn put_shared(&self, context: Context<T>) {
        let shared = self.shared.get_or_init(|| Box::new(std::array::from_fn(|_| Padded(Slot::new(None)))));
        // A context without a free slot is dropped at the end.
        let _ = rotated(shared).try_fold(context, |context, slot| match slot.put(context) {
            Ok(()) => ControlFlow::Break(()),
            Err(context) => ControlFlow::Continue(context),
        });
    }
}

/// Returns all slots, starting at a different one for each thread, so that threads rarely contend.
#[inline]
fn rotated<T: RawContext>(slots: &[Padded<T>; 16]) -> impl Iterator<Item = &Slot<T>> {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    let first = FIRST.with(|first| *first);
    (0..slots.len()).map(move |index| &slots[(first + index) % slots.len()].0)
}

/// Returns an address that no other thread has while this one lives.
#[inline]
fn this_thread() -> usize {
    thread_local! {
        static MARKER: u8 = const { 0 };
    }
    MARKER.with(|marker| ptr::from_ref(marker).addr())
}

/// A value that is not the address of a [thread](this_thread): the context has not been used.
const UNOWNED: usize = 0;
/// The context is in use.
const IN_USE: usize = usize::MAX;

/// A context of the first thread that takes it. No other thread takes it later, so this needs no locked instruction.
struct OwnerSlot<T: RawContext> {
    /// The [address](this_thread) of the owning thread, [`UNOWNED`] or [`IN_USE`]. A later thread may get the address of an ended one, and
    /// the context with it. The allocator (libc, the kernel) reuses memory only after the first thread has ended.
    thread: AtomicUsize,
    /// Null until the context is made. The pointer stays here while the context is in use.
    context: AtomicPtr<T>,
}

impl<T: RawContext> OwnerSlot<T> {
    fn new(context: Option<Context<T>>) -> Self {
        Self {
            thread: AtomicUsize::new(UNOWNED),
            context: AtomicPtr::new(context.map_or(ptr::null_mut(), Context::into_raw)),
        }
    }

    /// Returns the context to its owner. `Acquire` here pairs with `Release` in `release`, because a lease may end in another
    /// thread.
    #[inline]
    fn take(&self, thread: usize) -> Option<Context<T>> {
        if self.thread.load(Ordering::Acquire) != thread {
            return None;
        }
        self.thread.store(IN_USE, Ordering::Relaxed);
        NonNull::new(self.context.load(Ordering::Relaxed)).map(Context)
    }

    /// Claims the context for the first thread that asks. Later calls write nothing.
    fn claim(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == UNOWNED
            && self.thread.compare_exchange(UNOWNED, IN_USE, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Returns the context to the thread that has claimed it.
    fn get_or_create(&self, make: impl FnOnce() -> Option<Context<T>>) -> Option<Context<T>> {
        if let Some(context) = NonNull::new(self.context.load(Ordering::Relaxed)) {
            return Some(Context(context));
        }
        let context = make()?;
        self.context.store(context.0.as_ptr(), Ordering::Relaxed);
        Some(context)
    }

    fn is_in_use(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == IN_USE
    }

    /// Removes the context if `thread` is its owner. The slot then stays in use, without a context.
    fn remove(&self, thread: usize) -> Option<Context<T>> {
        let context = self.take(thread)?;
        self.context.store(ptr::null_mut(), Ordering::Relaxed);
        Some(context)
    }

    /// Ends the loan, and makes `thread` the owner.
    #[inline]
    fn release(&self, thread: usize) {
        self.thread.store(thread, Ordering::Release);
    }
}

impl<T: RawContext> Drop for OwnerSlot<T> {
    fn drop(&mut self) {
        // No thread borrows it any more.
        drop(NonNull::new(*self.context.get_mut()).map(Context));
    }
}

/// A place for one context; null while it is empty.
struct Slot<T: RawContext>(AtomicPtr<T>);

impl<T: RawContext> Slot<T> {
    fn new(context: Option<Context<T>>) -> Self {
        Self(AtomicPtr::new(context.map_or(ptr::null_mut(), Context::into_raw)))
    }

    /// `Acquire` here and `Release` in `put` make the last thread's writes to the context visible.
    #[inline]
    fn take(&self) -> Option<Context<T>> {
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::Acquire)).map(Context)
    }

    /// Puts a context in, or returns it if the place is taken.
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

impl<T: RawContext> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A context borrowed from a pool; dropping the lease returns it.
pub(crate) struct Lease<'p, T: RawContext> {
    pool: &'p Pool<T>,
    context: ManuallyDrop<Context<T>>,
    /// The owning thread, if the context is the one in [`Pool::owner`], which keeps its pointer during the lease.
    owner: Option<usize>,
}

impl<T: RawContext> Lease<'_, T> {
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.context.as_mut_ptr()
    }
}

impl<T: RawContext> Drop for Lease<'_, T> {
    #[inline]
    fn drop(&mut self) {
        match self.owner {
            Some(thread) => self.pool.owner.release(thread),
            // SAFETY: `context` is not used after this.
            None => self.pool.put(unsafe { ManuallyDrop::take(&mut self.context) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::{Context, Pool, RawContext};

    /// Counts its uses without synchronisation, so that concurrent users show. Each test has its own `N`.
    struct Counter<const N: usize>(usize);

    /// Number of counters alive.
    static ALIVE: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];
    /// Uses of all freed counters.
    static USES: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];

    // SAFETY: `free` takes the result of `new`; nothing is copied.
    unsafe impl<const N: usize> RawContext for Counter<N> {
        const NEW: unsafe extern "C" fn() -> *mut Self = new::<N>;
        const COPY: unsafe extern "C" fn(*mut Self, *const Self) -> c_int = never::<N>;
        const FREE: unsafe extern "C" fn(*mut Self) = free::<N>;
    }

    extern "C" fn new<const N: usize>() -> *mut Counter<N> {
        ALIVE[N].fetch_add(1, Ordering::Relaxed);
        Box::into_raw(Box::new(Counter(0)))
    }

    extern "C" fn never<const N: usize>(_: *mut Counter<N>, _: *const Counter<N>) -> c_int {
        unreachable!("the pool does not copy")
    }

    unsafe extern "C" fn free<const N: usize>(counter: *mut Counter<N>) {
        ALIVE[N].fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the counter is from `new`, and not used after this.
        let counter = unsafe { Box::from_raw(counter) };
        USES[N].fetch_add(counter.0, Ordering::Relaxed);
    }

    fn alive<const N: usize>() -> usize {
        ALIVE[N].load(Ordering::Relaxed)
    }

    /// Uses a context once, calls `meanwhile` during the use, and returns the number of its uses.
    fn use_with<const N: usize>(pool: &Pool<Counter<N>>, meanwhile: impl Fn()) -> usize {
        let mut lease = pool.take(Context::new).unwrap();
        let counter = lease.as_mut_ptr();
        // SAFETY: the lease has exclusive access to the context, which these tests verify.
        let uses = unsafe { (*counter).0 } + 1;
        meanwhile();
        // SAFETY: as above.
        unsafe { (*counter).0 = uses };
        uses
    }

    fn use_one<const N: usize>(pool: &Pool<Counter<N>>) -> usize {
        use_with(pool, || {})
    }

    #[test]
    fn each_thread_uses_its_own_context() {
        let pool = Pool::<Counter<0>>::new(Context::new());
        for uses in 1..=3 {
            assert_eq!(use_one(&pool), uses);
        }
        let other_thread = thread::scope(|scope| scope.spawn(|| (use_one(&pool), use_one(&pool))).join().unwrap());
        assert_eq!(other_thread, (1, 2));
        assert_eq!((use_one(&pool), alive::<0>()), (4, 2));
        let both = (pool.take(Context::new).unwrap(), pool.take(Context::new).unwrap());
        assert!(both.0.context.0 != both.1.context.0, "one context is in use twice");
        drop(both);
        drop(pool);
        assert_eq!(alive::<0>(), 0);
    }

    #[test]
    fn a_lease_may_end_in_another_thread() {
        let pool = Pool::<Counter<1>>::new(None);
        assert_eq!(use_one(&pool), 1);
        let lease = pool.take(Context::new).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut lease = lease;
                // SAFETY: as in `use_with`.
                unsafe { (*lease.as_mut_ptr()).0 += 1 };
            });
            // The lease ends before that thread is joined.
            while pool.owner.is_in_use() {
                thread::yield_now();
            }
            assert_eq!((use_one(&pool), alive::<1>()), (3, 1));
        });
        drop(pool);
        assert_eq!(alive::<1>(), 0);
    }

    #[test]
    fn the_owner_gives_up_its_context_once_contexts_are_shared() {
        let pool = Pool::<Counter<4>>::new(None);
        let [owner, another] = [(); 2].map(|()| pool.take(Context::new).unwrap());
        drop(another); // creates `shared`
        drop(owner);
        let both = [(); 2].map(|()| pool.take(|| unreachable!("the pool has two contexts")).unwrap());
        assert!(both.iter().all(|lease| lease.owner.is_none()));
        drop(both);
        drop(pool);
        assert_eq!(alive::<4>(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "the failure goes through AWS-LC")]
    fn the_pool_works_after_a_failed_allocation() {
        let pool = Pool::<Counter<2>>::new(None);
        assert!(pool.take(|| None).is_err());
        assert_eq!((use_one(&pool), use_one(&pool)), (1, 2));
        assert!(pool.shared.get().is_none(), "the context belongs to this thread");
        let taken = pool.take(Context::new).unwrap();
        assert!(pool.take(|| None).is_err());
        drop(taken);
        assert_eq!(use_one(&pool), 3);
    }

    #[test]
    fn threads_never_share_a_context() {
        const THREADS: usize = 8;
        let uses = if cfg!(miri) { 50 } else { 5_000 };
        let pool = Pool::<Counter<3>>::new(None);
        let together = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    for _ in 0..uses {
                        use_with(&pool, thread::yield_now);
                    }
                });
            }
        });
        // No thread overwrote the count of another one.
        drop(pool);
        assert_eq!((alive::<3>(), USES[3].load(Ordering::Relaxed)), (0, THREADS * uses));
    }
}
