//! Memory from C: NULL, alignment, lengths and sizes are checked before anything is read.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use crate::abi;
use crate::code::Code;
use crate::ranges::Range;

/// A struct of `gantry.h` that begins with its size. Every bit pattern is a valid value.
///
/// # Safety
/// It is `repr(C)`, has no padding, begins with a `usize`, and all its fields are integers and raw pointers.
pub(super) unsafe trait Versioned: Copy {}

// SAFETY: declared so in `abi.rs`.
unsafe impl Versioned for abi::Params {}
// SAFETY: declared so in `abi.rs`.
unsafe impl Versioned for abi::Request {}
// SAFETY: declared so in `abi.rs`.
unsafe impl Versioned for abi::Column {}

/// Upper bound for the size of any version of a struct, in bytes.
const MAX_STRUCT_SIZE: usize = 4096;

/// Returns the size in a struct's first field. If a struct grows, this function must also accept the sizes of its older versions.
///
/// # Safety
/// The call.
pub(super) unsafe fn size_of_struct<T: Versioned>(at: *const T) -> Result<usize, Code> {
    check_pointer(at)?;
    // SAFETY: the call: the struct begins with its size, and the pointer has at least that alignment.
    let size = unsafe { at.cast::<usize>().read() };
    let is_known_size = (size_of::<T>()..=MAX_STRUCT_SIZE).contains(&size) && size.is_multiple_of(align_of::<T>());
    if is_known_size { Ok(size) } else { Err(Code::Version) }
}

/// Returns a copy of a struct of any version. Fields that are unknown here must be zero.
///
/// # Safety
/// The call: the struct can be read in its full size.
pub(super) unsafe fn read_struct<T: Versioned>(at: *const T) -> Result<T, Code> {
    // SAFETY: the call.
    let size = unsafe { size_of_struct(at) }?;
    // SAFETY: the call: the rest of the struct, within its size.
    let rest = unsafe { slice::from_raw_parts(at.cast::<u8>().add(size_of::<T>()), size - size_of::<T>()) };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Code::Version);
    }
    // SAFETY: the call; all bit patterns are valid.
    Ok(unsafe { at.read() })
}

/// Returns the size in bytes of `count` elements of `size` bytes each. Fails if it exceeds `isize::MAX`, the limit for a slice.
pub(super) fn array_bytes(count: usize, size: usize) -> Result<usize, Code> {
    count.checked_mul(size).filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or(Code::Argument)
}

/// Checks that a pointer is NULL only if `len` is 0, and that the buffer fits into the address space.
pub(super) fn check_bytes(at: *const c_void, len: usize) -> Result<(), Code> {
    let is_valid = len == 0 || !at.is_null() && isize::try_from(len).is_ok() && at.addr().checked_add(len).is_some();
    if is_valid { Ok(()) } else { Err(Code::Argument) }
}

/// Checks that a pointer is neither NULL nor misaligned.
pub(super) fn check_pointer<T>(at: *const T) -> Result<(), Code> {
    if at.is_null() || !at.is_aligned() { Err(Code::Argument) } else { Ok(()) }
}

pub(super) fn range(at: *const c_void, len: usize) -> Range {
    Range::new(at.addr(), len)
}

/// Returns a buffer for reading.
///
/// # Safety
/// The call; [`check_bytes`] has succeeded.
pub(super) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the call, as above.
    unsafe { slice::from_raw_parts(at.cast(), len) }
}

/// Returns a buffer for writing.
///
/// # Safety
/// The call; [`check_bytes`] has succeeded, and no other slice of the call overlaps.
pub(super) unsafe fn bytes_mut<'a>(at: *mut c_void, len: usize) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the call, as above.
    unsafe { slice::from_raw_parts_mut(at.cast(), len) }
}

/// Returns an array of elements for which all bit patterns are valid.
///
/// # Safety
/// The call.
pub(super) unsafe fn array<'a, T: Copy>(at: *const T, count: usize) -> Result<&'a [T], Code> {
    if count == 0 {
        return Ok(&[]);
    }
    check_pointer(at)?;
    check_bytes(at.cast(), array_bytes(count, size_of::<T>())?)?;
    // SAFETY: the call; alignment and size were checked.
    Ok(unsafe { slice::from_raw_parts(at, count) })
}

/// Returns a C string as a `str`. Fails with `error` if the string is not UTF-8.
///
/// # Safety
/// The call.
pub(super) unsafe fn str_from_c<'a>(at: *const c_char, error: Code) -> Result<&'a str, Code> {
    check_pointer(at)?;
    // SAFETY: the call: a C string.
    unsafe { CStr::from_ptr(at) }.to_str().map_err(|_| error)
}

/// Writes a result.
///
/// # Safety
/// The call.
pub(super) unsafe fn write_out<T>(at: *mut T, value: T) -> Result<(), Code> {
    check_pointer(at)?;
    // SAFETY: the call. The previous content is not an object of ours, and needs no drop.
    unsafe { at.write(value) };
    Ok(())
}
