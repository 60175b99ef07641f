//! Hash functions by the names that `hashlib` and Gantry have for them.

use gantry_digest::Algorithm;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The algorithm of a name: that of `hashlib` (`sha3_256`, `sha512_256`) or Gantry's (`sha3-256`), in upper or lower case.
pub(crate) fn parse(name: &str) -> PyResult<Algorithm> {
    let found = name.to_ascii_lowercase().replace('_', "-").parse();
    found.map_err(|_| {
        let known = names().collect::<Vec<_>>().join(", ");
        PyValueError::new_err(format!("unsupported hash type {name:?} (one of {known})"))
    })
}

/// The name that `hashlib` has for it.
pub(crate) fn name(algorithm: Algorithm) -> String {
    algorithm.as_str().replace('-', "_")
}

/// All names.
pub(crate) fn names() -> impl Iterator<Item = String> {
    Algorithm::ALL.into_iter().map(name)
}
