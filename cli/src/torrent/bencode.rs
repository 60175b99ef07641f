//! Parses bencoding (BEP 3), the format of torrents. Torrents are untrusted: values are slices of the file, and nothing is allocated until
//! a caller asks for it.

use std::fmt;

/// A value, as its bytes in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'a>(&'a [u8]);

/// The offset after which the file is not bencoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError(pub(crate) usize);

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a torrent: byte {} is not bencoded", self.0)
    }
}

/// Most levels of nested lists and dictionaries. In a torrent of v2, each folder is a level.
const MAX_DEPTH: usize = 100;

/// Parses a file, which is one value. White space may follow it, as editors append it.
pub(crate) fn read(bytes: &[u8]) -> Result<Value<'_>, SyntaxError> {
    let mut reader = Reader { bytes, offset: 0 };
    match reader.skip_value(0) {
        Some(()) if bytes[reader.offset..].trim_ascii().is_empty() => Ok(Value(&bytes[..reader.offset])),
        _ => Err(SyntaxError(reader.offset)),
    }
}

impl<'a> Value<'a> {
    pub(crate) const EMPTY_LIST: Value<'static> = Value(b"le");

    /// Returns the value of a key, if this is a dictionary with that key.
    pub(crate) fn get(self, key: &str) -> Option<Value<'a>> {
        let mut entries = self.contents(b'd')?;
        while let Some(found) = entries.key() {
            let value = entries.value();
            if found == key.as_bytes() {
                return Some(value);
            }
        }
        None
    }

    /// Returns the values of a list.
    pub(crate) fn list(self) -> Option<impl Iterator<Item = Value<'a>>> {
        let mut values = self.contents(b'l')?;
        Some(std::iter::from_fn(move || (!values.skip_end()).then(|| values.value())))
    }

    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        self.reader().string()
    }

    pub(crate) fn number(self) -> Option<u64> {
        integer(self.0.strip_prefix(b"i")?.strip_suffix(b"e")?)?.try_into().ok()
    }

    /// Returns a reader for nested values, which visits each value once.
    pub(crate) fn reader(self) -> Reader<'a> {
        Reader { bytes: self.0, offset: 0 }
    }

    fn contents(self, kind: u8) -> Option<Reader<'a>> {
        let mut reader = self.reader();
        reader.enter(kind).then_some(reader)
    }
}

/// A position in the bytes. The methods for other modules expect bytes that [`read`] has checked.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Enters a dictionary, if there is one at this position.
    pub(crate) fn enter_dictionary(&mut self) -> bool {
        self.enter(b'd')
    }

    /// Returns the next key of a dictionary, or `None` after skipping its end.
    pub(crate) fn key(&mut self) -> Option<&'a [u8]> {
        if self.skip_end() { None } else { self.string() }
    }

    /// Returns the value at this position, and skips it.
    pub(crate) fn value(&mut self) -> Value<'a> {
        let begin = self.offset;
        // The bytes were checked by `read`.
        let skipped = self.skip_value(0);
        debug_assert!(skipped.is_some(), "checked bytes");
        Value(&self.bytes[begin..self.offset])
    }

    fn enter(&mut self, kind: u8) -> bool {
        let is_there = self.bytes.get(self.offset) == Some(&kind);
        self.offset += usize::from(is_there);
        is_there
    }

    /// Checks and skips the value at this position; `None` if it is not bencoded.
    fn skip_value(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.bytes.get(self.offset)? {
            b'i' => {
                self.offset += 1;
                integer(self.take_until(b'e')?).map(|_| ())
            }
            b'l' => {
                self.offset += 1;
                while !self.skip_end() {
                    self.skip_value(depth + 1)?;
                }
                Some(())
            }
            b'd' => {
                self.offset += 1;
                while !self.skip_end() {
                    self.string()?;
                    self.skip_value(depth + 1)?;
                }
                Some(())
            }
            _ => self.string().map(|_| ()),
        }
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(integer(self.take_until(b':')?)?).ok()?;
        let bytes = self.bytes[self.offset..].get(..length)?;
        self.offset += length;
        Some(bytes)
    }

    /// Returns the digits up to a byte, and skips that byte.
    fn take_until(&mut self, end: u8) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.offset..];
        // The longest number, `i64::MIN`, has 20 characters.
        let length = rest.iter().take(22).position(|byte| *byte == end)?;
        self.offset += length + 1;
        Some(&rest[..length])
    }

    /// Returns true and skips the end, if a list or dictionary ends here.
    fn skip_end(&mut self) -> bool {
        self.enter(b'e')
    }
}

/// Parses a number, which has exactly one encoding.
fn integer(digits: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(digits).ok()?;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = match unsigned.as_bytes() {
        [b'0'] => unsigned.len() == text.len(),
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    if is_canonical { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_kind_are_parsed() {
        let value = read(b"d1:ai-3e1:bl2:xy0:e1:cdee").unwrap();
        let list: Vec<_> = value.get("b").unwrap().list().unwrap().map(Value::bytes).collect();
        assert_eq!(list, [Some(&b"xy"[..]), Some(b"")]);
        assert_eq!(value.get("a").unwrap().number(), None);
        assert!(value.get("c").unwrap().get("d").is_none() && value.get("d").is_none());
        assert!(value.bytes().is_none() && value.list().is_none() && value.number().is_none());
        assert_eq!(read(b"i9223372036854775807e").unwrap().number(), Some(i64::MAX as u64));
    }

    #[test]
    fn nested_values_are_visited_once() {
        let mut reader = read(b"d1:ad1:bi1ee1:ci2ee").unwrap().reader();
        assert!(reader.enter_dictionary());
        assert_eq!(reader.key(), Some(&b"a"[..]));
        assert!(reader.enter_dictionary());
        assert_eq!((reader.key(), reader.value().number(), reader.key()), (Some(&b"b"[..]), Some(1), None));
        assert!(reader.key() == Some(b"c") && !reader.clone().enter_dictionary());
        assert_eq!((reader.value().number(), reader.key()), (Some(2), None));
    }

    #[test]
    fn invalid_bencoding_is_refused() {
        let deep = [vec![b'l'; 200], vec![b'e'; 200]].concat();
        for wrong in [
            &b""[..],
            b"i",
            b"ie",
            b"i-e",
            b"i-0e",
            b"i01e",
            b"i-01e",
            b"i+1e",
            b"i9223372036854775808e",
            b"5:abc",
            b"-1:a",
            b"01:a",
            b"99999999999999999999:a",
            b"l",
            b"di1ei2ee",
            b"d1:ae",
            b"i1ei2e",
            b"x",
            &deep,
        ] {
            assert!(read(wrong).is_err(), "{:?}", String::from_utf8_lossy(&wrong[..wrong.len().min(30)]));
        }
    }
}
