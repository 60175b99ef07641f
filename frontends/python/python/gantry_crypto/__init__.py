"""Hashes, HMACs and AEADs of many values at once.

`digest_many` hashes columns, lists of buffers and arrays, `hash_files` files; `seal_many` and `open_many` process many messages of an AEAD.
`tree_level` returns the digests of the blocks of one buffer. `sha256` and similar functions are shaped like those of `hashlib`.
`gantry_crypto.polars` has expressions, `gantry_crypto.manifest` digests of whole trees and object stores.
"""

from ._core import (
    Digests,
    FileDigests,
    Hash,
    InvalidTag,
    __version__,
    algorithms,
    blake2b_256,
    blake2b_512,
    decrypt_many,
    digest_many,
    encrypt_many,
    hash_files,
    keccak_256,
    md5,
    new,
    open_many,
    seal_many,
    sha1,
    sha3_224,
    sha3_256,
    sha3_384,
    sha3_512,
    sha224,
    sha256,
    sha384,
    sha512,
    sha512_256,
    tree_level,
    update_many,
)

algorithms_available = frozenset(algorithms)
"""The names that `new`, `digest_many` and `hash_files` accept."""
del algorithms


def __getattr__(name: str) -> type:
    # Loaded on demand: it needs `typing`, whose import takes longer than this package's.
    if name == "FileDigest":
        from .files import FileDigest

        return FileDigest
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Digests",
    "FileDigest",
    "FileDigests",
    "Hash",
    "InvalidTag",
    "__version__",
    "algorithms_available",
    "blake2b_256",
    "blake2b_512",
    "decrypt_many",
    "digest_many",
    "encrypt_many",
    "hash_files",
    "keccak_256",
    "md5",
    "new",
    "open_many",
    "seal_many",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
    "sha512",
    "sha512_256",
    "tree_level",
    "update_many",
]
