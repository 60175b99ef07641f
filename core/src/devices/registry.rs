//! The devices of a framework: a list that grows at its end while others read it.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::device::RegisteredDevice;
use crate::stats::MOST_DEVICES;

/// The devices of a framework. What is in the list stays there, where it is, for as long as the list lives.
pub(crate) struct Registry {
    slots: Box<[UnsafeCell<MaybeUninit<RegisteredDevice>>]>,
    /// So many slots, from the first on, hold a device.
    len: AtomicUsize,
    growing: Mutex<()>,
}

// SAFETY: through a shared list, devices are shared, which are Sync, and put into slots that nobody reads yet.
unsafe impl Sync for Registry {}

/// The right to add devices, which one thread has at a time.
pub(crate) struct Growing<'r> {
    registry: &'r Registry,
    _turn: MutexGuard<'r, ()>,
}

impl Registry {
    pub(crate) fn new(devices: Vec<RegisteredDevice>) -> Self {
        let len = devices.len();
        let there = devices.into_iter().map(|device| UnsafeCell::new(MaybeUninit::new(device)));
        let free = (len..MOST_DEVICES).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
        Self { slots: there.chain(free).collect(), len: AtomicUsize::new(len), growing: Mutex::new(()) }
    }

    #[inline]
    pub(crate) fn devices(&self) -> &[RegisteredDevice] {
        let len = self.len.load(Ordering::Acquire);
        // SAFETY: both wrappers have the layout of what they hold. The first `len` slots hold devices, which `add` finished before
        // it published this number, and which nobody changes as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), len) }
    }

    /// Waits for the turn to add devices.
    pub(crate) fn grow(&self) -> Growing<'_> {
        Growing { registry: self, _turn: self.growing.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Growing<'_> {
    /// The place of the next device, if there is room for one.
    pub(crate) fn next(&self) -> Option<usize> {
        let len = self.registry.len.load(Ordering::Relaxed);
        (len < self.registry.slots.len()).then_some(len)
    }

    /// Adds a device at the next place. Does nothing when there is none.
    pub(crate) fn add(&mut self, device: RegisteredDevice) {
        let Some(place) = self.next() else { return };
        // SAFETY: nobody reads a slot from `len` on, and nobody else writes one: this thread has the turn.
        unsafe { (*self.registry.slots[place].get()).write(device) };
        self.registry.len.store(place + 1, Ordering::Release);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let len = *self.len.get_mut();
        for slot in &mut self.slots[..len] {
            // SAFETY: the first `len` slots hold devices, and nobody borrows them any more.
            unsafe { slot.get_mut().assume_init_drop() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Class;

    fn device(number: usize) -> RegisteredDevice {
        RegisteredDevice::excluded(number.to_string(), Class::Model, "a name is all that it has".to_owned())
    }

    #[test]
    fn devices_are_read_while_others_are_added_until_there_is_no_room() {
        let registry = Registry::new(vec![device(0)]);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    let devices = registry.devices();
                    for (number, device) in devices.iter().enumerate() {
                        assert_eq!(device.name(), number.to_string());
                    }
                    if devices.len() == MOST_DEVICES {
                        break;
                    }
                    std::thread::yield_now();
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..MOST_DEVICES {
                        let mut growing = registry.grow();
                        if let Some(place) = growing.next() {
                            growing.add(device(place));
                        }
                    }
                });
            }
            reader.join().unwrap();
        });
        registry.grow().add(device(MOST_DEVICES));
        assert_eq!(registry.devices().len(), MOST_DEVICES);
    }
}
