//! Further vectors, which do not have to be in a program: they come in one packed file.

use std::fmt;
use std::sync::Arc;

use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};

use crate::text::{Problem, Room, parse};
use crate::vectors::Vector;

/// Known answers besides those that the crate always has. Clones share them.
///
/// The default is what `gantry_vectors::PACKED` has, where the feature `more-vectors` has put that into the program, and none elsewhere.
#[derive(Clone)]
pub struct Vectors(Arc<[Vector]>);

/// Bytes of the text: three times as many as there are, and what a small machine can spare.
const MOST_BYTES: usize = 32 << 20;
/// Six times as many as there are.
const MOST_VECTORS: usize = 1 << 16;
/// Letters of a set's name.
const LONGEST_NAME: usize = 80;

impl Vectors {
    /// None.
    pub fn none() -> Self {
        Self(Arc::default())
    }

    /// Reads a file that `gantry-vectors` wrote: all of it, every line. It may come from anybody: memory is bounded.
    ///
    /// # Errors
    /// It is none, or damaged.
    pub fn unpack(packed: &[u8]) -> Result<Self, Unusable> {
        let text = decompress_to_vec_zlib_with_limit(packed, MOST_BYTES).map_err(|error| match error.status {
            TINFLStatus::HasMoreOutput => Unusable::TooLarge,
            TINFLStatus::FailedCannotMakeProgress | TINFLStatus::NeedsMoreInput => Unusable::Truncated,
            _ => Unusable::Damaged,
        })?;
        let text = String::from_utf8(text).map_err(|_| Unusable::NoVectors)?;
        let mut room = Room { vectors: MOST_VECTORS, bytes: MOST_BYTES };
        let mut all = Vec::new();
        for set in text.strip_prefix("= ").ok_or(Unusable::NoVectors)?.split("\n= ") {
            let (name, text) = set.split_once('\n').unwrap_or((set, ""));
            let is_shown = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_shown) {
                return Err(Unusable::NoVectors);
            }
            let bad = |Problem { line, what }| Unusable::Line { set: name.to_owned(), line, what };
            all.extend(parse(&name.into(), text, &|_| true, &mut room).map_err(bad)?);
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
        static OURS: std::sync::LazyLock<Vectors> =
            std::sync::LazyLock::new(|| Vectors::unpack(gantry_vectors::PACKED).expect("tests unpack the same bytes"));
        OURS.clone()
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

/// Why bytes are no [`Vectors`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unusable {
    /// The end is missing.
    Truncated,
    /// They are no zlib stream, or not as they were written.
    Damaged,
    /// Unpacked they would be more than anybody has written.
    TooLarge,
    /// What was packed is something else.
    NoVectors,
    /// A line that cannot be understood.
    Line {
        /// The set that it is in.
        set: String,
        /// Its number there; the first is 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Truncated => f.write_str("the end is missing"),
            Unusable::Damaged => f.write_str("damaged, or no file of vectors"),
            Unusable::TooLarge => write!(f, "more than {} MiB when it is unpacked", MOST_BYTES >> 20),
            Unusable::NoVectors => f.write_str("no file of vectors"),
            Unusable::Line { set, line, what } => write!(f, "{set}, line {line}: {what}"),
        }
    }
}

impl std::error::Error for Unusable {}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    fn unpacked(text: &str) -> Result<Vectors, Unusable> {
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
    fn every_mistake_has_its_words() {
        let whole = compress_to_vec_zlib(b"= one\n[sha1]\ninput = 00\noutput = 01\n", 1);
        for length in 0..whole.len() {
            assert_eq!(Vectors::unpack(&whole[..length]).unwrap_err(), Unusable::Truncated, "{length}");
        }
        for bit in 0..8 * whole.len() {
            let mut other = whole.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(Vectors::unpack(&other).is_err(), "bit {bit}");
        }
        for (text, problem) in [
            ("", "no file of vectors"),
            ("[sha1]\n", "no file of vectors"),
            ("= \n", "no file of vectors"),
            ("= \x1b[31m\n", "no file of vectors"),
            ("= one\n[sha1]\ninput = 00\n= two\n[sha1]\n\ninput = 0g\n", "two, line 3: not hexadecimal"),
            ("= one\n[md6]\n", "one, line 1: the program does not know this algorithm"),
            ("= one\n[sha1]\nptn = 33554433\n", "one, line 2: more bytes than a file may have"),
        ] {
            assert_eq!(unpacked(text).unwrap_err().to_string(), problem, "{text}");
        }
        assert_eq!(Vectors::unpack(b"plain text").unwrap_err().to_string(), "damaged, or no file of vectors");
        assert_eq!(Vectors::unpack(&compress_to_vec_zlib(&[0xff; 9], 1)).unwrap_err(), Unusable::NoVectors);
    }

    #[test]
    fn a_small_file_cannot_ask_for_much_memory() {
        let zeros = compress_to_vec_zlib(&vec![b'\n'; MOST_BYTES + 1], 1);
        assert!(zeros.len() < 1 << 20);
        assert_eq!(Vectors::unpack(&zeros).unwrap_err().to_string(), "more than 32 MiB when it is unpacked");
        let blocks = format!("= one\n[sha1]\n{}", "key=\n\n".repeat(MOST_VECTORS + 1));
        let Err(Unusable::Line { what, .. }) = unpacked(&blocks) else { panic!("all of them were read") };
        assert_eq!(what, "more vectors than a file may have");
        let patterns = format!("= one\n[sha1]\n{}", "ptn = 9000000\n\n".repeat(4));
        assert!(unpacked(&patterns).is_err());
    }

    #[cfg(feature = "more-vectors")]
    #[test]
    fn those_of_the_crate_are_far_from_the_limits() {
        let all = Vectors::default();
        assert!((9000..MOST_VECTORS / 5).contains(&all.0.len()), "{all:?}");
        assert!(all.iter().any(|vector| vector.origin.0.starts_with("wycheproof ")));
        assert!(all.iter().any(|vector| vector.origin.0.starts_with("long/")));
        assert!(Vectors::none().iter().next().is_none());
    }
}
