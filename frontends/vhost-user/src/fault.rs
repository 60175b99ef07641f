//! Guest memory that is lost while it is mapped.
//!
//! A front end owns the file of its guest's memory and may truncate it, or the host may run out of huge pages. An access to
//! such memory raises SIGBUS, which would end the server of all guests. The handler replaces the whole region by zeros, marks
//! it as lost, and returns: the failed access is repeated and reads zeros. The guest's device checks the mark, and is broken
//! from then on. System calls that fail with an error instead would cost more for each request than its cryptography.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, OnceLock};

/// Most mappings of all guests together.
const MAX_MAPPINGS: usize = 4096;

static SLOTS: [Slot; MAX_MAPPINGS] = [const { Slot::new() }; MAX_MAPPINGS];
/// Held while a slot is assigned.
static ASSIGNMENT_LOCK: Mutex<()> = Mutex::new(());
/// The previous action for SIGBUS.
static PREVIOUS_ACTION: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping, which the handler finds without a lock. A slot with `length` 0 is free. `length` is written last, and read before
/// and after `start`, so that the handler never combines two mappings.
struct Slot {
    start: AtomicUsize,
    length: AtomicUsize,
    is_lost: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self { start: AtomicUsize::new(0), length: AtomicUsize::new(0), is_lost: AtomicBool::new(false) }
    }

    fn range(&self) -> Option<(usize, usize)> {
        let length = self.length.load(Acquire);
        let start = self.start.load(Acquire);
        (length != 0 && self.length.load(Acquire) == length).then_some((start, length))
    }
}

/// Protects a mapping from SIGBUS. The guard must be dropped before the mapping ends.
#[derive(Debug)]
pub(crate) struct SigbusGuard {
    slot: &'static Slot,
}

impl SigbusGuard {
    /// Watches `length` bytes from `start`, which are a whole mapping.
    ///
    /// # Errors
    /// All slots are in use.
    pub(crate) fn new(start: usize, length: usize) -> io::Result<Self> {
        install_handler()?;
        let _guard = ASSIGNMENT_LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let slot = SLOTS.iter().find(|slot| slot.length.load(Relaxed) == 0);
        let slot = slot.ok_or_else(|| io::Error::other("too many regions of guest memory"))?;
        slot.is_lost.store(false, Relaxed);
        slot.start.store(start, Relaxed);
        slot.length.store(length, Release);
        Ok(Self { slot })
    }

    /// Returns whether the memory was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.slot.is_lost.load(Acquire)
    }
}

impl Drop for SigbusGuard {
    fn drop(&mut self) {
        self.slot.length.store(0, Release);
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.range().fmt(f)
    }
}

fn install_handler() -> io::Result<()> {
    static INSTALL_ERRNO: OnceLock<i32> = OnceLock::new();
    let errno = *INSTALL_ERRNO.get_or_init(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all-zero bytes are a valid `sigaction`, and both pointers refer to one. The handler below calls only
        // mmap(2) and sigaction(2), which are safe in a signal handler.
        let result = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handle_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr())
        };
        if result != 0 {
            return io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        }
        // SAFETY: the call succeeded and filled it; zeros would be valid, too.
        let _ = PREVIOUS_ACTION.set(unsafe { before.assume_init() });
        0
    });
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

extern "C" fn handle_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a `siginfo_t` that is valid during the handler; for SIGBUS its address is set.
    let address = unsafe { (*info).si_addr() } as usize;
    let range_around_address =
        |slot: &Slot| slot.range().filter(|(start, length)| address.wrapping_sub(*start) < *length);
    let mut replaced = false;
    for slot in &SLOTS {
        let Some((start, length)) = range_around_address(slot) else { continue };
        slot.is_lost.store(true, Release);
        // SAFETY: the range is a mapping that this process made of a guest's memory. The interrupted thread is using it, so it
        // does not end meanwhile, and all code treats it as memory that may change at any time. The range is replaced as a
        // whole, because parts of a mapping of huge pages cannot be.
        replaced |= unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let zeros = libc::mmap(start as *mut _, length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            zeros != libc::MAP_FAILED
        };
    }
    if replaced {
        return;
    }
    // Another cause: restores the previous action and repeats the access, which ends the process or is handled.
    if let Some(before) = PREVIOUS_ACTION.get() {
        // SAFETY: the pointer refers to the action that the kernel returned for the same signal.
        unsafe { libc::sigaction(libc::SIGBUS, ptr::from_ref(before), ptr::null_mut()) };
    }
}
