//! The process that runs this code, distinguished from its ancestors and descendants.
//!
//! A child has a copy of its parent's memory. The copy includes counters whose next numbers both would use, and handles of the kernel or of
//! devices that belong to the parent. A PID does not distinguish the two: in a PID namespace, or after reuse of a PID, a child may have its
//! parent's PID.
//!
//! The kernel wipes one page of memory in every child (`MADV_WIPEONFORK`, Linux 4.14 and later), unless the child shares its parent's
//! memory. The page holds the number of the process; a process that finds no number takes the next one. So a check costs two loads. The
//! first check creates the page. Later checks make no system calls, so a filter (seccomp) that is installed after the first check has
//! nothing to refuse.
//!
//! Without such a page (before Linux 4.14, gVisor, emulators, other Unix systems), or if a filter refuses it, the C library calls a
//! function of ours in each child of `fork`. A child of a bare `clone` is then not detected, so
//! [`Process::current_if_unique`] returns `None`.
//!
//! Processes that share memory count as one: the child of `vfork` before `exec`, and children of `clone` with `CLONE_VM`. A process or
//! virtual machine that is restored twice from one snapshot is not detected: replace its keys after that.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(all(unix, not(miri)))]
mod sys;
/// For systems without `fork`.
#[cfg(not(all(unix, not(miri))))]
mod sys {
    use super::AtomicU64;

    static NUMBER: AtomicU64 = AtomicU64::new(0);

    pub(super) fn number_cell() -> &'static AtomicU64 {
        &NUMBER
    }

    pub(super) fn is_wiped() -> bool {
        true
    }
}

/// The process that runs this code, kept to find out later whether the code still runs in it.
///
/// ```
/// let made_in = gantry_core::Process::current();
/// assert!(made_in.is_current()); // and not in a child
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

/// The last number that this process or one of its ancestors took.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

impl Process {
    /// Returns the calling process. May be called in a signal handler, and in a child before `exec`. On a system without the wiped page,
    /// the first call is an exception: `pthread_atfork` may take a lock and allocate memory.
    #[inline]
    pub fn current() -> Self {
        let cell = sys::number_cell();
        match cell.load(Ordering::Relaxed) {
            0 => Self(take_number(cell)),
            number => Self(number),
        }
    }

    /// Returns whether this is the calling process, and not one of its ancestors.
    #[inline]
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Returns the calling process, for counters whose numbers must not be used twice. `None` if the system does not distinguish every
    /// child from its parent.
    pub fn current_if_unique() -> Option<Self> {
        let current = Self::current();
        sys::is_wiped().then_some(current)
    }
}

#[cold]
fn take_number(cell: &AtomicU64) -> u64 {
    let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
    // Another thread may have been faster.
    cell.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|other| other, |_| number)
}
