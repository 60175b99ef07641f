//! Format strings of the supported types.

use std::ffi::CStr;

use crate::error::Error;
use crate::raw::ArrowSchema;

/// The layout of a column's values in its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `n`: every value is null. There are no buffers; some producers have an unused bitmap.
    Null,
    /// `u`, `z`: offsets of 32 bits, and data.
    Bits32,
    /// `U`, `Z`: offsets of 64 bits, and data.
    Bits64,
    /// `vu`, `vz`: views of 16 bytes, and any number of buffers.
    Views,
    /// `w:N`: values of `N` bytes.
    Fixed(usize),
}

impl Layout {
    /// Returns the layout of a type, and true if the type is a table with one column (a structure with one child).
    ///
    /// # Safety
    /// The schema is valid or released.
    pub unsafe fn from_schema(schema: &ArrowSchema) -> Result<(Self, bool), Error> {
        if schema.is_released() {
            return Err(Error::Released);
        }
        // SAFETY: a schema that is not released has a format string.
        let format = unsafe { format_string(schema) }?;
        if format != "+s" {
            return Ok((Self::parse(schema, format)?, false));
        }
        if schema.n_children != 1 {
            return Err(Error::Type { format: format.to_owned(), hint: ": give one column of the table" });
        }
        // SAFETY: there is one child, and thus one pointer, or the table of pointers is null.
        let child = unsafe { schema.children.as_ref() }.ok_or(Error::Malformed("a structure has no children"))?;
        // SAFETY: a pointer to a child is null, or valid as long as the parent.
        let child = unsafe { child.as_ref() }.ok_or(Error::Malformed("a structure has no child"))?;
        // SAFETY: as above. `release` of a child may be `None`, because the parent owns it.
        let format = unsafe { format_string(child) }?;
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
                _ => refuse("; cast the column to one of these types"),
            },
        }
    }

    /// Returns the number of buffers of an array; for views and null values, the minimum.
    pub(crate) fn buffer_count(self) -> i64 {
        match self {
            Self::Null => 0,
            Self::Fixed(_) => 2,
            Self::Bits32 | Self::Bits64 | Self::Views => 3,
        }
    }
}

/// Returns the format string of a schema.
///
/// # Safety
/// The format string is null, or ends in 0 and lives as long as the schema.
unsafe fn format_string(schema: &ArrowSchema) -> Result<&str, Error> {
    if schema.format.is_null() {
        return Err(Error::Malformed("a type has no format string"));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(schema.format) }.to_str().map_err(|_| Error::Malformed("a format string is not UTF-8"))
}
