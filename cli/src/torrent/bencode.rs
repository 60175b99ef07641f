//! Bencoding (BEP 3): what a torrent is written in. A file of it comes from anybody.

use std::fmt;

/// A value, which borrows its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    /// In the order of the file.
    Dictionary(Vec<(&'a [u8], Value<'a>)>),
}

/// The place in the file, in bytes, behind which it is not bencoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong(pub(crate) usize);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a torrent: byte {} is not bencoded", self.0)
    }
}

/// Most lists and dictionaries within each other: folders of a torrent.
const DEPTH: usize = 100;
/// Most values: each takes more memory than its bytes.
const VALUES: usize = 4 << 20;

/// Reads the one value of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Value<'_>, Wrong> {
    let mut reader = Reader { bytes, at: 0, values: 0 };
    let value = reader.value(0);
    match value {
        Some(value) if reader.at == bytes.len() => Ok(value),
        _ => Err(Wrong(reader.at)),
    }
}

impl<'a> Value<'a> {
    /// What a dictionary has under a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value<'a>> {
        let Value::Dictionary(entries) = self else { return None };
        entries.iter().find(|(name, _)| *name == key.as_bytes()).map(|(_, value)| value)
    }

    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        if let Value::Integer(number) = self { u64::try_from(*number).ok() } else { None }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        self.values += 1;
        if depth > DEPTH || self.values > VALUES {
            return None;
        }
        match self.bytes.get(self.at)? {
            b'i' => {
                self.at += 1;
                let number = self.until(b'e')?;
                Some(Value::Integer(integer(number)?))
            }
            b'l' => {
                self.at += 1;
                let mut list = Vec::new();
                while !self.ends() {
                    list.push(self.value(depth + 1)?);
                }
                Some(Value::List(list))
            }
            b'd' => {
                self.at += 1;
                let mut entries = Vec::new();
                while !self.ends() {
                    entries.push((self.string()?, self.value(depth + 1)?));
                }
                Some(Value::Dictionary(entries))
            }
            _ => self.string().map(Value::Bytes),
        }
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(integer(self.until(b':')?)?).ok()?;
        let bytes = self.bytes[self.at..].get(..length)?;
        self.at += length;
        Some(bytes)
    }

    /// The digits up to a byte, which is passed over.
    fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().take(22).position(|byte| *byte == end)?;
        self.at += length + 1;
        Some(&rest[..length])
    }

    /// Whether a list or a dictionary ends here; its end is passed over.
    fn ends(&mut self) -> bool {
        let ends = self.bytes.get(self.at) == Some(&b'e');
        self.at += usize::from(ends);
        ends
    }
}

/// A number as there is one way to write it.
fn integer(digits: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_kind_are_read() {
        let value = read(b"d1:ai-3e1:bl2:xy0:e1:cdee").unwrap();
        assert_eq!(value.get("a"), Some(&Value::Integer(-3)));
        assert_eq!(value.get("b"), Some(&Value::List(vec![Value::Bytes(b"xy"), Value::Bytes(b"")])));
        assert_eq!(value.get("c"), Some(&Value::Dictionary(Vec::new())));
        assert_eq!(value.get("a").unwrap().number(), None);
        assert_eq!(read(b"i9223372036854775807e"), Ok(Value::Integer(i64::MAX)));
    }

    #[test]
    fn what_is_not_bencoded_is_refused() {
        let deep = [vec![b'l'; 200], vec![b'e'; 200]].concat();
        let many = [&b"l"[..], &b"le".repeat(VALUES), b"e"].concat();
        for wrong in [
            &b""[..],
            b"i",
            b"ie",
            b"i-0e",
            b"i01e",
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
            &many,
        ] {
            assert!(read(wrong).is_err(), "{:?}", String::from_utf8_lossy(&wrong[..wrong.len().min(30)]));
        }
    }
}
