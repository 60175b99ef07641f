//! AWS-LC's contexts: opaque, changed by every use, and copied with their keys.

use std::ffi::c_int;
use std::mem::{self, ManuallyDrop};
use std::ops::ControlFlow;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use aws_lc_sys as lc;
use gantry_core::Fault;
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
    own: Own<T>,
    /// For the threads that come after that one.
    first: Slot<T>,
    /// For all of them, from the first time on that two contexts were in use: threads that write to one cache line wait for it.
    others: OnceBox<[Padded<T>; 16]>,
}

/// On a cache line of its own, because each thread has its favourite.
#[repr(align(64))]
struct Padded<T: Object>(Slot<T>);

impl<T: Object> Pool<T> {
    /// Of one context, if there is one already.
    pub(crate) fn new(context: Option<Context<T>>) -> Self {
        Self { own: Own::new(context), first: Slot::new(None), others: OnceBox::new() }
    }

    /// A context that nobody else has: a new one, or one that stands where the last one who had it left it.
    #[inline]
    pub(crate) fn take(&self, make: impl FnOnce() -> Option<Context<T>>) -> Result<Lease<'_, T>, Fault> {
        let me = this_thread();
        if self.others.get().is_none()
            && let Some(context) = self.own.take(me)
        {
            return Ok(self.lease(context, Some(me)));
        }
        self.take_another(me, make)
    }

    fn take_another(&self, me: usize, make: impl FnOnce() -> Option<Context<T>>) -> Result<Lease<'_, T>, Fault> {
        if self.own.claim() {
            let Some(context) = self.own.get_or_make(make) else {
                self.own.give(NOBODY); // the next one may have more luck
                return Err(failed("out of memory"));
            };
            return Ok(self.lease(context, Some(me)));
        }
        let free =
            self.others.get().and_then(|others| in_turn(others).find_map(Slot::take).or_else(|| self.own.leave(me)));
        let context = free.or_else(|| self.first.take()).or_else(make).ok_or_else(|| failed("out of memory"))?;
        Ok(self.lease(context, None))
    }

    #[inline]
    fn lease(&self, context: Context<T>, own: Option<usize>) -> Lease<'_, T> {
        Lease { pool: self, context: ManuallyDrop::new(context), own }
    }

    fn put(&self, context: Context<T>) {
        let alone = self.others.get().is_none() && !self.own.is_lent();
        let left = if alone { self.first.put(context) } else { Err(context) };
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

/// An address that no other thread has while this one lives.
#[inline]
fn this_thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| ptr::from_ref(here).addr())
}

/// What is no address of a [thread](this_thread): the context has not been used.
const NOBODY: usize = 0;
/// The context is in use.
const LENT: usize = usize::MAX;

/// A context of the first thread that takes it. Nobody but that thread takes it from then on, so that this needs no locked
/// instruction.
struct Own<T: Object> {
    /// The thread, by its address, [`NOBODY`] or [`LENT`]. A thread that has ended may leave its address to another one, and
    /// the context with it: whoever hands out memory again (libc, the kernel) sees to it that the one ends before the other begins.
    thread: AtomicUsize,
    /// Null until there is one. It stays here while it is lent.
    context: AtomicPtr<T>,
}

impl<T: Object> Own<T> {
    fn new(context: Option<Context<T>>) -> Self {
        Self {
            thread: AtomicUsize::new(NOBODY),
            context: AtomicPtr::new(context.map_or(ptr::null_mut(), Context::into_raw)),
        }
    }

    /// For the thread that it belongs to. `Acquire` here and `Release` in `give`, because a lease may end in another thread.
    #[inline]
    fn take(&self, me: usize) -> Option<Context<T>> {
        if self.thread.load(Ordering::Acquire) != me {
            return None;
        }
        self.thread.store(LENT, Ordering::Relaxed);
        NonNull::new(self.context.load(Ordering::Relaxed)).map(Context)
    }

    /// Lends it to whoever is the first. Later on this writes nothing.
    fn claim(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == NOBODY
            && self.thread.compare_exchange(NOBODY, LENT, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// For the one who has claimed it.
    fn get_or_make(&self, make: impl FnOnce() -> Option<Context<T>>) -> Option<Context<T>> {
        if let Some(context) = NonNull::new(self.context.load(Ordering::Relaxed)) {
            return Some(Context(context));
        }
        let context = make()?;
        self.context.store(context.0.as_ptr(), Ordering::Relaxed);
        Some(context)
    }

    fn is_lent(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == LENT
    }

    /// The thread that it belongs to takes it for good. It then counts as lent, with nothing left to lend.
    fn leave(&self, me: usize) -> Option<Context<T>> {
        let context = self.take(me)?;
        self.context.store(ptr::null_mut(), Ordering::Relaxed);
        Some(context)
    }

    /// From now on it belongs to `thread`.
    #[inline]
    fn give(&self, thread: usize) {
        self.thread.store(thread, Ordering::Release);
    }
}

impl<T: Object> Drop for Own<T> {
    fn drop(&mut self) {
        // Nobody borrows it any more.
        drop(NonNull::new(*self.context.get_mut()).map(Context));
    }
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
    /// The thread that it belongs to, if it is [`Pool::own`], where it still is.
    own: Option<usize>,
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
        match self.own {
            Some(thread) => self.pool.own.give(thread),
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

    use super::{Context, Object, Pool};

    /// Counts its uses without a lock, so that two users at a time show. One `N` for each test.
    struct Counter<const N: usize>(usize);

    /// How many there are.
    static ALIVE: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];
    /// How often those have been used that are no more.
    static USES: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];

    // SAFETY: what `new` gives, `free` takes; nothing is copied.
    unsafe impl<const N: usize> Object for Counter<N> {
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
        // SAFETY: from `new`, and given up.
        let counter = unsafe { Box::from_raw(counter) };
        USES[N].fetch_add(counter.0, Ordering::Relaxed);
    }

    fn alive<const N: usize>() -> usize {
        ALIVE[N].load(Ordering::Relaxed)
    }

    /// Uses a context once, with something else in between, and returns how often it has been used.
    fn use_with<const N: usize>(pool: &Pool<Counter<N>>, meanwhile: impl Fn()) -> usize {
        let mut lease = pool.take(Context::new).unwrap();
        let counter = lease.as_mut_ptr();
        // SAFETY: the lease is the only way to the context, which is what these tests are about.
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
    fn a_thread_has_its_context_to_itself_and_another_thread_has_another_one() {
        let pool = Pool::<Counter<0>>::new(Context::new());
        for uses in 1..=3 {
            assert_eq!(use_one(&pool), uses);
        }
        let there = thread::scope(|scope| scope.spawn(|| (use_one(&pool), use_one(&pool))).join().unwrap());
        assert_eq!(there, (1, 2));
        assert_eq!((use_one(&pool), alive::<0>()), (4, 2));
        let both = (pool.take(Context::new).unwrap(), pool.take(Context::new).unwrap());
        assert!(both.0.context.0 != both.1.context.0, "one context was lent twice");
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
            // It comes back by itself, before anybody joins that thread.
            while pool.own.is_lent() {
                thread::yield_now();
            }
            assert_eq!((use_one(&pool), alive::<1>()), (3, 1));
        });
        drop(pool);
        assert_eq!(alive::<1>(), 0);
    }

    #[test]
    fn where_contexts_are_shared_the_first_thread_shares_its_own() {
        let pool = Pool::<Counter<4>>::new(None);
        let [own, another] = [(); 2].map(|()| pool.take(Context::new).unwrap());
        drop(another); // there are others from here on
        drop(own);
        let both = [(); 2].map(|()| pool.take(|| unreachable!("there are two")).unwrap());
        assert!(both.iter().all(|lease| lease.own.is_none()));
        drop(both);
        drop(pool);
        assert_eq!(alive::<4>(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "the failure goes through AWS-LC")]
    fn who_finds_no_memory_leaves_the_pool_to_the_next_one() {
        let pool = Pool::<Counter<2>>::new(None);
        assert!(pool.take(|| None).is_err());
        assert_eq!((use_one(&pool), use_one(&pool)), (1, 2));
        assert!(pool.others.get().is_none(), "it became this thread's own");
        let held = pool.take(Context::new).unwrap();
        assert!(pool.take(|| None).is_err());
        drop(held);
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
        // Nobody overwrote what another one had counted.
        drop(pool);
        assert_eq!((alive::<3>(), USES[3].load(Ordering::Relaxed)), (0, THREADS * uses));
    }
}
