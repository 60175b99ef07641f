//! Owned objects of AWS-LC and libdeflate, freed when dropped.

use std::ptr::{self, NonNull};

use aws_lc_sys as lc;

/// An owned object. AWS-LC overwrites the memory of its objects when it frees them (mem.h).
pub(crate) struct Owned<T> {
    object: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
}

// SAFETY: none of these objects is tied to a thread.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: sessions share only keys. AWS-LC reads them, counts references to them with atomics, and locks RSA keys to change them.
// Contexts of libdeflate are lent to one request at a time.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// Takes ownership. Returns `None` for null.
    ///
    /// # Safety
    ///
    /// `object` is null, or `free` frees it and nothing else owns it.
    pub(crate) unsafe fn new(object: *mut T, free: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        Some(Self { object: NonNull::new(object)?, free })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: as `new` demands; the object is not used after this.
        unsafe { (self.free)(self.object.as_ptr()) }
    }
}

pub(crate) fn bignum(bytes: &[u8]) -> Option<Owned<lc::BIGNUM>> {
    // SAFETY: the bytes have the length that is passed; the number is new.
    unsafe { Owned::new(lc::BN_bin2bn(bytes.as_ptr(), bytes.len(), ptr::null_mut()), lc::BN_free) }
}
