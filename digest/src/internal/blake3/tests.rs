use super::*;

#[test]
fn keys_are_wiped() {
    let mut mode = Box::new(core::mem::ManuallyDrop::new(Mode::keyed(&[7; 32])));
    // SAFETY: `mode` is dropped once. Only a plain field that `drop` leaves in place is read afterwards.
    unsafe { core::mem::ManuallyDrop::drop(&mut mode) };
    assert_eq!(mode.key, [0; 8]);
}
