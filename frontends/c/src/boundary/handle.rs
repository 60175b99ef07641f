//! Handles: what C has of our objects.

use std::sync::{Mutex, MutexGuard, TryLockError};

use super::memory::{check_pointer, put};
use crate::code::Code;

/// An object of ours in C's hands.
#[repr(C)]
pub struct Handle<T: Kind> {
    /// First, because an allocator writes there when it frees.
    mark: u64,
    inner: T,
}

/// What there are handles of: any thread may use them.
pub trait Kind: Send + Sync {
    /// The word at the beginning of a handle, so that those of one type are not taken for those of another.
    const MARK: u64;
}

/// A `gantry`.
pub type GantryHandle = Handle<gantry_core::Gantry>;
/// A `gantry_session`.
pub type SessionHandle = Handle<super::session::Session>;
/// A `gantry_stream`.
pub type StreamHandle = Handle<Mutex<gantry_core::Stream>>;
/// A `gantry_queue`.
pub type QueueHandle = Handle<super::queue::Queue>;

impl Kind for gantry_core::Gantry {
    const MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x01");
}

impl Kind for super::session::Session {
    const MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x02");
}

impl Kind for Mutex<gantry_core::Stream> {
    const MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x03");
}

impl Kind for super::queue::Queue {
    const MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x04");
}

impl<T: Kind> Handle<T> {
    /// Gives an object to C.
    ///
    /// # Safety
    /// The call.
    pub(super) unsafe fn give(inner: T, out: *mut *mut Self) -> Result<(), Code> {
        check_pointer(out)?;
        let handle = Box::into_raw(Box::new(Handle { mark: T::MARK, inner }));
        // SAFETY: the call.
        unsafe { put(out, handle) }
    }

    /// What is behind a handle.
    ///
    /// # Safety
    /// The handle.
    pub(super) unsafe fn of<'a>(at: *const Self) -> Result<&'a T, Code> {
        if at.is_null() {
            return Err(Code::Argument);
        }
        if !at.is_aligned() {
            return Err(Code::Handle);
        }
        // SAFETY: the handle: a word of ours, which is read before anything else is believed. Shared references only are ever made.
        unsafe {
            if (&raw const (*at).mark).read() != T::MARK {
                return Err(Code::Handle);
            }
            Ok(&(*at).inner)
        }
    }

    /// Takes an object back from C; `None` for NULL and for what is no such handle.
    ///
    /// # Safety
    /// The handle, which is not used again, and is not in use by another thread.
    pub(super) unsafe fn take(at: *mut Self) -> Option<T> {
        // SAFETY: the handle.
        unsafe { Self::of(at) }.ok()?;
        // SAFETY: the handle: `give` made the box, and this is the one time that it is taken back. The mark goes first.
        let handle = unsafe {
            (&raw mut (*at).mark).write_volatile(0);
            Box::from_raw(at)
        };
        Some(handle.inner)
    }
}

/// The object behind a lock, unless another thread has it, or a panic left it in an unknown state.
pub(super) fn alone<T>(object: &Mutex<T>) -> Result<MutexGuard<'_, T>, Code> {
    object.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Code::Busy,
        TryLockError::Poisoned(_) => Code::Internal,
    })
}
