//! The memory that holds the number of the process, and is zero in a child.

#![allow(unsafe_code, reason = "a page that the kernel wipes, or a function that the C library calls")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The address of the process's number; null until its first use.
static NUMBER_CELL: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The number if there is no page.
static FALLBACK: AtomicU64 = AtomicU64::new(0);

#[inline]
pub(super) fn number_cell() -> &'static AtomicU64 {
    // SAFETY: the pointer is null or stays valid: it points to `FALLBACK`, or to a page that nothing unmaps. The content is always a
    // valid number: the kernel wipes it to 0.
    unsafe { NUMBER_CELL.load(Ordering::Acquire).as_ref() }.unwrap_or_else(set_up)
}

/// Returns whether the number is wiped in every child. If not, it is wiped only in children of `fork`.
pub(super) fn is_wiped() -> bool {
    !ptr::eq(number_cell(), &raw const FALLBACK)
}

/// Makes the cell. Takes no lock of our own, because a child could find the lock held by a thread that exists only in the parent.
#[cold]
fn set_up() -> &'static AtomicU64 {
    let page = page::wiped();
    let new = page.as_ref().map_or_else(fallback, page::Page::start);
    let cell = match NUMBER_CELL.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            std::mem::forget(page);
            new
        }
        // Another thread was faster.
        Err(other) => other,
    };
    // SAFETY: as in `number_cell`.
    unsafe { &*cell }
}

/// Returns a cell that a callback of the C library wipes in children.
#[cold]
fn fallback() -> *mut AtomicU64 {
    extern "C" fn child() {
        FALLBACK.store(0, Ordering::Relaxed);
    }
    // SAFETY: `child` only writes a number. The C library forgets `child` when the module with this function is unloaded.
    if unsafe { libc::pthread_atfork(None, None, Some(child as unsafe extern "C" fn())) } != 0 {
        // `pthread_atfork` fails only for lack of memory.
        std::alloc::handle_alloc_error(std::alloc::Layout::new::<AtomicU64>());
    }
    (&raw const FALLBACK).cast_mut()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod page {
    use std::ptr;
    use std::sync::atomic::AtomicU64;

    /// Minimum bytes of the page: the kernel's pages may be larger.
    const BYTES: usize = 4096;
    /// The advice for madvise(2). The crate `libc` defines this constant, but not for every system.
    const MADV_WIPEONFORK: libc::c_int = 18;

    /// A page of zeros, which is unmapped when dropped.
    pub(super) struct Page(*mut libc::c_void);

    /// Makes a page that is wiped in children, if the kernel supports that.
    pub(super) fn wiped() -> Option<Page> {
        // Linux refuses this advice for shared memory. An emulator that accepts all advice, and follows none, accepts it there, too.
        let is_followed = !Page::new(libc::MAP_SHARED)?.wipe();
        let page = Page::new(libc::MAP_PRIVATE)?;
        (is_followed && page.wipe()).then_some(page)
    }

    impl Page {
        fn new(kind: libc::c_int) -> Option<Self> {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, kind | libc::MAP_ANONYMOUS);
            // SAFETY: the call makes a new mapping at an address of the kernel's choice.
            let at = unsafe { libc::mmap(ptr::null_mut(), BYTES, access, kind, -1, 0) };
            (at != libc::MAP_FAILED).then_some(Self(at))
        }

        /// Makes the kernel wipe the page in children. Returns whether the kernel accepts; emulators may accept without doing it.
        fn wipe(&self) -> bool {
            // SAFETY: the mapping is ours, and its content in this process does not change.
            unsafe { libc::madvise(self.0, BYTES, MADV_WIPEONFORK) == 0 }
        }

        pub(super) fn start(&self) -> *mut AtomicU64 {
            self.0.cast()
        }
    }

    impl Drop for Page {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and nothing uses it any more.
            unsafe { libc::munmap(self.0, BYTES) };
        }
    }
}

/// `MADV_WIPEONFORK` exists only in Linux. Other systems use the fallback.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod page {
    use std::sync::atomic::AtomicU64;

    pub(super) enum Page {}

    pub(super) fn wiped() -> Option<Page> {
        None
    }

    impl Page {
        pub(super) fn start(&self) -> *mut AtomicU64 {
            match *self {}
        }
    }
}
