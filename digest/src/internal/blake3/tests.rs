use super::*;

#[test]
fn keys_are_wiped() {
    let mut start = Box::new(core::mem::ManuallyDrop::new(Start::keyed(&[7; 32])));
    // SAFETY: `start` is dropped once. Only a plain field that `drop` leaves in place is read afterwards.
    unsafe { core::mem::ManuallyDrop::drop(&mut start) };
    assert_eq!(start.key, [0; 8]);
}
