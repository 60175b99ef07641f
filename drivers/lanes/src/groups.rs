//! Messages in groups, for what takes many of them at a time.

use core::mem::{MaybeUninit, needs_drop};

/// Most messages in a group: enough for what the first of them waits for, as the tweak of XTS is, not to count.
pub(crate) const AT_ONCE: usize = 32;

/// Runs all messages, [`AT_ONCE`] or fewer at a time.
pub(crate) fn in_groups<T>(mut messages: impl Iterator<Item = T>, mut run: impl FnMut(&mut [T])) {
    const { assert!(!needs_drop::<T>(), "they are forgotten") }
    let mut group = [const { MaybeUninit::uninit() }; AT_ONCE];
    loop {
        let mut count = 0;
        while count < AT_ONCE
            && let Some(message) = messages.next()
        {
            group[count].write(message);
            count += 1;
        }
        if count == 0 {
            return;
        }
        // SAFETY: so many were just written.
        run(unsafe { group[..count].assume_init_mut() });
    }
}
