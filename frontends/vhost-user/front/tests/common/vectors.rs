//! The vectors of `conformance/vectors`, whose format `conformance/src/text.rs` describes.

use std::collections::HashMap;
use std::path::Path;

/// A known answer: its fields by name.
pub(crate) struct Vector(HashMap<String, Vec<u8>>);

impl Vector {
    /// Returns a field's bytes; none if the field is missing.
    pub(crate) fn field(&self, name: &str) -> &[u8] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns whether the answer must be a refusal.
    pub(crate) fn is_invalid(&self) -> bool {
        self.0.contains_key("invalid")
    }

    /// Returns whether the vector has a field.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// Returns the vectors of an algorithm in a file, except vectors with a generated input.
pub(crate) fn load(file: &str, algorithm: &str) -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../conformance/vectors");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let mut vectors = Vec::new();
    let mut fields = HashMap::new();
    let mut wanted = false;
    for line in text.lines().chain([""]) {
        if let Some(title) = line.strip_prefix('[') {
            wanted = title.strip_suffix(']') == Some(algorithm);
        } else if line.is_empty() && !fields.is_empty() {
            vectors.push(Vector(std::mem::take(&mut fields)));
        } else if let Some((name, value)) = line.split_once(" =").filter(|_| wanted && !line.starts_with('#')) {
            // `ptn` and `monte` have numbers as values, which describe a generated input.
            let bytes = if ["ptn", "monte"].contains(&name) { Vec::new() } else { bytes(value.trim()) };
            fields.insert(name.to_owned(), bytes);
        }
    }
    vectors.retain(|vector| !vector.has("ptn") && !vector.has("monte"));
    assert!(!vectors.is_empty(), "{file} has no vectors of {algorithm}");
    vectors
}

fn bytes(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2));
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}
