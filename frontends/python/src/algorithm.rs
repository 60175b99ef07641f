//! Hash functions by `hashlib`'s and Gantry's names.

use gantry_core::same_name;
use gantry_digest::Algorithm;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns the algorithm with a name, in any spelling: `sha3_256`, `SHA3-256`, `sha-256`, `SHA2-256`.
pub(crate) fn parse(name: &str) -> PyResult<Algorithm> {
    // Core knows the aliases, and lacks functions that only this package has.
    let canonical = name.parse().map_or(name, |canonical: gantry_core::Algorithm| canonical.name());
    Algorithm::ALL.into_iter().find(|algorithm| same_name(algorithm.as_str(), canonical)).ok_or_else(|| {
        let all = names().collect::<Vec<_>>();
        let nearest = gantry_runtime::suggest(name, &all.iter().map(String::as_str).collect::<Vec<_>>());
        PyValueError::new_err(format!("unsupported hash type {name:?}{nearest}"))
    })
}

/// Returns `hashlib`'s name of an algorithm.
pub(crate) fn name(algorithm: Algorithm) -> String {
    algorithm.as_str().replace('-', "_")
}

pub(crate) fn names() -> impl Iterator<Item = String> {
    Algorithm::ALL.into_iter().map(name)
}
