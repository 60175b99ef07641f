//! Arrays from Arrow's C data interface with any offsets, views, sizes and lengths: every value is an error or lies in the buffers.
//!
//! The interface has no lengths of buffers. So the buffers here are as long as the array's lengths require, which every producer
//! guarantees.

#![no_main]

use std::ffi::c_void;
use std::ptr;

use arbitrary::Arbitrary;
use gantry_abi_arrow::raw::ArrowArray;
use gantry_abi_arrow::{Column, Layout};
use gantry_lab::memory::{CountingAllocator, run_within};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    layout: u8,
    length: u8,
    offset: u8,
    null_count: i8,
    is_table: bool,
    /// A bit for each of the first eight buffers: a buffer whose bit is 0 is null.
    present: u8,
    validity: &'a [u8],
    /// Offsets, views or values.
    values: &'a [u8],
    /// The data that offsets refer to, or the data of each buffer of views.
    data: Vec<&'a [u8]>,
    /// A number of the array to change, and its new value.
    odd: Option<(u8, i64)>,
}

/// Returns a buffer of exactly this length, so that AddressSanitizer detects reads beyond it.
fn padded(bytes: &[u8], len: usize) -> Box<[u8]> {
    bytes.iter().copied().chain(std::iter::repeat(0)).take(len).collect()
}

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

/// Marks the structure as released; the target frees its memory.
unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: a structure that was passed to `Column::new`.
    unsafe { (*array).release = None };
}

fuzz_target!(|input: Input<'_>| {
    let (length, offset) = (usize::from(input.length), usize::from(input.offset));
    let (layout, width, extra) = match input.layout % 5 {
        0 => (Layout::Null, 0, 0),
        1 => (Layout::Bits32, 4, 1),
        2 => (Layout::Bits64, 8, 1),
        3 => (Layout::Views, 16, 0),
        _ => (Layout::Fixed(3), 3, 0),
    };
    // The structure of a child has an offset, too.
    let end = if input.is_table { 2 * offset + length } else { offset + length };
    let validity = padded(input.validity, end.div_ceil(8));
    let values = padded(input.values, (end + extra) * width);
    let mut buffers: Vec<Box<[u8]>> = vec![validity.clone(), values.clone()];
    match layout {
        Layout::Null => buffers.clear(),
        Layout::Fixed(_) => {}
        Layout::Views => {
            let data: Vec<_> = input.data.iter().take(4).map(|data| Box::from(*data)).collect();
            let sizes = data.iter().flat_map(|data: &Box<[u8]>| (data.len() as i64).to_ne_bytes()).collect();
            buffers.extend(data);
            buffers.push(sizes);
        }
        Layout::Bits32 | Layout::Bits64 => {
            let last = values.chunks_exact(width).nth(end).expect("one more than values");
            let last = if width == 4 {
                i64::from(i32::from_ne_bytes(last.try_into().expect("4 bytes")))
            } else {
                i64::from_ne_bytes(last.try_into().expect("8 bytes"))
            };
            // The last offset is the producer's statement of the data's length.
            let Ok(len @ 0..0x10000) = usize::try_from(last.max(0)) else { return };
            buffers.push(padded(input.data.first().copied().unwrap_or_default(), len));
        }
    }
    let is_present = |index: usize| index > 7 || input.present >> index & 1 == 1;
    let at =
        |(index, buffer): (usize, &Box<[u8]>)| if is_present(index) { buffer.as_ptr().cast() } else { ptr::null() };
    let mut pointers: Vec<*const c_void> = buffers.iter().enumerate().map(at).collect();
    let mut array = ArrowArray {
        length: length as i64,
        null_count: i64::from(input.null_count),
        offset: offset as i64,
        n_buffers: pointers.len() as i64,
        buffers: pointers.as_mut_ptr(),
        release: Some(release),
        ..ArrowArray::released()
    };
    match input.odd {
        Some((0, length)) if length <= 0 => array.length = length,
        Some((1, offset)) if offset <= 0 || offset > 1 << 60 => array.offset = offset,
        Some((2, n_buffers)) if n_buffers < array.n_buffers => array.n_buffers = n_buffers,
        _ => {}
    }
    let mut bits: [*const c_void; 1] = [validity.as_ptr().cast()];
    let (mut own, mut outer, mut children) = (array, ArrowArray::released(), [ptr::null_mut()]);
    if input.is_table {
        own.length += offset as i64;
        children[0] = &raw mut own;
        outer = ArrowArray {
            length: length as i64,
            null_count: -1,
            offset: offset as i64,
            n_buffers: 1,
            n_children: 1,
            buffers: bits.as_mut_ptr(),
            children: children.as_mut_ptr(),
            release: Some(release),
            ..ArrowArray::released()
        };
    }
    // SAFETY: the buffers are as long as the lengths and the last offset require, and outlive the column.
    let column = unsafe {
        let taken = ArrowArray::take(if input.is_table { &raw mut outer } else { &raw mut own });
        run_within(1 << 10, || Column::new(taken, layout, input.is_table))
    };
    let Ok(column) = column else { return };
    for index in 0..column.len() {
        if let Ok(Some(value)) = column.value(index) {
            // Reads every byte.
            std::hint::black_box(value.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
        }
    }
});
