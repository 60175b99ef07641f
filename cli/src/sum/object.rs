//! Objects of ours (`record.rs`), read: what is asked for of an object is kept, and whatever else it has is passed over.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::digest::Digest;
use super::names::Id;
use crate::hex::from_hex;

/// The object of a file.
#[derive(Deserialize)]
pub(crate) struct Object<'a> {
    #[serde(borrow)]
    path: Option<Text<'a>>,
    #[serde(borrow)]
    path_hex: Option<Text<'a>>,
    /// A verdict has digests that were found, not those that should be.
    #[serde(default)]
    pub(crate) verdict: Option<IgnoredAny>,
    pub(crate) digests: Digests,
}

/// Text, which is copied only where it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Object<'_> {
    /// The bytes of the file's name.
    pub(crate) fn name(&self) -> Option<Vec<u8>> {
        match (&self.path_hex, &self.path) {
            (Some(digits), _) => from_hex(digits.0.as_bytes()),
            (None, path) => path.as_ref().map(|path| path.0.as_bytes().to_vec()),
        }
    }
}

/// Those of functions that are known.
pub(crate) struct Digests(pub(crate) Vec<(Id, Digest)>);

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
            let Some(id) = Id::of_name(&name.0) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let digits = map.next_value::<Text<'_>>()?;
            let digest = Digest::of(id, digits.0.as_bytes());
            digests.push((id, digest.ok_or_else(|| M::Error::custom("no digest of its function"))?));
        }
        Ok(Digests(digests))
    }
}
