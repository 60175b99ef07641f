//! Imported columns: slices, null values, and malformed arrays.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::raw::ArrowSchema;

/// A producer of arrays that own their buffers. [`RELEASED`] counts releases.
struct Producer {
    buffers: Vec<Option<Vec<u8>>>,
    length: i64,
    offset: i64,
    null_count: i64,
}

static RELEASED: AtomicUsize = AtomicUsize::new(0);

struct Owned {
    _buffers: Vec<Option<Vec<u8>>>,
    pointers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: the private data are a box of `Owned`, and the children are boxes.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<Owned>());
        owned.children.iter().for_each(|child| drop(Box::from_raw(*child)));
        (*array).release = None;
    }
    RELEASED.fetch_add(1, Ordering::Relaxed);
}

impl Producer {
    fn new(length: i64, buffers: Vec<Option<Vec<u8>>>) -> Self {
        Self { buffers, length, offset: 0, null_count: -1 }
    }

    fn array(self) -> ArrowArray {
        self.with_children(Vec::new())
    }

    fn with_children(self, children: Vec<ArrowArray>) -> ArrowArray {
        let at = |buffer: &Option<Vec<u8>>| buffer.as_ref().map_or(ptr::null(), |buffer| buffer.as_ptr().cast());
        let pointers = self.buffers.iter().map(at).collect();
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut owned = Box::new(Owned { pointers, children, _buffers: self.buffers });
        let (buffers, children) = (owned.pointers.as_mut_ptr(), owned.children.as_mut_ptr());
        ArrowArray {
            length: self.length,
            null_count: self.null_count,
            offset: self.offset,
            n_buffers: owned.pointers.len().try_into().unwrap(),
            n_children: owned.children.len().try_into().unwrap(),
            buffers,
            children,
            release: Some(release),
            private_data: Box::into_raw(owned).cast(),
            ..ArrowArray::released()
        }
    }
}

fn bytes<T: Copy, const N: usize>(numbers: &[T], each: fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(|number| each(*number)).collect()
}

fn offsets(numbers: &[i32]) -> Vec<u8> {
    bytes(numbers, i32::to_ne_bytes)
}

fn column(array: ArrowArray, layout: Layout) -> Result<Column, Error> {
    // SAFETY: the tests of this file pass buffers of sufficient length.
    unsafe { Column::new(array, layout, false) }
}

fn values(column: &Column) -> Vec<Result<Option<&[u8]>, Error>> {
    (0..column.len()).map(|index| column.value(index)).collect()
}

#[test]
fn offsets_of_both_widths_give_the_same_values_for_any_slice() {
    let validity = || Some(vec![0b1101]);
    let data = || Some(b"..alicebob".to_vec());
    let narrow = || Producer::new(4, vec![validity(), Some(offsets(&[2, 7, 7, 10, 10])), data()]);
    let wide = Some(bytes(&[2, 7, 7, 10, 10], i64::to_ne_bytes));
    let all = [Ok(Some(&b"alice"[..])), Ok(None), Ok(Some(b"bob")), Ok(Some(b""))];
    assert_eq!(values(&column(narrow().array(), Layout::Bits32).unwrap()), all);
    let wide = Producer::new(4, vec![validity(), wide, data()]);
    assert_eq!(values(&column(wide.array(), Layout::Bits64).unwrap()), all);
    let sliced = Producer { offset: 1, length: 2, ..narrow() };
    assert_eq!(values(&column(sliced.array(), Layout::Bits32).unwrap()), all[1..3]);
}

#[test]
fn invalid_offsets_are_reported_with_the_index_of_the_value() {
    for (numbers, wrong, error) in [
        (&[0, 5, 3, 8][..], 1, Error::InvertedOffsets { index: 1 }),
        (&[-1, 5, 6, 8], 0, Error::InvertedOffsets { index: 0 }),
        (&[0, 9, 9, 8], 0, Error::OutOfBounds { index: 0, data: 8 }),
    ] {
        let array = Producer::new(3, vec![None, Some(offsets(numbers)), Some(b"alicebob".to_vec())]).array();
        assert_eq!(column(array, Layout::Bits32).unwrap().value(wrong), Err(error), "{numbers:?}");
    }
    let array = Producer::new(1, vec![None, Some(offsets(&[0, -3])), Some(Vec::new())]).array();
    assert_eq!(column(array, Layout::Bits32).unwrap_err(), Error::InvertedOffsets { index: 0 });
}

fn view(len: i32, prefix: [u8; 4], buffer: i32, offset: i32) -> Vec<u8> {
    [&len.to_ne_bytes()[..], &prefix, &buffer.to_ne_bytes(), &offset.to_ne_bytes()].concat()
}

#[test]
fn views_are_inline_values_or_references_to_a_buffer() {
    let short = [&12_i32.to_ne_bytes()[..], b"twelve bytes"].concat();
    // A short value whose bytes would be negative numbers.
    let negative = [&12_i32.to_ne_bytes()[..], &[0xff; 12]].concat();
    let data = b"a value that is longer".to_vec();
    let sizes = Some(bytes(&[0, data.len().try_into().unwrap()], i64::to_ne_bytes));
    let views = [short, negative, view(22, *b"a va", 1, 0), view(15, *b"that", 1, 7)].concat();
    let array = Producer::new(4, vec![None, Some(views), Some(vec![]), Some(data.clone()), sizes]).array();
    let column = column(array, Layout::Views).unwrap();
    let expected = [Ok(Some(&b"twelve bytes"[..])), Ok(Some(&[0xff; 12])), Ok(Some(&data)), Ok(Some(&data[7..]))];
    assert_eq!(values(&column), expected);
}

#[test]
fn invalid_views_are_reported_with_the_index_of_the_value() {
    let sizes = || Some(bytes(&[20], i64::to_ne_bytes));
    for (view, error) in [
        (view(-1, *b"....", 0, 0), Error::View { index: 0 }),
        (view(13, *b"....", 1, 0), Error::View { index: 0 }),
        (view(13, *b"....", -1, 0), Error::View { index: 0 }),
        (view(13, *b"....", 0, -1), Error::View { index: 0 }),
        (view(13, *b"....", 0, 8), Error::OutOfBounds { index: 0, data: 20 }),
        (view(i32::MAX, *b"....", 0, i32::MAX), Error::OutOfBounds { index: 0, data: 20 }),
    ] {
        let array = Producer::new(1, vec![None, Some(view.clone()), Some(vec![0; 20]), sizes()]).array();
        assert_eq!(column(array, Layout::Views).unwrap().value(0), Err(error), "{view:?}");
    }
}

#[test]
fn values_of_fixed_size_are_contiguous() {
    let array = Producer { offset: 1, ..Producer::new(2, vec![Some(vec![0b010]), Some(b"aabbcc".to_vec())]) }.array();
    assert_eq!(values(&column(array, Layout::Fixed(2)).unwrap()), [Ok(Some(&b"bb"[..])), Ok(None)]);
    let array = Producer::new(2, vec![None, None]).array();
    assert_eq!(values(&column(array, Layout::Fixed(0)).unwrap()), [Ok(Some(&b""[..])), Ok(Some(b""))]);
    let array = Producer::new(3, vec![]).array();
    assert_eq!(values(&column(array, Layout::Null).unwrap()), [Ok(None), Ok(None), Ok(None)]);
    // The form that polars exports.
    let array = Producer::new(2, vec![None]).array();
    assert_eq!(values(&column(array, Layout::Null).unwrap()), [Ok(None), Ok(None)]);
}

#[test]
fn a_table_of_one_column_combines_both_validity_bitmaps() {
    let child = || {
        let child = Producer::new(4, vec![Some(vec![0b1011]), Some(offsets(&[0, 1, 2, 3, 4])), Some(b"abcd".to_vec())]);
        child.array()
    };
    let table = Producer { offset: 1, ..Producer::new(3, vec![Some(vec![0b0111])]) };
    // SAFETY: the buffers are long enough for these lengths.
    let column = unsafe { Column::new(table.with_children(vec![child()]), Layout::Bits32, true) }.unwrap();
    assert_eq!(values(&column), [Ok(Some(&b"b"[..])), Ok(None), Ok(None)]);
    let short = Producer::new(5, vec![None]).with_children(vec![child()]);
    // SAFETY: as above.
    let error = unsafe { Column::new(short, Layout::Bits32, true) }.unwrap_err();
    assert_eq!(error, Error::Malformed("a child is shorter than its structure"));
}

#[test]
fn a_malformed_array_is_an_error_and_is_released() {
    let good = || vec![None, Some(offsets(&[0, 1])), Some(b"a".to_vec())];
    let cases = [
        (Producer::new(-1, good()), Layout::Bits32),
        (Producer { offset: -1, ..Producer::new(1, good()) }, Layout::Bits32),
        (Producer { offset: i64::MAX, ..Producer::new(1, good()) }, Layout::Bits32),
        (Producer::new(i64::MAX, good()), Layout::Bits32),
        (Producer { null_count: 1, ..Producer::new(1, good()) }, Layout::Bits32),
        (Producer::new(1, good()), Layout::Fixed(1)),
        (Producer::new(1, good()[..2].to_vec()), Layout::Views),
        (Producer::new(1, vec![None, None, None]), Layout::Bits64),
        (Producer::new(1, vec![None, Some(offsets(&[0, 1])), None]), Layout::Bits32),
        (Producer::new(1 << 40, vec![None, None]), Layout::Fixed(usize::MAX)),
    ];
    for (producer, layout) in cases {
        let (array, before) = (producer.array(), RELEASED.load(Ordering::Relaxed));
        let error = column(array, layout).unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{error}");
        // Other tests release arrays at the same time, so the count may grow by more than 1.
        assert!(RELEASED.load(Ordering::Relaxed) > before);
    }
}

#[test]
fn an_empty_column_needs_no_buffers() {
    for layout in [Layout::Bits32, Layout::Bits64, Layout::Fixed(32)] {
        let buffers = vec![None; layout.buffer_count().try_into().unwrap()];
        assert!(column(Producer::new(0, buffers).array(), layout).unwrap().is_empty());
    }
}

#[test]
fn a_released_structure_is_an_error() {
    let mut array = Producer::new(1, vec![None, Some(offsets(&[0, 1])), Some(b"a".to_vec())]).array();
    // SAFETY: this thread owns the array.
    let first = unsafe { ArrowArray::take(&raw mut array) };
    assert_eq!(column(array, Layout::Bits32).unwrap_err(), Error::Released);
    assert_eq!(column(first, Layout::Bits32).unwrap().value(0), Ok(Some(&b"a"[..])));
    // SAFETY: the schema is released.
    assert_eq!(unsafe { Layout::from_schema(&ArrowSchema::released()) }, Err(Error::Released));
}
