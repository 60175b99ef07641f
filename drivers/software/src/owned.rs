//! Objects of AWS-LC and libdeflate that have to be freed.

use std::ptr::{self, NonNull};

use aws_lc_sys as lc;

/// An object. The memory of AWS-LC's is overwritten when it is freed (mem.h).
pub(crate) struct Owned<T> {
    object: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
}

// SAFETY: none of these objects is tied to a thread.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: shared ones are only read: sessions hold keys, which AWS-LC takes as constants. Contexts of libdeflate are lent to one request
// at a time.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// `None` of null.
    ///
    /// # Safety
    ///
    /// Null, or an object that `free` frees and that is nobody else's.
    pub(crate) unsafe fn new(object: *mut T, free: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        Some(Self { object: NonNull::new(object)?, free })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: as `new` demands; nobody uses it after this.
        unsafe { (self.free)(self.object.as_ptr()) }
    }
}

pub(crate) fn number(bytes: &[u8]) -> Option<Owned<lc::BIGNUM>> {
    // SAFETY: bytes with their length; the number is a new one.
    unsafe { Owned::new(lc::BN_bin2bn(bytes.as_ptr(), bytes.len(), ptr::null_mut()), lc::BN_free) }
}
