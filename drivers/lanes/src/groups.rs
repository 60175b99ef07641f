//! Splits messages into groups, for kernels that take many of them at a time.

use core::mem::{MaybeUninit, needs_drop};

/// Maximum messages in a group. Large enough to amortise the latency at the beginning of a group, such as the latency of XTS
/// tweaks.
pub(crate) const MAX_GROUP: usize = 32;

/// Runs all messages, at most [`MAX_GROUP`] at a time.
pub(crate) fn run_in_groups<T>(mut messages: impl Iterator<Item = T>, mut run: impl FnMut(&mut [T])) {
    const { assert!(!needs_drop::<T>(), "elements are not dropped") }
    let mut group = [const { MaybeUninit::uninit() }; MAX_GROUP];
    loop {
        let mut count = 0;
        while count < MAX_GROUP
            && let Some(message) = messages.next()
        {
            group[count].write(message);
            count += 1;
        }
        if count == 0 {
            return;
        }
        // SAFETY: the loop above wrote the first `count` elements.
        run(unsafe { group[..count].assume_init_mut() });
    }
}
