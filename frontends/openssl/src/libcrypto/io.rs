//! The data of one call.

use std::marker::PhantomData;
use std::slice;

use gantry_core::driver::Buffers;

/// The two calls of OpenSSL that pass data to a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CipherCall {
    /// `EVP_CipherUpdate`.
    Update,
    /// `EVP_Cipher`.
    Cipher,
}

/// The data of one call: input, output, and the place for the number of bytes written.
pub(crate) struct Io<'c> {
    output: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
    call: PhantomData<&'c mut [u8]>,
}

impl Io<'_> {
    /// # Safety
    ///
    /// The call: `length` bytes can be read at `input`, `room` bytes written at `output`, and `written` can be written,
    /// all for as long as the result lives.
    pub(crate) unsafe fn new(
        output: *mut u8,
        written: *mut usize,
        room: usize,
        input: *const u8,
        length: usize,
    ) -> Self {
        Self { output, written, room, input, length, call: PhantomData }
    }

    /// Returns the output, the place for the number of bytes written, the room, the input and its length.
    pub(super) fn parts(&self) -> (*mut u8, *mut usize, usize, *const u8, usize) {
        (self.output, self.written, self.room, self.input, self.length)
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns false for associated data.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_null()
    }

    /// Returns false at the end of a message.
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_null()
    }

    pub(crate) fn is_in_place(&self) -> bool {
        self.input == self.output.cast_const()
    }

    /// Returns the input. After a write in place, this is the output.
    pub(crate) fn input(&self) -> &[u8] {
        if self.length == 0 || self.input.is_null() {
            return &[];
        }
        // SAFETY: the call; output is written through `&mut self` only.
        unsafe { slice::from_raw_parts(self.input, self.length) }
    }

    /// Returns the input and an output of equal length; `None` if there is too little room, or if they partly overlap.
    pub(crate) fn buffers(&mut self) -> Option<Buffers<'_>> {
        self.buffers_of(self.length)
    }

    /// Returns buffers of the first `length` bytes. The rest must not overlap either.
    pub(crate) fn buffers_of(&mut self, length: usize) -> Option<Buffers<'_>> {
        if length > self.length
            || self.length > self.room
            || self.output.is_null()
            || self.input.is_null()
            || self.length > isize::MAX as usize
        {
            return None;
        }
        if self.is_in_place() {
            // SAFETY: the call; one slice over both.
            return Some(Buffers::InPlace(unsafe { slice::from_raw_parts_mut(self.output, length) }));
        }
        let distance = (self.input as usize).abs_diff(self.output as usize);
        if distance < self.length {
            return None;
        }
        // SAFETY: the call; their distance is at least their length.
        let (input, output) =
            unsafe { (slice::from_raw_parts(self.input, length), slice::from_raw_parts_mut(self.output, length)) };
        Some(Buffers::Separate { input, output })
    }

    /// Returns true if neither of two calls writes a byte that the other one reads or writes.
    pub(crate) fn is_disjoint(&self, other: &Io<'_>) -> bool {
        let overlaps = |one: *const u8, one_len: usize, other: *const u8, other_len: usize| {
            let (one, other) = (one as usize, other as usize);
            one < other.saturating_add(other_len) && other < one.saturating_add(one_len)
        };
        let writes_over = |one: &Io<'_>, other: &Io<'_>| {
            let (output, length) = (one.output.cast_const(), one.length);
            overlaps(output, length, other.input, other.length) || overlaps(output, length, other.output, other.length)
        };
        !writes_over(self, other) && !writes_over(other, self)
    }

    /// Returns true if every two of the calls are disjoint.
    pub(crate) fn are_disjoint(ios: &[Io<'_>]) -> bool {
        // Most calls share no buffers, which shows once the buffers are sorted.
        let address_range = |at: *const u8, length: usize| (at as usize, (at as usize).saturating_add(length));
        let others = ios.iter().filter(|io| !io.is_in_place()).map(|io| address_range(io.input, io.length));
        let mut ranges: Vec<_> = ios.iter().map(|io| address_range(io.output, io.length)).chain(others).collect();
        ranges.sort_unstable();
        if ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
            return true;
        }
        ios.iter().enumerate().all(|(index, one)| ios[..index].iter().all(|other| one.is_disjoint(other)))
    }

    /// Ends the call successfully with `written` bytes written.
    pub(crate) fn succeed(&mut self, written: usize) -> i32 {
        if !self.written.is_null() {
            // SAFETY: the call.
            unsafe { *self.written = written };
        }
        1
    }

    pub(crate) fn fail(&mut self) -> i32 {
        self.succeed(0);
        0
    }

    /// Returns a call over the first `at` bytes.
    pub(crate) fn first(&mut self, at: usize) -> Io<'_> {
        Io { length: at.min(self.length), call: PhantomData, ..*self }
    }

    /// Returns a call over the bytes after the first `at` bytes.
    pub(crate) fn after(&mut self, at: usize) -> Io<'_> {
        let at = at.min(self.length);
        Io {
            output: self.output.wrapping_add(at),
            room: self.room.saturating_sub(at),
            input: self.input.wrapping_add(at),
            length: self.length - at,
            call: PhantomData,
            ..*self
        }
    }

    /// Returns the written output, which has the length of the input.
    pub(crate) fn output(&mut self) -> &[u8] {
        self.buffers().map_or(&[], |data| match data {
            Buffers::InPlace(output) | Buffers::Separate { output, .. } => output,
        })
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn written(&self) -> usize {
        // SAFETY: the call; a successful call has set the number.
        if self.written.is_null() { 0 } else { unsafe { *self.written } }
    }
}
