//! The row of numbers that a request belongs to.

use crate::algorithm::{Algorithm, Operation};

/// The subject of a number: a device, or none; an algorithm and its operation. The value is the index of its row.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Site(pub(super) usize);

/// Number of sites of one device.
pub(super) const WORKS: usize = Algorithm::PLACES;

/// Maximum number of devices in a framework: a set of devices is a bit mask in one word.
pub(crate) const MOST_DEVICES: usize = u64::BITS as usize;

/// Maximum number of sites in a framework.
pub(super) const MOST_SITES: usize = (1 + MOST_DEVICES) * WORKS;

impl Site {
    /// Returns the site of work on a device, which is given by its place in the framework.
    #[inline]
    pub(crate) fn new(device: usize, algorithm: Algorithm, operation: Operation) -> Self {
        let Self(work) = Self::nowhere(algorithm, operation);
        Self((1 + device) * WORKS + work)
    }

    /// Returns the site of work that reached no device.
    #[inline]
    pub(crate) fn nowhere(algorithm: Algorithm, operation: Operation) -> Self {
        Self(algorithm.place(operation))
    }

    /// Returns the parts of the site.
    pub(super) fn parts(self) -> (Option<usize>, Algorithm, Operation) {
        let (device, work) = (self.0 / WORKS, self.0 % WORKS);
        let (algorithm, operation) = Algorithm::at_place(work);
        (device.checked_sub(1), algorithm, operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_unique_and_round_trip() {
        let mut places = std::collections::BTreeSet::new();
        for algorithm in Algorithm::ALL.iter().copied() {
            for operation in algorithm.kind().operations().iter().copied() {
                let nowhere = Site::nowhere(algorithm, operation);
                assert_eq!(nowhere.parts(), (None, algorithm, operation));
                assert!(places.insert(nowhere.0));
                for device in [0, 1, 63] {
                    let site = Site::new(device, algorithm, operation);
                    assert_eq!(site.parts(), (Some(device), algorithm, operation));
                    assert!(places.insert(site.0));
                }
            }
        }
    }
}
