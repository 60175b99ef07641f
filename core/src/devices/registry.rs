//! The list of a framework's devices, which grows at its end while other threads read it.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::device::RegisteredDevice;
use crate::stats::MAX_DEVICES;

/// The list of a framework's devices. A device in the list is never moved or removed.
pub(crate) struct Registry {
    slots: Box<[UnsafeCell<MaybeUninit<RegisteredDevice>>]>,
    /// Number of slots, from the first on, that hold a device.
    len: AtomicUsize,
    growing: Mutex<()>,
}

// SAFETY: devices are `Send` and `Sync`. A shared list gives shared access to them; new devices go to slots that no thread reads yet.
unsafe impl Sync for Registry {}

/// The right to add devices, held by one thread at a time.
pub(crate) struct GrowGuard<'r> {
    registry: &'r Registry,
    _turn: MutexGuard<'r, ()>,
}

impl Registry {
    pub(crate) fn new(devices: Vec<RegisteredDevice>) -> Self {
        let len = devices.len();
        let filled = devices.into_iter().map(|device| UnsafeCell::new(MaybeUninit::new(device)));
        let free = (len..MAX_DEVICES).map(|_| UnsafeCell::new(MaybeUninit::uninit()));
        Self { slots: filled.chain(free).collect(), len: AtomicUsize::new(len), growing: Mutex::new(()) }
    }

    #[inline]
    pub(crate) fn devices(&self) -> &[RegisteredDevice] {
        let len = self.len.load(Ordering::Acquire);
        // SAFETY: both wrappers have the layout of their content. The first `len` slots hold devices, which `new` or `add` wrote before
        // publishing this number, and which do not change as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), len) }
    }

    /// Waits for the right to add devices.
    pub(crate) fn lock_growth(&self) -> GrowGuard<'_> {
        GrowGuard { registry: self, _turn: self.growing.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl GrowGuard<'_> {
    /// Returns the index of the next device, if there is room for one.
    pub(crate) fn next_index(&self) -> Option<usize> {
        let len = self.registry.len.load(Ordering::Relaxed);
        (len < self.registry.slots.len()).then_some(len)
    }

    /// Adds a device at the next index, if there is room.
    pub(crate) fn add(&mut self, device: RegisteredDevice) {
        let Some(index) = self.next_index() else { return };
        // SAFETY: no thread reads the slots from `len` on, and only this thread writes them, because it holds the lock.
        unsafe { (*self.registry.slots[index].get()).write(device) };
        self.registry.len.store(index + 1, Ordering::Release);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let len = *self.len.get_mut();
        for slot in &mut self.slots[..len] {
            // SAFETY: the first `len` slots hold devices, and nothing borrows them any more.
            unsafe { slot.get_mut().assume_init_drop() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Class;

    fn device(number: usize) -> RegisteredDevice {
        RegisteredDevice::excluded(number.to_string(), Class::Model, "only a name".to_owned())
    }

    #[test]
    fn the_list_is_readable_while_devices_are_added() {
        let registry = Registry::new(vec![device(0)]);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    let devices = registry.devices();
                    for (number, device) in devices.iter().enumerate() {
                        assert_eq!(device.name(), number.to_string());
                    }
                    if devices.len() == MAX_DEVICES {
                        break;
                    }
                    std::thread::yield_now();
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..MAX_DEVICES {
                        let mut growing = registry.lock_growth();
                        if let Some(index) = growing.next_index() {
                            growing.add(device(index));
                        }
                    }
                });
            }
            reader.join().unwrap();
        });
        registry.lock_growth().add(device(MAX_DEVICES));
        assert_eq!(registry.devices().len(), MAX_DEVICES);
    }
}
