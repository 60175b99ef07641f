//! Parts of sessions of every kind.
//!
//! Sessions check the lengths of buffers again, although core passes no wrong length, so that memory stays safe with any caller.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{Buffers, DeviceSession, Unsupported};
use gantry_core::{Fault, Outcome};

/// The result of opening a session.
pub(crate) type SessionResult = Result<Arc<dyn DeviceSession>, Unsupported>;

/// AWS-LC's structures that are plain memory.
///
/// # Safety
///
/// All zeros are a value of the type. A copy of its bytes is a second value that works like the first. Nothing but its bytes has to be
/// released. Any thread may use a value, and shared values are only read.
pub(crate) unsafe trait PlainMemory: Copy {}

// SAFETY: the structure holds round keys and their number.
unsafe impl PlainMemory for lc::AES_KEY {}
// SAFETY: the array holds round keys.
unsafe impl PlainMemory for [lc::DES_key_schedule; 3] {}
// SAFETY: the structure holds hash states without pointers ("All of the contexts are flat", hmac.c), a number, and two pointers to static
// tables. The pointers may be null.
unsafe impl PlainMemory for lc::HMAC_CTX {}

// SAFETY: the array holds numbers.
unsafe impl<const N: usize> PlainMemory for [u8; N] {}

/// Plain memory that is overwritten when it is dropped.
pub(crate) struct Secret<T: PlainMemory>(T);

// SAFETY: `PlainMemory` guarantees that threads may share and move the value.
unsafe impl<T: PlainMemory> Send for Secret<T> {}
// SAFETY: `PlainMemory` guarantees that threads may share and move the value.
unsafe impl<T: PlainMemory> Sync for Secret<T> {}

impl<T: PlainMemory> Secret<T> {
    /// Returns zeros on the heap. A key that is written in place leaves no copies elsewhere, because it is never moved.
    pub(crate) fn boxed() -> Box<Self> {
        let zeros = Box::<Self>::new_zeroed();
        // SAFETY: `Secret` wraps `T`, for which all zeros are a value (`PlainMemory`).
        unsafe { zeros.assume_init() }
    }

    /// Returns zeros on the stack.
    #[inline]
    pub(crate) fn zeroed() -> Self {
        // SAFETY: as in `boxed`.
        unsafe { std::mem::zeroed() }
    }
}

impl<T: PlainMemory> Clone for Secret<T> {
    #[inline]
    fn clone(&self) -> Self {
        Secret(self.0)
    }
}

impl<T: PlainMemory> Deref for Secret<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: PlainMemory> DerefMut for Secret<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: PlainMemory> Drop for Secret<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the range is `self.0`, for which all zeros are a value.
        unsafe { lc::OPENSSL_cleanse((&raw mut self.0).cast(), size_of::<T>()) }
    }
}

/// Buffers for AWS-LC: `input` and `output` are equal or do not overlap, and both have `len` bytes.
pub(crate) struct RawBuffers<'a> {
    pub(crate) input: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) len: usize,
    buffers: std::marker::PhantomData<Buffers<'a>>,
}

impl<'a> RawBuffers<'a> {
    #[inline]
    pub(crate) fn new(data: Buffers<'a>) -> Result<Self, Fault> {
        let (input, output, len) = match data {
            Buffers::InPlace(data) => {
                let output = data.as_mut_ptr();
                (output.cast_const(), output, data.len())
            }
            Buffers::Separate { input, output } if input.len() == output.len() => {
                (input.as_ptr(), output.as_mut_ptr(), input.len())
            }
            Buffers::Separate { .. } => return Err(Fault::failed("input and output differ in length")),
        };
        Ok(Self { input, output, len, buffers: std::marker::PhantomData })
    }

    /// Returns the same buffers for as long as `self` is borrowed.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> RawBuffers<'_> {
        RawBuffers { buffers: std::marker::PhantomData, ..*self }
    }

    /// Returns the input. Read it before anything is written.
    #[inline]
    pub(crate) fn input(&self) -> &[u8] {
        // SAFETY: `len` bytes that are borrowed by `self`, and written through `&mut self` only.
        unsafe { std::slice::from_raw_parts(self.input, self.len) }
    }

    /// Returns the output. Read it after it was written.
    #[inline]
    pub(crate) fn output(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes that are borrowed by `self`, exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.output, self.len) }
    }

    /// Returns the remainder after the first `len` bytes, which must exist.
    #[inline]
    pub(crate) fn skip(self, len: usize) -> Self {
        debug_assert!(len <= self.len);
        Self { input: self.input.wrapping_add(len), output: self.output.wrapping_add(len), len: self.len - len, ..self }
    }
}

/// Returns the IV as an array. Core has checked its length.
#[inline]
pub(crate) fn iv_array<const N: usize>(iv: &[u8]) -> Result<&[u8; N], Fault> {
    iv.try_into().map_err(|_| Fault::failed("the IV has a wrong length"))
}

/// Returns the fault for an operation that the session does not support. Core passes no such operation.
#[cold]
pub(crate) fn unsupported_operation() -> Result<Outcome, Fault> {
    Err(Fault::failed("the session does not support the operation"))
}

/// Reports a failed call of AWS-LC. Empties its error queue, so that the host program never sees errors that it did not cause.
#[cold]
pub(crate) fn failed_call(call: &'static str) -> Fault {
    // SAFETY: touches the queue of this thread only.
    unsafe { lc::ERR_clear_error() };
    Fault::failed(call)
}

/// Reports a failure while a session is opened.
#[cold]
pub(crate) fn failed_open(call: &'static str) -> Unsupported {
    let Fault::Failed(reason) = failed_call(call) else { unreachable!("failed_call() returns Fault::Failed") };
    Unsupported(reason)
}

/// Ends the process because memory is exhausted, as Rust's containers do. Used where the driver contract allows no failure. The layout is
/// arbitrary: it only appears in the message.
#[cold]
pub(crate) fn abort_out_of_memory() -> ! {
    std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 1024]>())
}
