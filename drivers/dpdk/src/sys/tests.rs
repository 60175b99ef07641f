use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use gantry_core::driver::Region;

use super::*;

#[test]
fn ranges_follow_dpdks_semantics() {
    let range = |min, max, step| LengthRange { min, max, step, spare: 0 };
    assert!(range(16, 16, 0).allows(16) && !range(16, 16, 0).allows(17));
    assert!(range(16, 32, 8).allows(24) && !range(16, 32, 8).allows(20) && !range(16, 32, 8).allows(40));
    assert!(range(1, 20, 1).allows(12) && !range(1, 20, 1).allows(0));
    assert!(range(0, 0, 0).allows(0));
}

#[test]
#[cfg(target_pointer_width = "64")]
fn structures_have_the_sizes_in_the_shim() {
    let sizes = [
        size_of::<CapabilityRecord>(),
        size_of::<DeviceRecord>(),
        size_of::<SessionRecord>(),
        size_of::<RsaRecord>(),
        size_of::<SlotAddresses>(),
        size_of::<Request>(),
        size_of::<Completion>(),
        size_of::<ShimFunctions>(),
    ];
    // The shim asserts the same numbers.
    assert_eq!(sizes, [40, 152, 56, 32, 16, 64, 8, 144]);
}

/// Creates a region over memory that the caller also keeps, and that others may change at any time.
pub(crate) fn foreign_region(memory: &Arc<Vec<AtomicU8>>) -> Region {
    let start = NonNull::from(memory.as_slice()).cast();
    // SAFETY: the clone of `memory` keeps the bytes, and they are only used through atomics.
    unsafe { Region::foreign(start, memory.len(), memory.clone()) }
}
