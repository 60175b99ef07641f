//! Writes bencoding (BEP 3).

use std::collections::BTreeMap;

/// A dictionary, whose keys bencoding sorts by their bytes.
pub(super) type Dictionary = BTreeMap<Vec<u8>, Entry>;

/// A value.
#[derive(Clone)]
pub(super) enum Entry {
    Bytes(Vec<u8>),
    Number(u64),
    List(Vec<Entry>),
    Dictionary(Dictionary),
}

impl Entry {
    /// Returns the value in bencoding.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Entry::Bytes(bytes) => string(bytes, to),
            Entry::Number(number) => to.extend(format!("i{number}e").into_bytes()),
            Entry::List(values) => {
                to.push(b'l');
                for value in values {
                    value.write(to);
                }
                to.push(b'e');
            }
            Entry::Dictionary(entries) => {
                to.push(b'd');
                for (key, value) in entries {
                    string(key, to);
                    value.write(to);
                }
                to.push(b'e');
            }
        }
    }
}

/// Builds a dictionary.
pub(super) fn dictionary<const N: usize>(entries: [(&str, Entry); N]) -> Dictionary {
    entries.into_iter().map(|(key, value)| (key.as_bytes().to_vec(), value)).collect()
}

/// Builds the value of a text.
pub(super) fn text(text: &str) -> Entry {
    Entry::Bytes(text.as_bytes().to_vec())
}

fn string(bytes: &[u8], to: &mut Vec<u8>) {
    to.extend(format!("{}:", bytes.len()).into_bytes());
    to.extend(bytes);
}
