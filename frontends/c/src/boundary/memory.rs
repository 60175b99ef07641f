//! Memory that C passes: NULL, alignment, lengths and sizes are looked at before anything is read.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use crate::abi;
use crate::code::Code;
use crate::ranges::Range;

/// A struct of `gantry.h` that begins with its size. Every pattern of bits is a value of it.
///
/// # Safety
/// It is `repr(C)`, has no padding, begins with a `usize`, and has fields of integers and raw pointers only.
pub(super) unsafe trait Versioned: Copy {}

// SAFETY: so it is declared.
unsafe impl Versioned for abi::Params {}
// SAFETY: so it is declared.
unsafe impl Versioned for abi::Request {}
// SAFETY: so it is declared.
unsafe impl Versioned for abi::Column {}

/// No struct of any version is larger.
const LARGEST: usize = 4096;

/// The size that a struct says it has. One that grows has to be taken in its shorter size, too.
///
/// # Safety
/// The call.
pub(super) unsafe fn size_of_struct<T: Versioned>(at: *const T) -> Result<usize, Code> {
    check_pointer(at)?;
    // SAFETY: the call: the struct begins with its size, and the pointer is aligned for more than that.
    let size = unsafe { at.cast::<usize>().read() };
    let is_of_a_version = (size_of::<T>()..=LARGEST).contains(&size) && size.is_multiple_of(align_of::<T>());
    if is_of_a_version { Ok(size) } else { Err(Code::Version) }
}

/// A copy of a struct of any version whose fields that are not known here are zeros.
///
/// # Safety
/// The call: as many bytes as the struct says can be read.
pub(super) unsafe fn read<T: Versioned>(at: *const T) -> Result<T, Code> {
    // SAFETY: the call.
    let size = unsafe { size_of_struct(at) }?;
    // SAFETY: the call: the rest of the struct, within its size.
    let rest = unsafe { slice::from_raw_parts(at.cast::<u8>().add(size_of::<T>()), size - size_of::<T>()) };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Code::Version);
    }
    // SAFETY: the call, and any bits are a value.
    Ok(unsafe { at.read() })
}

/// `count` things of `size` bytes in a row, as bytes.
pub(super) fn extent(count: usize, size: usize) -> Result<usize, Code> {
    count.checked_mul(size).filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or(Code::Argument)
}

/// NULL only where there is nothing, and no length that cannot be.
pub(super) fn check_bytes(at: *const c_void, len: usize) -> Result<(), Code> {
    let good = len == 0 || !at.is_null() && isize::try_from(len).is_ok() && at.addr().checked_add(len).is_some();
    if good { Ok(()) } else { Err(Code::Argument) }
}

/// Neither NULL nor misaligned.
pub(super) fn check_pointer<T>(at: *const T) -> Result<(), Code> {
    if at.is_null() || !at.is_aligned() { Err(Code::Argument) } else { Ok(()) }
}

/// The addresses of a buffer.
pub(super) fn range(at: *const c_void, len: usize) -> Range {
    Range::new(at.addr(), len)
}

/// What is read.
///
/// # Safety
/// The call, and [`check_bytes`] was content.
pub(super) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the call, as above.
    unsafe { slice::from_raw_parts(at.cast(), len) }
}

/// What is written.
///
/// # Safety
/// The call, [`check_bytes`] was content, and nothing else that the call has as a slice overlaps.
pub(super) unsafe fn bytes_mut<'a>(at: *mut c_void, len: usize) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the call, as above.
    unsafe { slice::from_raw_parts_mut(at.cast(), len) }
}

/// An array of things that are aligned, of which any bits are a value.
///
/// # Safety
/// The call.
pub(super) unsafe fn array<'a, T: Copy>(at: *const T, count: usize) -> Result<&'a [T], Code> {
    if count == 0 {
        return Ok(&[]);
    }
    check_pointer(at)?;
    check_bytes(at.cast(), extent(count, size_of::<T>())?)?;
    // SAFETY: the call, and the bounds of a slice were checked.
    Ok(unsafe { slice::from_raw_parts(at, count) })
}

/// A text that ends in 0; `wrong` where it is not UTF-8.
///
/// # Safety
/// The call.
pub(super) unsafe fn text<'a>(at: *const c_char, wrong: Code) -> Result<&'a str, Code> {
    check_pointer(at)?;
    // SAFETY: the call: a string of C.
    unsafe { CStr::from_ptr(at) }.to_str().map_err(|_| wrong)
}

/// Writes to a place for one result.
///
/// # Safety
/// The call.
pub(super) unsafe fn put<T>(at: *mut T, value: T) -> Result<(), Code> {
    check_pointer(at)?;
    // SAFETY: the call. What was there is nothing of ours to be dropped.
    unsafe { at.write(value) };
    Ok(())
}
