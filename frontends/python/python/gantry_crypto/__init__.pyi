from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, Protocol, TypeAlias

from _typeshed import ReadableBuffer

from .files import FileDigest as FileDigest

__version__: str
algorithms_available: frozenset[str]
"""The names that `new`, `digest_many` and `hash_files` take: those of `hashlib`; Gantry's own, with `-`, are taken, too."""

class ArrowArrayExportable(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class ArrowStreamExportable(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

Values: TypeAlias = ArrowArrayExportable | ArrowStreamExportable | Iterable[ReadableBuffer | str | None] | ReadableBuffer
"""A column of strings or byte strings; a list of buffers, strings (their UTF-8 is hashed) and None; or a buffer of two dimensions, whose rows
are the values."""

class Digests:
    """Digests of many values, in their order: a sequence of `bytes`, or of `str` if hexadecimal digits were asked for; and an Arrow column of
    `fixed_size_binary(n)`, or of `string`. A value that is null has a null, as a sequence None."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def to_list(self) -> list[Any]:
        """All of them in a list."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def digest_many(alg: str, values: Values, key: ReadableBuffer | None = None, hex: bool = False) -> Digests:
    """The digest of each value; with a key of any length its HMAC (RFC 2104), in full length.

    Columns: string, large_string, string_view, binary, large_binary, binary_view, fixed_size_binary and null, in one array or a stream of
    them, and tables with one such column. They are read where they lie.

    ValueError: an unknown algorithm; a column whose offsets or views are wrong, with the number of the value.
    TypeError: a column of another type, a value that is no buffer, with its number.
    MemoryError: there is no room for the digests of so many values.
    """

def tree_level(
    alg: str, data: ReadableBuffer, block: int, salt: ReadableBuffer | None = None, *, salt_behind: bool = False
) -> bytes:
    """The digest of each block of `block` bytes of one buffer, one behind the other: the lowest level of a Merkle tree over the buffer. The level
    above has this one, filled up with zeros to a block, as its data.

    The last block is filled up with zeros, too. The salt is hashed in front of each block, as dm-verity's hash type 1 has it (and fs-verity, which
    fills its salt up with zeros to a block of the hash function); with `salt_behind` behind it, as its hash type 0. Empty data have no blocks.

    ValueError: an unknown algorithm, a block of 0 bytes or of more than 2**30. OverflowError: a negative one.
    TypeError: data or a salt that is no buffer. MemoryError: there is no room for the digests.
    """

class FileDigests(Iterator[FileDigest]):
    """The iterator of `hash_files`."""

    def __next__(self) -> FileDigest: ...

def hash_files(paths: Iterable[str | bytes | PathLike[str] | PathLike[bytes]], algs: str | Iterable[str]) -> FileDigests:
    """Digests of files, in the order of their paths, which are taken as they are needed.

    Up to 32 files are read side by side, in pieces of 64 KiB; up to 1024 results wait for one before them. Every file is read once for all
    algorithms. A file that cannot be read is a `FileDigest` with an `error`, and so is what is no regular file and no block device. Ctrl+C
    ends the call between two pieces.

    ValueError: an unknown algorithm, none, or one twice. What the paths raise is raised behind the files before it.
    """

class Hash:
    """A message that arrives in pieces, shaped like the objects of `hashlib`."""

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
    """The beginning of a message, of an algorithm by its name. ValueError: there is none of this name."""

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

def update_many(messages: Iterable[Hash], pieces: Iterable[ReadableBuffer], /) -> None:
    """Gives each message its next piece: messages of one algorithm side by side, at most 64 KiB of each at once. Pieces may have any lengths.

    ValueError: a message is named twice; lists of different lengths. TypeError: a piece is not bytes. Nothing was taken in then.
    """

class InvalidTag(Exception):
    """Values that were not sealed under this key, nonce and associated data."""

    indexes: list[int]
    """The numbers of these values, from 0."""
    values: list[bytes | None]
    """All values, opened; None for those that were not sealed so."""

def seal_many(
    alg: str,
    key: ReadableBuffer,
    nonces: Iterable[ReadableBuffer],
    values: Iterable[ReadableBuffer],
    aad: ReadableBuffer | Iterable[ReadableBuffer] | None = None,
) -> list[bytes]:
    """Encrypts and authenticates each value with its nonce; the result is the ciphertext and behind it the tag (RFC 5116).

    A nonce must not be used twice under one key. `aad` is the associated data of all values, or a list with those of each.

    ValueError: an unknown AEAD, a key or a nonce of a wrong length, lists of different lengths.
    RuntimeError: Gantry's configuration is wrong, or every device failed.
    """

def open_many(
    alg: str,
    key: ReadableBuffer,
    nonces: Iterable[ReadableBuffer],
    values: Iterable[ReadableBuffer],
    aad: ReadableBuffer | Iterable[ReadableBuffer] | None = None,
) -> list[bytes]:
    """Verifies and decrypts what `seal_many` makes.

    InvalidTag: values that were not sealed so. Nothing of them is decrypted; the exception has the others.
    Else as `seal_many`.
    """

def encrypt_many(
    alg: str, key: ReadableBuffer, ivs: Iterable[ReadableBuffer], values: Iterable[ReadableBuffer]
) -> list[bytes]:
    """Encrypts each value with its initialization vector. Nothing authenticates the result: take `seal_many` unless a protocol says otherwise.

    ValueError: an unknown cipher; a key, an IV, or data of a wrong length, because there is no padding.
    """

def decrypt_many(
    alg: str, key: ReadableBuffer, ivs: Iterable[ReadableBuffer], values: Iterable[ReadableBuffer]
) -> list[bytes]:
    """Decrypts what `encrypt_many` makes."""
