//! Format strings of the types that are read.

use std::ffi::CStr;

use crate::error::Error;
use crate::raw::ArrowSchema;

/// How the values of a column lie in its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `n`: every value is null, and there are no buffers.
    Null,
    /// `u`, `z`: offsets of 32 bits, and data.
    Bits32,
    /// `U`, `Z`: offsets of 64 bits, and data.
    Bits64,
    /// `vu`, `vz`: views of 16 bytes, and any number of buffers.
    Views,
    /// `w:N`: values of so many bytes.
    Fixed(usize),
}

impl Layout {
    /// The layout of a type, and whether it is that of the only child of a structure: a table of one column.
    ///
    /// # Safety
    /// The schema is as its producer made it, or released.
    pub unsafe fn of(schema: &ArrowSchema) -> Result<(Self, bool), Error> {
        if schema.is_released() {
            return Err(Error::Released);
        }
        // SAFETY: a schema that is not released has a format string.
        let format = unsafe { text(schema) }?;
        if format != "+s" {
            return Ok((Self::parse(schema, format)?, false));
        }
        if schema.n_children != 1 {
            return Err(Error::Type { format: format.to_owned(), hint: ": give one column of the table" });
        }
        // SAFETY: there is a pointer for each child, and there is one.
        let child = unsafe { schema.children.as_ref() }.ok_or(Error::Malformed("a structure without its children"))?;
        // SAFETY: a pointer to a child is null or valid as long as the parent.
        let child = unsafe { child.as_ref() }.ok_or(Error::Malformed("a structure without its child"))?;
        // SAFETY: as above. Children may look released when the parent owns them.
        let format = unsafe { text(child) }?;
        Ok((Self::parse(child, format)?, true))
    }

    fn parse(schema: &ArrowSchema, format: &str) -> Result<Self, Error> {
        let refuse = |hint| Err(Error::Type { format: format.to_owned(), hint });
        if !schema.dictionary.is_null() {
            return refuse(": the column is dictionary-encoded; cast it to a string type");
        }
        match format {
            "n" => Ok(Self::Null),
            "u" | "z" => Ok(Self::Bits32),
            "U" | "Z" => Ok(Self::Bits64),
            "vu" | "vz" => Ok(Self::Views),
            "+s" => refuse(": give one column of the table"),
            _ => match format.strip_prefix("w:").map(str::parse) {
                Some(Ok(size)) => Ok(Self::Fixed(size)),
                _ => refuse("; cast the column to one of these"),
            },
        }
    }

    /// How many buffers an array has, or at least has.
    pub(crate) fn buffers(self) -> i64 {
        match self {
            Self::Null => 0,
            Self::Fixed(_) => 2,
            Self::Bits32 | Self::Bits64 | Self::Views => 3,
        }
    }
}

/// The format string.
///
/// # Safety
/// It is null or ends in 0, and lives as long as the schema.
unsafe fn text(schema: &ArrowSchema) -> Result<&str, Error> {
    if schema.format.is_null() {
        return Err(Error::Malformed("a type without a format string"));
    }
    // SAFETY: the call.
    unsafe { CStr::from_ptr(schema.format) }.to_str().map_err(|_| Error::Malformed("a format string that is not UTF-8"))
}
