//! Gantry for Python: the module `gantry_crypto._core`. The package around it is in `python/`; `python/gantry_crypto/__init__.pyi`
//! describes the interface.
//!
//! The module starts no threads. Long work runs without the GIL. Signals are checked between two blocks of messages, between two
//! rounds over files, and after each 4 MiB of a long message.
//!
//! | file | content |
//! |---|---|
//! | `algorithm.rs` | hash functions by `hashlib`'s and Gantry's names |
//! | `many.rs`, `results.rs` | `digest_many`; blocks of messages that are hashed side by side, and columns of their digests |
//! | `arrow.rs` | Arrow capsules: columns in, results out |
//! | `buffers.rs`, `memory.rs` | lists of buffers and rows of arrays; memory that other code may write while it is read |
//! | `digests.rs` | the class `Digests`: results as a sequence and as an Arrow column |
//! | `tree.rs` | `tree_level`: the digests of the blocks of one buffer |
//! | `hash.rs`, `streams.rs` | the class `Hash` and its constructors, shaped like those of `hashlib`; `update_many` |
//! | `files.rs`, `rounds.rs` | `hash_files`, and files that are read and hashed side by side |
//! | `batch.rs` | `seal_many` and similar functions, over the framework |

#![deny(unsafe_code)]

mod algorithm;
mod arrow;
mod batch;
mod buffers;
mod digests;
mod files;
mod hash;
mod many;
mod memory;
mod results;
mod rounds;
mod streams;
mod tree;

/// The extension module of the package `gantry_crypto`.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::{InvalidTag, decrypt_many, encrypt_many, open_many, seal_many};
    #[pymodule_export]
    use crate::digests::{_digests, Digests};
    #[pymodule_export]
    use crate::files::{FileDigests, hash_files};
    #[pymodule_export]
    use crate::hash::{
        Hash, blake2b_256, blake2b_512, keccak_256, md5, new, sha1, sha3_224, sha3_256, sha3_384, sha3_512, sha224,
        sha256, sha384, sha512, sha512_256,
    };
    #[pymodule_export]
    use crate::many::digest_many;
    #[pymodule_export]
    use crate::streams::update_many;
    #[pymodule_export]
    use crate::tree::tree_level;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("aeads", crate::batch::names(gantry_core::Kind::Aead).collect::<Vec<_>>())?;
        module.add("ciphers", crate::batch::names(gantry_core::Kind::Cipher).collect::<Vec<_>>())?;
        module.add("algorithms", crate::algorithm::names().collect::<Vec<_>>())
    }
}
