//! Pieces of regions, and lists of them.

use std::fmt;
use std::ptr::NonNull;

use smallvec::SmallVec;

use super::Region;
use crate::algorithm::Misuse;

/// A piece that lies within a [`Region`], made by [`Region::segment`]. It keeps the region alive.
#[derive(Clone)]
pub struct Segment {
    region: Region,
    offset: usize,
    len: usize,
}

#[allow(clippy::len_without_is_empty, reason = "an amount of work, not a container")]
impl Segment {
    /// Makes a segment; the caller has checked the bounds.
    pub(super) fn new(region: Region, offset: usize, len: usize) -> Self {
        Self { region, offset, len }
    }

    /// Returns the region of the segment.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the offset of the segment in the region. A device adds it to the start of the region in its own address space.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the start of the segment, like [`Region::address`].
    pub fn address(&self) -> NonNull<u8> {
        let start = self.region.address();
        start.map_addr(|address| address.saturating_add(self.offset))
    }
}

impl fmt::Debug for Segment {
    /// Shows no data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of {:?}", self.len, self.offset, self.region)
    }
}

/// Data in pieces: a scatter-gather list. A list of one segment needs no allocation.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    list: SmallVec<[Segment; 1]>,
    bytes: usize,
}

impl Segments {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a segment at the end.
    ///
    /// # Errors
    /// [`Misuse::Bounds`] if the list would have more bytes than a buffer can have.
    pub fn push(&mut self, segment: Segment) -> Result<(), Misuse> {
        let bytes = self.bytes.checked_add(segment.len).filter(|bytes| isize::try_from(*bytes).is_ok());
        self.bytes =
            bytes.ok_or(Misuse::Bounds { offset: self.bytes, len: segment.len, memory_len: isize::MAX as usize })?;
        self.list.push(segment);
        Ok(())
    }

    /// Returns the segments, in the order of the data.
    pub fn list(&self) -> &[Segment] {
        &self.list
    }

    /// Returns the number of bytes in all segments.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies all bytes out, in order. Each byte is read once.
    ///
    /// # Errors
    /// [`Misuse::Bounds`] if `into` has another length; nothing is copied then.
    pub fn read(&self, mut into: &mut [u8]) -> Result<(), Misuse> {
        self.check_length(into.len())?;
        for Segment { region, offset, len } in &self.list {
            let (front, rest) = into.split_at_mut(*len);
            region.copy_out(*offset, front);
            into = rest;
        }
        Ok(())
    }

    /// Copies all bytes in, in order.
    ///
    /// # Errors
    /// [`Misuse::Bounds`] if `from` has another length; nothing is copied then.
    pub fn write(&self, mut from: &[u8]) -> Result<(), Misuse> {
        self.check_length(from.len())?;
        for Segment { region, offset, len } in &self.list {
            let (front, rest) = from.split_at(*len);
            region.copy_in(*offset, front);
            from = rest;
        }
        Ok(())
    }

    fn check_length(&self, len: usize) -> Result<(), Misuse> {
        if len == self.bytes { Ok(()) } else { Err(Misuse::Bounds { offset: 0, len, memory_len: self.bytes }) }
    }
}

impl From<Segment> for Segments {
    fn from(segment: Segment) -> Self {
        let bytes = segment.len;
        Self { list: SmallVec::from_iter([segment]), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_and_written_in_order() {
        let regions = [Region::owned(vec![0; 30].into()), Region::owned(vec![0; 30].into())];
        let mut segments = Segments::new();
        for (region, offset, len) in [(1, 3, 9), (0, 0, 0), (0, 29, 1), (1, 12, 11)] {
            segments.push(regions[region].segment(offset, len).unwrap()).unwrap();
        }
        let bytes: Vec<u8> = (1..22).collect();
        segments.write(&bytes).unwrap();
        let mut copy = vec![0; 21];
        segments.read(&mut copy).unwrap();
        assert_eq!(copy, bytes);
        let mut second = vec![0; 30];
        regions[1].read(0, &mut second).unwrap();
        assert_eq!((&second[3..12], &second[12..23]), (&bytes[..9], &bytes[10..]));
        assert_eq!((&second[..3], &second[23..]), (&[0; 3][..], &[0; 7][..]));
        assert_eq!(segments.read(&mut [0; 20]), Err(Misuse::Bounds { offset: 0, len: 20, memory_len: 21 }));
        assert_eq!(segments.write(&[0; 22]), Err(Misuse::Bounds { offset: 0, len: 22, memory_len: 21 }));
        let addresses: Vec<usize> = segments.list().iter().map(|segment| segment.address().addr().get()).collect();
        assert_eq!(addresses[3] - addresses[0], 9);
    }
}
