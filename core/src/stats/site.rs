//! The row of numbers that a request belongs to.

use crate::algorithm::{Algorithm, Operation};

/// The device (or none), the algorithm and the operation to which a number belongs. The value is the index of their row.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Site(pub(super) usize);

/// Number of sites of one device.
pub(super) const SITES_PER_DEVICE: usize = Algorithm::ENTRY_COUNT;

/// Maximum number of devices in a framework: a set of devices is a bit mask in one word.
pub(crate) const MAX_DEVICES: usize = u64::BITS as usize;

/// Maximum number of sites in a framework.
pub(super) const MAX_SITES: usize = (1 + MAX_DEVICES) * SITES_PER_DEVICE;

impl Site {
    /// Returns the site of work on a device, which is given by its index in the framework.
    #[inline]
    pub(crate) fn new(device: usize, algorithm: Algorithm, operation: Operation) -> Self {
        let Self(entry) = Self::without_device(algorithm, operation);
        Self((1 + device) * SITES_PER_DEVICE + entry)
    }

    /// Returns the site of work that reached no device.
    #[inline]
    pub(crate) fn without_device(algorithm: Algorithm, operation: Operation) -> Self {
        Self(algorithm.entry_index(operation))
    }

    /// Returns the parts of the site.
    pub(super) fn parts(self) -> (Option<usize>, Algorithm, Operation) {
        let (device, entry) = (self.0 / SITES_PER_DEVICE, self.0 % SITES_PER_DEVICE);
        let (algorithm, operation) = Algorithm::of_entry(entry);
        (device.checked_sub(1), algorithm, operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_unique_and_round_trip() {
        let mut indexes = std::collections::BTreeSet::new();
        for algorithm in Algorithm::ALL.iter().copied() {
            for operation in algorithm.kind().operations().iter().copied() {
                let without_device = Site::without_device(algorithm, operation);
                assert_eq!(without_device.parts(), (None, algorithm, operation));
                assert!(indexes.insert(without_device.0));
                for device in [0, 1, 63] {
                    let site = Site::new(device, algorithm, operation);
                    assert_eq!(site.parts(), (Some(device), algorithm, operation));
                    assert!(indexes.insert(site.0));
                }
            }
        }
    }
}
