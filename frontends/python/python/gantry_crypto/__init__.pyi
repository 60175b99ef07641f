from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, Protocol, TypeAlias, overload

from _typeshed import ReadableBuffer

from .files import FileDigest as FileDigest

__version__: str
algorithms_available: frozenset[str]
"""The names of `hashlib` that `new`, `digest_many` and `hash_files` accept. Other spellings work as well: SHA-256, SHA2-256, sha3-256."""

class ArrowArrayExportable(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class ArrowStreamExportable(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

Values: TypeAlias = ArrowArrayExportable | ArrowStreamExportable | Iterable[ReadableBuffer | str | None] | ReadableBuffer
"""A column of strings or byte strings; a list of buffers, strings (hashed as UTF-8) and None; or a two-dimensional buffer, whose rows are
the values."""

class Digests:
    """Digests of many values, in their order: a sequence of `bytes`, or of `str` for hexadecimal digits; and an Arrow column of
    `fixed_size_binary(n)`, or of `string`. A null value stays null; in the sequence it is None. A slice is a copy.
    Digests can be compared and pickled."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> Any: ...
    @overload
    def __getitem__(self, index: slice, /) -> Digests: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __iter__(self) -> Iterator[Any]: ...
    def to_list(self) -> list[Any]:
        """Returns all digests as a list."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def digest_many(alg: str, values: Values, key: ReadableBuffer | None = None, hex: bool = False) -> Digests:
    """Returns the digest of each value, or with a key of any length its HMAC (RFC 2104), in full length.

    Columns: string, large_string, string_view, binary, large_binary, binary_view, fixed_size_binary and null, as one array or a stream of
    arrays, and tables with one such column. They are not copied.

    ValueError: an unknown algorithm; a column with invalid offsets or views, with the index of the value.
    TypeError: a column of another type; a value that is not a buffer, with its index; a set or a dictionary.
    MemoryError: there is not enough memory for the digests.
    """

def tree_level(
    alg: str, data: ReadableBuffer, block: int, salt: ReadableBuffer | None = None, *, salt_behind: bool = False
) -> bytes:
    """Returns the concatenated digests of the blocks of `block` bytes of one buffer: the lowest level of a Merkle tree over the buffer.
    For the level above, pass this result as `data`; it is also padded with zeros to whole blocks.

    The last block is padded with zeros. The salt is hashed before each block, as in dm-verity's hash type 1 and in fs-verity. fs-verity
    pads its salt with zeros to a block of the hash function. With `salt_behind`, the salt is hashed after each block, as in hash type 0.
    Empty data have no blocks.

    ValueError: an unknown algorithm, a block of 0 bytes or of more than 2**30. OverflowError: a negative block size.
    TypeError: data or a salt that is not a buffer. MemoryError: there is not enough memory for the digests.
    """

class FileDigests(Iterator[FileDigest]):
    """The iterator of `hash_files`."""

    def __next__(self) -> FileDigest: ...

def hash_files(paths: Iterable[str | bytes | PathLike[str] | PathLike[bytes]], algs: str | Iterable[str]) -> FileDigests:
    """Hashes files. The results come in the order of the paths, which are consumed on demand.

    Up to 32 files are read side by side, in pieces of 64 KiB; up to 1024 results are held back for an earlier one. Every file is read
    once for all algorithms. A file that cannot be read yields a `FileDigest` with an `error`; so does anything other than a regular file
    or block device. Ctrl+C interrupts the call between two pieces.

    TypeError: a single path instead of a list.
    ValueError: no algorithm, an unknown one, or the same one twice. An exception in the iterable of paths is raised after the results of
    earlier files.
    """

class Hash:
    """A message that arrives in chunks, shaped like the objects of `hashlib`.

    Ctrl+C interrupts `update` after at most 4 MiB; the message is then as before the call.
    """

    @property
    def name(self) -> str: ...
    @property
    def digest_size(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    def update(self, data: ReadableBuffer, /) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...
    def copy(self) -> Hash: ...
    def __copy__(self) -> Hash: ...

def new(name: str, data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash:
    """Begins a message, with an algorithm by its name. ValueError: the name is unknown."""

def md5(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha1(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha224(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha256(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha384(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha512(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha512_256(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha3_224(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha3_256(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha3_384(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def sha3_512(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def blake2b_256(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def blake2b_512(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...
def keccak_256(data: ReadableBuffer = ..., *, usedforsecurity: bool = True, string: ReadableBuffer = ...) -> Hash: ...

def update_many(messages: Iterable[Hash], pieces: Iterable[ReadableBuffer], /) -> None:
    """Adds a chunk to each message, at most 64 KiB at a time, side by side for messages of one algorithm. Chunks may have any lengths.

    ValueError: a message occurs twice; lists of different lengths. TypeError: a chunk is not bytes. No message is changed then.
    """

class InvalidTag(Exception):
    """Some values fail verification under this key, nonce and associated data."""

    indexes: list[int]
    """The indexes of these values, from 0."""
    values: list[bytes | None]
    """All values, decrypted; None for those that fail."""

def seal_many(
    alg: str,
    key: ReadableBuffer,
    nonces: Iterable[ReadableBuffer],
    values: Iterable[ReadableBuffer],
    aad: ReadableBuffer | Iterable[ReadableBuffer] | None = None,
    *,
    any_nonce: bool = False,
) -> list[bytes]:
    """Encrypts and authenticates each value with its nonce. A result is the ciphertext followed by the tag (RFC 5116).

    A nonce must not be used twice under one key. `aad` is the associated data of all values, or a list with one for each. Nonces of
    AES-GCM have 12 bytes; with `any_nonce`, 1 to 65,536.

    ValueError: an unknown AEAD, a key or a nonce of a wrong length, one nonce twice in the call, lists of different lengths.
    RuntimeError: Gantry's configuration is invalid, or every device failed.
    """

def open_many(
    alg: str,
    key: ReadableBuffer,
    nonces: Iterable[ReadableBuffer],
    values: Iterable[ReadableBuffer],
    aad: ReadableBuffer | Iterable[ReadableBuffer] | None = None,
    *,
    any_nonce: bool = False,
) -> list[bytes]:
    """Verifies and decrypts results of `seal_many`.

    InvalidTag: some values fail verification and are not decrypted; the exception has the others.
    Other errors as `seal_many`.
    """

def encrypt_many(
    alg: str, key: ReadableBuffer, ivs: Iterable[ReadableBuffer], values: Iterable[ReadableBuffer]
) -> list[bytes]:
    """Encrypts each value with its initialization vector. The result is not authenticated: use `seal_many` unless a protocol says otherwise.

    ValueError: an unknown cipher; a key, IV or data of a wrong length. There is no padding.
    """

def decrypt_many(
    alg: str, key: ReadableBuffer, ivs: Iterable[ReadableBuffer], values: Iterable[ReadableBuffer]
) -> list[bytes]:
    """Decrypts results of `encrypt_many`."""
