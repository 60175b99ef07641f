//! Memory that detects writes outside of its buffer.

/// Bytes on each side that must not change: more than the widest register or cache line.
const GUARD_BYTES: usize = 128;

/// Bytes after which the poison repeats.
const POISON_PERIOD: usize = 256;

/// Content of memory that was not written yet. A byte is never zero, and differs from its neighbours. The two periods allow reading one
/// period from any offset.
const POISON: [u8; 2 * POISON_PERIOD] = {
    let mut bytes = [0; 2 * POISON_PERIOD];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = (index as u8).wrapping_mul(29) | 0x80;
        index += 1;
    }
    bytes
};

/// A buffer between guard bytes, at a chosen distance from an aligned address.
#[derive(Debug)]
pub(crate) struct GuardedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl GuardedBuffer {
    /// Makes a buffer with these contents, `offset` bytes after an address that is a multiple of 64.
    pub(crate) fn new(contents: &[u8], offset: usize) -> Self {
        let mut guarded = Self::poisoned(contents.len(), offset);
        guarded.bytes_mut().copy_from_slice(contents);
        guarded
    }

    /// Makes a buffer of `length` bytes that were not written yet.
    pub(crate) fn poisoned(length: usize, offset: usize) -> Self {
        let memory = POISON[..POISON_PERIOD].repeat((2 * GUARD_BYTES + 64 + offset + length).div_ceil(POISON_PERIOD));
        let start = GUARD_BYTES + memory[GUARD_BYTES..].as_ptr().align_offset(64) % 64 + offset;
        Self { memory, start, length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }

    /// Returns whether all bytes around the buffer are unchanged.
    pub(crate) fn is_intact(&self) -> bool {
        let end = self.start + self.length;
        self.is_poison(0, self.start) && self.is_poison(end, self.memory.len())
    }

    /// Returns whether the buffer, made by [`poisoned`](Self::poisoned), is unchanged.
    pub(crate) fn is_untouched(&self) -> bool {
        self.is_poison(self.start, self.start + self.length)
    }

    fn is_poison(&self, from: usize, to: usize) -> bool {
        (from..to).step_by(POISON_PERIOD).all(|at| {
            let end = to.min(at + POISON_PERIOD);
            self.memory[at..end] == POISON[at % POISON_PERIOD..][..end - at]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_the_requested_offset() {
        for offset in 0..70 {
            let guarded = GuardedBuffer::new(&[1, 2, 3], offset);
            assert_eq!(guarded.bytes(), [1, 2, 3]);
            assert_eq!(guarded.bytes().as_ptr() as usize % 64, offset % 64);
            assert!(guarded.is_intact());
        }
    }

    #[test]
    fn detects_a_write_before_and_after_the_buffer() {
        for at in [-1, 3_isize] {
            let mut guarded = GuardedBuffer::poisoned(3, 5);
            let at = guarded.start.wrapping_add_signed(at);
            guarded.memory[at] ^= 1;
            assert!(!guarded.is_intact() && guarded.is_untouched());
        }
        let mut guarded = GuardedBuffer::poisoned(3, 5);
        guarded.bytes_mut()[2] = 0;
        assert!(guarded.is_intact() && !guarded.is_untouched());
    }
}
