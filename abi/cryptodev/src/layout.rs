//! The layout of fields in a structure.

/// The pointer size of the calling program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// A 32-bit program, perhaps on a 64-bit kernel.
    W32,
    /// A 64-bit program.
    W64,
}

impl Width {
    /// The width of the current program.
    pub const NATIVE: Width = if cfg!(target_pointer_width = "32") { Width::W32 } else { Width::W64 };

    /// Returns the size of a pointer, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Width::W32 => 4,
            Width::W64 => 8,
        }
    }
}

/// A structure as C lays it out. A field begins at the next multiple of its alignment, which is the size of an integer or a pointer, and 1
/// for an array of bytes. The size of the structure is a multiple of the largest alignment. Reading, writing and measuring share one
/// walk over the fields, so that the three cannot disagree.
pub(crate) trait Fields: Default {
    fn walk(&mut self, walk: &mut Walk<'_>);

    fn size(width: Width) -> usize {
        let mut walk = Walk { bytes: FieldBytes::Measure, width, offset: 0, align: 1 };
        Self::default().walk(&mut walk);
        walk.size()
    }

    /// Reads the structure from the front of `bytes`. Returns `None` if `bytes` is shorter than the structure.
    fn read(bytes: &[u8], width: Width) -> Option<Self> {
        let bytes = bytes.get(..Self::size(width))?;
        let mut fields = Self::default();
        fields.walk(&mut Walk { bytes: FieldBytes::Read(bytes), width, offset: 0, align: 1 });
        Some(fields)
    }

    /// Writes the structure to the front of `bytes`, which has room for it.
    fn write(mut self, width: Width, bytes: &mut [u8]) {
        self.walk(&mut Walk { bytes: FieldBytes::Write(bytes), width, offset: 0, align: 1 });
    }
}

/// The state of a walk over the fields of a structure.
pub(crate) struct Walk<'a> {
    bytes: FieldBytes<'a>,
    width: Width,
    offset: usize,
    align: usize,
}

enum FieldBytes<'a> {
    Measure,
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

impl Walk<'_> {
    pub(crate) fn u16(&mut self, value: &mut u16) {
        let mut bytes = value.to_ne_bytes();
        self.field(&mut bytes, size_of::<u16>());
        *value = u16::from_ne_bytes(bytes);
    }

    pub(crate) fn u32(&mut self, value: &mut u32) {
        let mut bytes = value.to_ne_bytes();
        self.field(&mut bytes, size_of::<u32>());
        *value = u32::from_ne_bytes(bytes);
    }

    /// Visits an address in the calling program.
    pub(crate) fn pointer(&mut self, value: &mut u64) {
        match self.width {
            Width::W32 => {
                let mut short = *value as u32;
                self.u32(&mut short);
                *value = u64::from(short);
            }
            Width::W64 => {
                let mut bytes = value.to_ne_bytes();
                self.field(&mut bytes, size_of::<u64>());
                *value = u64::from_ne_bytes(bytes);
            }
        }
    }

    pub(crate) fn chars(&mut self, value: &mut [u8]) {
        self.field(value, 1);
    }

    fn field(&mut self, value: &mut [u8], align: usize) {
        self.offset = self.offset.next_multiple_of(align);
        self.align = self.align.max(align);
        let range = self.offset..self.offset + value.len();
        self.offset = range.end;
        match &mut self.bytes {
            FieldBytes::Measure => {}
            FieldBytes::Read(bytes) => value.copy_from_slice(&bytes[range]),
            FieldBytes::Write(bytes) => bytes[range].copy_from_slice(value),
        }
    }

    fn size(&self) -> usize {
        self.offset.next_multiple_of(self.align)
    }
}
