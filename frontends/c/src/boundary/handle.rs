//! Handles: the pointers to our objects that C holds. "The call" and "the handle" are promises of the C program (see [`super`]).

use std::sync::{Mutex, MutexGuard, TryLockError};

use super::memory::{check_pointer, write_out};
use crate::code::Code;

/// An object that C holds.
#[repr(C)]
pub struct Handle<T: HandleType> {
    /// The mark of the type, which is the first field because allocators overwrite the start of freed memory.
    mark: u64,
    inner: T,
}

/// Types that have handles. Any thread may use them.
pub trait HandleType: Send + Sync {
    /// The first word of a handle, which differs by type.
    const TYPE_MARK: u64;
}

/// A `gantry`.
pub type GantryHandle = Handle<gantry_core::Gantry>;
/// A `gantry_stream`.
pub type StreamHandle = Handle<Mutex<gantry_core::Stream>>;

impl HandleType for gantry_core::Gantry {
    const TYPE_MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x01");
}

impl HandleType for Mutex<gantry_core::Stream> {
    const TYPE_MARK: u64 = u64::from_be_bytes(*b"gantry\xf9\x03");
}

impl<T: HandleType> Handle<T> {
    /// Makes a handle for an object and writes it to `out`.
    ///
    /// # Safety
    /// The call.
    pub(super) unsafe fn create(inner: T, out: *mut *mut Self) -> Result<(), Code> {
        check_pointer(out)?;
        let handle = Box::into_raw(Box::new(Handle { mark: T::TYPE_MARK, inner }));
        // SAFETY: the call.
        unsafe { write_out(out, handle) }
    }

    /// Returns the object of a handle.
    ///
    /// # Safety
    /// The handle.
    pub(super) unsafe fn get<'a>(at: *const Self) -> Result<&'a T, Code> {
        if at.is_null() {
            return Err(Code::Argument);
        }
        if !at.is_aligned() {
            return Err(Code::Handle);
        }
        // SAFETY: the handle. The mark is checked before the rest is used, and only shared references are ever made.
        unsafe {
            if (&raw const (*at).mark).read() != T::TYPE_MARK {
                return Err(Code::Handle);
            }
            Ok(&(*at).inner)
        }
    }

    /// Takes an object back from C; returns `None` for NULL and for pointers that are not such handles.
    ///
    /// # Safety
    /// The handle. No other thread uses it during the call, and nothing uses it afterwards.
    pub(super) unsafe fn take(at: *mut Self) -> Option<T> {
        // SAFETY: the handle.
        unsafe { Self::get(at) }.ok()?;
        // SAFETY: the handle. `create` made the box, and it is taken back only once. Clearing the mark helps `get` to detect later uses.
        let handle = unsafe {
            (&raw mut (*at).mark).write_volatile(0);
            Box::from_raw(at)
        };
        Some(handle.inner)
    }
}

/// Locks an object. Fails if another thread uses it, or a panic left it in an unknown state.
pub(super) fn try_lock<T>(object: &Mutex<T>) -> Result<MutexGuard<'_, T>, Code> {
    object.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Code::Busy,
        TryLockError::Poisoned(_) => Code::Internal,
    })
}
