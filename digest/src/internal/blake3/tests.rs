use super::*;

#[test]
fn keys_are_wiped() {
    let mut start = Box::new(core::mem::ManuallyDrop::new(Start::keyed(&[7; 32])));
    // SAFETY: it is dropped once, and only a plain field that `drop` leaves in place is looked at after.
    unsafe { core::mem::ManuallyDrop::drop(&mut start) };
    assert_eq!(start.key, [0; 8]);
}
