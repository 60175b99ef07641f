//! Agreements in TLS groups, with the buffers of a call for their results.

use std::slice;

use zeroize::Zeroize;

use crate::modes::group::{GroupKey, RefusalReason};
use crate::provider::Provider;

/// A buffer that OpenSSL passes. `length` points to the buffer's length, which the result's length replaces; it may be null.
pub(super) struct Buffer {
    pub(super) start: *mut u8,
    pub(super) length: *mut usize,
}

impl Buffer {
    /// Writes the length of a result.
    ///
    /// # Safety
    ///
    /// The call.
    pub(super) unsafe fn write_len(&self, length: usize) {
        if !self.length.is_null() {
            // SAFETY: as the caller promises.
            unsafe { *self.length = length };
        }
    }

    /// Returns the first `length` bytes of the buffer, if it has room for them.
    ///
    /// # Safety
    ///
    /// The call: the buffer has `*self.length` bytes, or at least `length` bytes if `self.length` is null. While the slice lives, nothing
    /// else uses the buffer.
    pub(super) unsafe fn slice_mut<'c>(&self, length: usize) -> Result<&'c mut [u8], RefusalReason> {
        // SAFETY: as the caller promises.
        unsafe {
            if self.start.is_null() || (!self.length.is_null() && *self.length < length) {
                return Err("the buffer is too short");
            }
            Ok(slice::from_raw_parts_mut(self.start, length))
        }
    }
}

/// Agrees on a secret with the peer that sent `key`. Without a buffer for the answer, only writes the lengths. Refuses buffers that overlap.
///
/// # Safety
///
/// The call: `answer` and `secret` as for [`Buffer::slice_mut`].
pub(super) unsafe fn encapsulate_to(
    key: &GroupKey,
    provider: &Provider,
    answer: &Buffer,
    secret: &Buffer,
) -> Result<(), RefusalReason> {
    let group = key.group;
    let lengths = [answer.length, secret.length];
    let lacks_length = if answer.start.is_null() {
        lengths.iter().all(|length| length.is_null())
    } else {
        lengths.iter().any(|length| length.is_null())
    };
    if lacks_length {
        return Err("a length is missing");
    }
    // SAFETY: as the caller promises.
    unsafe {
        if !answer.start.is_null() {
            let (from, to) = (answer.start.addr(), secret.start.addr());
            if from < to + group.secret_len() && to < from + group.server_share_len() {
                return Err("the buffers overlap");
            }
            let (answer, secret) = (answer.slice_mut(group.server_share_len())?, secret.slice_mut(group.secret_len())?);
            key.encapsulate(provider, answer, secret).inspect_err(|_| secret.zeroize())?;
        }
        answer.write_len(group.server_share_len());
        secret.write_len(group.secret_len());
    }
    Ok(())
}
