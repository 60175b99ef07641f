"""The results of `hash_files`."""

from __future__ import annotations

from typing import Any, NamedTuple


class FileDigest(NamedTuple):
    """The result of one file."""

    path: Any
    """The path as passed to `hash_files`."""
    digests: dict[str, str]
    """Hexadecimal digests by the name of the algorithm; empty if the file could not be read."""
    error: OSError | None
    """The reason why the file could not be read; None if it was read."""
    size: int | None
    """Bytes of the file; None if it could not be read."""
