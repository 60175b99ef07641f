//! Further vectors, in a packed file that need not be part of a program.

use std::fmt;
use std::sync::Arc;

use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};

use crate::text::{Limits, ParseError, parse};
use crate::vector::Vector;

/// Known answers in addition to the crate's own. Clones share them.
///
/// By default they are the vectors in `gantry_vectors::PACKED` if the feature `more-vectors` has included it, and none otherwise.
#[derive(Clone)]
pub struct Vectors(Arc<[Vector]>);

/// Maximum bytes of the text: three times the present size, and affordable on a small machine.
const MAX_TEXT_BYTES: usize = 32 << 20;
/// Maximum number of vectors: six times the present number.
const MAX_VECTORS: usize = 1 << 16;
/// Maximum bytes of a set's name.
const MAX_NAME_BYTES: usize = 80;

impl Vectors {
    /// Returns no vectors.
    pub fn none() -> Self {
        Self(Arc::default())
    }

    /// Reads a whole file of `gantry-vectors`. The file need not be trusted: memory is bounded.
    ///
    /// # Errors
    /// The file is damaged, or not a file of vectors.
    pub fn unpack(packed: &[u8]) -> Result<Self, VectorsError> {
        let text = decompress_to_vec_zlib_with_limit(packed, MAX_TEXT_BYTES).map_err(|error| match error.status {
            TINFLStatus::HasMoreOutput => VectorsError::TooLarge,
            TINFLStatus::FailedCannotMakeProgress | TINFLStatus::NeedsMoreInput => VectorsError::Truncated,
            _ => VectorsError::Damaged,
        })?;
        let text = String::from_utf8(text).map_err(|_| VectorsError::NotVectors)?;
        let mut limits = Limits { vectors: MAX_VECTORS, bytes: MAX_TEXT_BYTES };
        let mut all = Vec::new();
        for set in text.strip_prefix("= ").ok_or(VectorsError::NotVectors)?.split("\n= ") {
            let (name, text) = set.split_once('\n').unwrap_or((set, ""));
            let is_shown = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_shown) {
                return Err(VectorsError::NotVectors);
            }
            let bad = |ParseError { line, what }| VectorsError::Line { set: name.to_owned(), line, what };
            all.extend(parse(&name.into(), text, &|_| true, &mut limits).map_err(bad)?);
        }
        Ok(Self(all.into()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Vector> {
        self.0.iter()
    }
}

impl Default for Vectors {
    #[cfg(feature = "more-vectors")]
    fn default() -> Self {
        static INCLUDED: std::sync::LazyLock<Vectors> =
            std::sync::LazyLock::new(|| Vectors::unpack(gantry_vectors::PACKED).expect("tests unpack the same bytes"));
        INCLUDED.clone()
    }

    #[cfg(not(feature = "more-vectors"))]
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vectors({})", self.0.len())
    }
}

/// The reason why bytes are not [`Vectors`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorsError {
    /// The end is missing.
    Truncated,
    /// Not a zlib stream, or a damaged one.
    Damaged,
    /// The unpacked data exceed the limit.
    TooLarge,
    /// The compressed data is not a file of vectors.
    NotVectors,
    /// A line is invalid.
    Line {
        /// The name of the set.
        set: String,
        /// The number of the line in the set, from 1.
        line: usize,
        /// The error.
        what: &'static str,
    },
}

impl fmt::Display for VectorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorsError::Truncated => f.write_str("the end is missing"),
            VectorsError::Damaged => f.write_str("damaged, or not a file of vectors"),
            VectorsError::TooLarge => write!(f, "more than {} MiB when it is unpacked", MAX_TEXT_BYTES >> 20),
            VectorsError::NotVectors => f.write_str("not a file of vectors"),
            VectorsError::Line { set, line, what } => write!(f, "{set}, line {line}: {what}"),
        }
    }
}

impl std::error::Error for VectorsError {}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    fn unpacked(text: &str) -> Result<Vectors, VectorsError> {
        Vectors::unpack(&compress_to_vec_zlib(text.as_bytes(), 1))
    }

    #[test]
    fn a_file_is_sets_with_names() {
        let vectors =
            unpacked("= one\n[sha1]\ninput = 00\noutput = 01\n= the other\n# comment\n[md5]\n\nkey = 07\n").unwrap();
        let origins: Vec<(&str, usize)> = vectors.iter().map(|vector| (&*vector.origin.0, vector.origin.1)).collect();
        assert_eq!(origins, [("one", 2), ("the other", 4)]);
        assert_eq!(unpacked("= none").unwrap().iter().count(), 0);
        assert_eq!(format!("{vectors:?}"), "Vectors(2)");
    }

    #[test]
    fn errors_describe_the_mistake() {
        let whole = compress_to_vec_zlib(b"= one\n[sha1]\ninput = 00\noutput = 01\n", 1);
        for length in 0..whole.len() {
            assert_eq!(Vectors::unpack(&whole[..length]).unwrap_err(), VectorsError::Truncated, "{length}");
        }
        for bit in 0..8 * whole.len() {
            let mut other = whole.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(Vectors::unpack(&other).is_err(), "bit {bit}");
        }
        for (text, problem) in [
            ("", "not a file of vectors"),
            ("[sha1]\n", "not a file of vectors"),
            ("= \n", "not a file of vectors"),
            ("= \x1b[31m\n", "not a file of vectors"),
            ("= one\n[sha1]\ninput = 00\n= two\n[sha1]\n\ninput = 0g\n", "two, line 3: not hexadecimal"),
            ("= one\n[md6]\n", "one, line 1: unknown algorithm"),
            ("= one\n[sha1]\nptn = 33554433\n", "one, line 2: more bytes than a file may have"),
        ] {
            assert_eq!(unpacked(text).unwrap_err().to_string(), problem, "{text}");
        }
        assert_eq!(Vectors::unpack(b"plain text").unwrap_err().to_string(), "damaged, or not a file of vectors");
        assert_eq!(Vectors::unpack(&compress_to_vec_zlib(&[0xff; 9], 1)).unwrap_err(), VectorsError::NotVectors);
    }

    #[test]
    fn a_small_file_cannot_exhaust_memory() {
        let zeros = compress_to_vec_zlib(&vec![b'\n'; MAX_TEXT_BYTES + 1], 1);
        assert!(zeros.len() < 1 << 20);
        assert_eq!(Vectors::unpack(&zeros).unwrap_err().to_string(), "more than 32 MiB when it is unpacked");
        let blocks = format!("= one\n[sha1]\n{}", "key=\n\n".repeat(MAX_VECTORS + 1));
        let Err(VectorsError::Line { what, .. }) = unpacked(&blocks) else { panic!("the limit was not applied") };
        assert_eq!(what, "more vectors than a file may have");
        let patterns = format!("= one\n[sha1]\n{}", "ptn = 9000000\n\n".repeat(4));
        assert!(unpacked(&patterns).is_err());
    }

    #[cfg(feature = "more-vectors")]
    #[test]
    fn the_vectors_of_the_crate_are_far_below_the_limits() {
        let all = Vectors::default();
        assert!((9000..MAX_VECTORS / 5).contains(&all.0.len()), "{all:?}");
        assert!(all.iter().any(|vector| vector.origin.0.starts_with("wycheproof ")));
        assert!(all.iter().any(|vector| vector.origin.0.starts_with("long/")));
        assert!(Vectors::none().iter().next().is_none());
    }
}
