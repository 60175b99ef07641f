//! Columns of a table: values back to back in one buffer, as in Arrow.

use crate::algorithm::Algorithm;
use crate::error::Error;
use crate::hash_function::plain_setup;
use crate::many::hash_messages;
use crate::messages::Messages;

/// The bounds of a column's values, in bytes: `n + 1` numbers for `n` values, not decreasing. The first may be greater than 0.
#[derive(Clone, Copy, Debug)]
pub enum Offsets<'a> {
    /// Offsets of Arrow's `Binary` and `Utf8`.
    Bits32(&'a [i32]),
    /// Offsets of Arrow's `LargeBinary` and `LargeUtf8`.
    Bits64(&'a [i64]),
}

/// A validity bitmap: bit `offset + i` is 1 if value `i` is present. Bits count from the lowest of each byte.
#[derive(Clone, Copy, Debug)]
pub struct Validity<'a> {
    /// The bitmap.
    pub bits: &'a [u8],
    /// The bit of the first value.
    pub offset: usize,
}

/// A column of strings or byte strings in the layout of Arrow's variable-size binary arrays.
///
/// ```
/// use gantry_digest::{Algorithm, Column, Error, Offsets, Validity, digest_column};
///
/// // "alice", null, "bob"
/// let column = Column::new(b"alicebob", Offsets::Bits32(&[0, 5, 5, 8]), Some(Validity { bits: &[0b101], offset: 0 }))?;
/// let mut digests = [0xff; 3 * 16];
/// digest_column(Algorithm::Md5, &column, &mut digests)?;
/// assert_eq!(digests[..2], [0x63, 0x84]);
/// assert_eq!(digests[16..32], [0; 16]);
///
/// let error = Column::new(b"alicebob", Offsets::Bits64(&[0, 5, 4, 8]), None).unwrap_err();
/// assert_eq!(error, Error::DecreasingOffsets { index: 1 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    values: &'a [u8],
    offsets: Offsets<'a>,
    validity: Option<Validity<'a>>,
}

impl<'a> Column<'a> {
    /// Creates a column. Checks every offset, and returns an error for the first wrong one. `validity` may be `None` if no value
    /// is missing.
    pub fn new(values: &'a [u8], offsets: Offsets<'a>, validity: Option<Validity<'a>>) -> Result<Self, Error> {
        match offsets {
            Offsets::Bits32(offsets) => check_offsets(values.len(), offsets)?,
            Offsets::Bits64(offsets) => check_offsets(values.len(), offsets)?,
        }
        let column = Column { values, offsets, validity };
        if let Some(Validity { bits, offset }) = validity {
            // Eight times the bytes of a slice can overflow `usize`.
            let found = (bits.len() as u128 * 8).saturating_sub(offset as u128);
            if found < column.len() as u128 {
                return Err(Error::ValidityLength { needed: column.len(), found: found as usize });
            }
        }
        Ok(column)
    }

    /// Number of values, including missing ones.
    pub fn len(&self) -> usize {
        match self.offsets {
            Offsets::Bits32(offsets) => offsets.len() - 1,
            Offsets::Bits64(offsets) => offsets.len() - 1,
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a value, or `None` if it is missing.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn value(&self, index: usize) -> Option<&'a [u8]> {
        if let Some(Validity { bits, offset }) = self.validity {
            let bit = offset + index;
            if bits[bit / 8] >> (bit % 8) & 1 == 0 {
                return None;
            }
        }
        #[allow(clippy::cast_sign_loss, reason = "`new` has checked that no offset is negative")]
        let (begin, end) = match self.offsets {
            Offsets::Bits32(offsets) => (offsets[index] as usize, offsets[index + 1] as usize),
            Offsets::Bits64(offsets) => (offsets[index] as usize, offsets[index + 1] as usize),
        };
        Some(&self.values[begin..end])
    }
}

/// Writes the digests of the values, one after the other. `output` must have [`digest_size`](Algorithm::digest_size) bytes for
/// each. Missing values get zeros.
pub fn digest_column(algorithm: Algorithm, column: &Column<'_>, output: &mut [u8]) -> Result<(), Error> {
    hash_messages(algorithm, plain_setup(algorithm), None, column, output)
}

impl Messages for Column<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn message(&self, index: usize) -> Option<&[u8]> {
        self.value(index)
    }
}

/// Returns an error for the first wrong offset.
fn check_offsets<T: Copy + Ord + Default + TryInto<usize>>(data: usize, offsets: &[T]) -> Result<(), Error> {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Err(Error::NoOffsets) };
    let is_sorted = offsets.is_sorted();
    let within = |offset: T| offset.try_into().is_ok_and(|offset| offset <= data);
    if is_sorted && *first >= T::default() && within(*last) {
        return Ok(());
    }
    if *first < T::default() {
        return Err(Error::OffsetNegative { index: 0 });
    }
    for (index, [begin, end]) in offsets.array_windows().enumerate() {
        if end < begin {
            return Err(Error::DecreasingOffsets { index });
        }
        if !within(*end) {
            return Err(Error::OffsetBeyondData { index, data });
        }
    }
    // There are no values, but the only offset is beyond the data.
    Err(Error::OffsetBeyondData { index: 0, data })
}

#[cfg(test)]
mod tests;
