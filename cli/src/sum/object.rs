//! Parses the JSON objects of `record.rs`; ignores unknown members.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::digest::Digest;
use super::names::HashId;
use crate::hex::from_hex;

/// The object of a file, a symbolic link or a folder.
#[derive(Deserialize)]
pub(crate) struct Object<'a> {
    #[serde(borrow)]
    path: Option<Text<'a>>,
    #[serde(borrow)]
    path_hex: Option<Text<'a>>,
    /// Present in a verdict. The digests in a verdict are the file's digests, not the expected digests.
    #[serde(default)]
    pub(crate) verdict: Option<IgnoredAny>,
    #[serde(default)]
    pub(crate) digests: Digests,
    size: Option<u64>,
    mtime: Option<f64>,
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    target: Option<Text<'a>>,
    #[serde(borrow)]
    target_hex: Option<Text<'a>>,
}

/// The size and time of a file when its digests were written down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) size: u64,
    /// Seconds since 1970.
    pub(crate) mtime: f64,
}

/// An entry of a folder that is not a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// A symbolic link, and its target.
    Link(Vec<u8>),
    Folder,
}

/// Text that is copied only if it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Object<'_> {
    /// Returns the bytes of the file's name.
    pub(crate) fn name(&self) -> Option<Vec<u8>> {
        bytes(self.path_hex.as_ref(), self.path.as_ref())
    }

    /// Returns the size and time of the file, if the object has both.
    pub(crate) fn recorded(&self) -> Option<Recorded> {
        Some(Recorded { size: self.size?, mtime: self.mtime? })
    }

    /// Returns the link or folder, if the object describes one.
    pub(crate) fn special(&self) -> Option<Special> {
        match &*self.kind.as_ref()?.0 {
            "link" => bytes(self.target_hex.as_ref(), self.target.as_ref()).map(Special::Link),
            "folder" => Some(Special::Folder),
            _ => None,
        }
    }
}

/// Returns the bytes of a name, which the object has as text or in hexadecimal digits.
fn bytes(digits: Option<&Text<'_>>, text: Option<&Text<'_>>) -> Option<Vec<u8>> {
    match (digits, text) {
        (Some(digits), _) => from_hex(digits.0.as_bytes()),
        (None, text) => text.map(|text| text.0.as_bytes().to_vec()),
    }
}

/// Digests of known functions.
#[derive(Default)]
pub(crate) struct Digests(pub(crate) Vec<(HashId, Digest)>);

impl<'de> Deserialize<'de> for Digests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfDigests)
    }
}

struct OfDigests;

impl<'de> Visitor<'de> for OfDigests {
    type Value = Digests;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("digests by the names of functions")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Digests, M::Error> {
        let mut digests = Vec::new();
        while let Some(name) = map.next_key::<Text<'_>>()? {
            let Some(id) = HashId::from_name(&name.0) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let digits = map.next_value::<Text<'_>>()?;
            let digest = Digest::parse(id, digits.0.as_bytes());
            digests.push((id, digest.ok_or_else(|| M::Error::custom("not a digest of its function"))?));
        }
        Ok(Digests(digests))
    }
}
