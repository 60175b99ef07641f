//! The buffers of a request.

use core::marker::PhantomData;

use gantry_core::driver::Buffers;

/// Pointers to an input and an output of `bytes` bytes each. The two buffers are identical or do not overlap, and are borrowed
/// for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct RawBuffers<'a> {
    pub(crate) from: *const u8,
    pub(crate) to: *mut u8,
    pub(crate) bytes: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> From<Buffers<'a>> for RawBuffers<'a> {
    #[inline(always)]
    fn from(data: Buffers<'a>) -> Self {
        let (from, to, bytes) = match data {
            Buffers::InPlace(data) => {
                let to = data.as_mut_ptr();
                (to.cast_const(), to, data.len())
            }
            Buffers::Separate { input, output } => (input.as_ptr(), output.as_mut_ptr(), input.len().min(output.len())),
        };
        RawBuffers { from, to, bytes, borrow: PhantomData }
    }
}

#[cfg(target_arch = "x86_64")]
impl RawBuffers<'_> {
    /// # Safety
    /// At least `bytes` bytes remain.
    #[inline(always)]
    pub(super) unsafe fn skip(&mut self, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.from = self.from.add(bytes);
            self.to = self.to.add(bytes);
        }
        self.bytes -= bytes;
    }
}
