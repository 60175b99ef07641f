"""Files and objects by their paths.

A path that begins with a scheme and `://` is an object: `s3://bucket/key`, and the other schemes of obstore. Any other path is a file.
Arrow's text has to be UTF-8, so the path of a file whose name is not UTF-8 is `file://` and its bytes, percent-encoded (RFC 8089).
"""

from __future__ import annotations

import functools
import os
import re
import stat
import urllib.parse
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

PIECE_BYTES = 64 << 10
"""Bytes of a file that are read at a time."""
RETRIES = 10
"""Retries of a request to an object store by default."""
READ_TIMEOUT = timedelta(seconds=60)
"""An object store that sends nothing for this time has failed."""


class ReadError(Exception):
    """The reason why a file or an object has no digest."""


def is_url(path: str) -> bool:
    """Returns True if the path is an object in a store."""
    return re.match("[A-Za-z][A-Za-z0-9+.-]*://", path) is not None and not path.startswith("file://")


def path_of(name: str | bytes) -> str:
    """Returns the absolute path of a file as text."""
    name = os.path.abspath(os.fsdecode(name))
    try:
        name.encode()
    except UnicodeEncodeError:
        return "file://" + urllib.parse.quote(os.fsencode(name))
    return name


def file_of(path: str) -> str | bytes:
    """Returns the name of the file of a path."""
    return urllib.parse.unquote_to_bytes(path[len("file://") :]) if path.startswith("file://") else path


def etag_of_file(status: os.stat_result) -> str:
    """Returns a weak ETag (RFC 9110) for a file, made of the time of its last change in nanoseconds and its size."""
    return f'W/"{status.st_mtime_ns:x}-{status.st_size:x}"'


def split(url: str) -> tuple[str, str]:
    """Returns the store of an object, and its key there."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


@functools.lru_cache(maxsize=16)
def store(root: str, retries: int) -> Any:
    """Returns the object store `scheme://bucket`, configured by the environment (`AWS_ENDPOINT_URL` and so on).

    Waits increase with each retry, up to 15 seconds; a request fails after `retries` retries or three minutes.

    ImportError: obstore is not installed.
    """
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ImportError(f"{root} needs obstore: pip install 'gantry-crypto[manifest]'") from error
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT", "")
    client = {
        # No limit for a whole response: an object may have 5 TB.
        "timeout": timedelta(days=30),
        "read_timeout": READ_TIMEOUT,
        # Only an endpoint that says so is used without TLS.
        "allow_http": endpoint.startswith("http://"),
    }
    return from_url(root, retry_config={"max_retries": retries}, client_options=client)


def text_of(error: Exception) -> str:
    """Returns an error in one line, without obstore's debug output."""
    return " ".join(str(error).partition("Debug source:")[0].split()) or type(error).__name__


def open_path(path: str, size: int, etag: str, retries: int) -> FileReader | ObjectReader:
    """Opens a file or an object for reading. ReadError: it does not exist, cannot be read, or differs from the plan."""
    return ObjectReader(path, size, etag, retries) if is_url(path) else FileReader(path, size, etag)


class FileReader:
    """A regular file."""

    def __init__(self, path: str, size: int, etag: str) -> None:
        self._planned, self._file = (size, etag), -1
        try:
            # With O_NONBLOCK, because a FIFO would otherwise wait for a writer.
            self._file = os.open(file_of(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            status = os.fstat(self._file)
            if not stat.S_ISREG(status.st_mode):
                raise ReadError(f"not a regular file: {path!r}")
            self._check(status)
        except (OSError, ValueError, ReadError) as error:
            self.close()
            raise ReadError(text_of(error)) from error

    def _check(self, status: os.stat_result) -> None:
        if (status.st_size, etag_of_file(status)) != self._planned:
            raise ReadError(f"changed since it was planned: {status.st_size} bytes, planned {self._planned[0]}")

    def read(self) -> bytes:
        """Returns the next piece; empty at the end, where the file must still match the plan."""
        try:
            piece = os.read(self._file, PIECE_BYTES)
            if not piece:
                self._check(os.fstat(self._file))
            return piece
        except OSError as error:
            raise ReadError(text_of(error)) from error

    def close(self) -> None:
        """Closes the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class ObjectReader:
    """An object in a store."""

    def __init__(self, url: str, size: int, etag: str, retries: int) -> None:
        root, self._key = split(url)
        self._store, self._size, self._etag, self._retries = store(root, retries), size, etag, retries
        self._offset, self._failures = 0, 0
        self._rest: memoryview = memoryview(b"")
        self._open()

    def _open(self) -> None:
        import obstore

        options: Any = {"range": {"offset": self._offset}} if self._offset else {}
        try:
            found = obstore.get(self._store, self._key, options=options)
            meta = found.meta
        except (OSError, ValueError, obstore.exceptions.BaseError) as error:
            raise ReadError(text_of(error)) from error
        if (meta["size"], meta["e_tag"] or "") != (self._size, self._etag):
            raise ReadError(
                f"changed since it was planned: {meta['size']} bytes and ETag {meta['e_tag']}, planned {self._size} and {self._etag or None}"
            )
        self._chunks: Iterator[Any] = iter(found.stream(min_chunk_size=PIECE_BYTES))

    def read(self) -> memoryview:
        """Returns the next piece; empty at the end. After an incomplete response, the rest is requested again."""
        import obstore

        while not self._rest and self._offset < self._size:
            try:
                chunk = memoryview(next(self._chunks, b""))
                if not chunk:
                    raise OSError(f"the answer ends after {self._offset} of {self._size} bytes")
            except (OSError, obstore.exceptions.BaseError) as error:
                self._failures += 1
                if self._failures > self._retries:
                    raise ReadError(text_of(error)) from error
                self._open()
                continue
            self._failures, self._offset, self._rest = 0, self._offset + len(chunk), chunk
        piece, self._rest = self._rest[:PIECE_BYTES], self._rest[PIECE_BYTES:]
        return piece

    def close(self) -> None:
        """Drops the response."""
        self._chunks, self._rest = iter(()), memoryview(b"")
