//! Compares secrets.

/// Compares two tags in a time that depends on their lengths only.
///
/// All comparisons of secrets, in core and in drivers, use this function.
#[must_use]
pub fn tags_equal(a: &[u8], b: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(a, b).into()
}
