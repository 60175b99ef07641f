"""What `hash_files` yields."""

from typing import Any, NamedTuple


class FileDigest(NamedTuple):
    """What became of one file."""

    path: Any
    """The path as it was given."""
    digests: dict[str, str]
    """Hexadecimal digits by the name of the algorithm; empty if the file could not be read."""
    error: OSError | None
    """Why the file could not be read; None if it was."""
    size: int | None
    """Bytes of the file; None if it could not be read."""
