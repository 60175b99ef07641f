"""Plans: lists of files to hash."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from . import places

SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("etag", pa.string(), nullable=False),
        pa.field("mtime", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""A row of a plan: the absolute path or URL; bytes; the ETag, empty if the store has none; the time of the last change."""

# Rows held as Python objects at a time; as Arrow data they take less memory.
_MAX_BATCH_ROWS = 100_000


def plan(url: str | os.PathLike[str], *, retries: int = places.RETRIES) -> pa.Table:
    """Returns all regular files below a folder, or all objects of a store below `scheme://bucket/prefix`, in `SCHEMA`, largest first.

    Symbolic links are not followed; they, FIFOs, sockets and devices are omitted. So are files and folders that vanish meanwhile.

    OSError, obstore's errors: a folder or a store that cannot be listed.
    """
    path = os.fspath(url)
    rows = _objects(path, retries) if places.is_url(path) else _files(path)
    batches, columns = [], _columns()
    for row in rows:
        for column, value in zip(columns, row):
            column.append(value)
        if len(columns[0]) == _MAX_BATCH_ROWS:
            batches.append(_batch(columns))
            columns = _columns()
    batches.append(_batch(columns))
    return largest_first(pa.Table.from_batches(batches, SCHEMA))


def largest_first(rows: pa.Table) -> pa.Table:
    """Returns the rows with the largest first: a large file that begins last would keep one worker busy after all others are done."""
    return rows.sort_by([("size", "descending"), ("path", "ascending")])


def batches(rows: pa.Table, *, files: int = 1024, size: int = 8 << 30) -> Iterator[pa.Table]:
    """Yields the rows in batches, in order. Each ends after `files` files, or once it has `size` bytes.

    A worker that fails loses its whole batch. A batch of a few large files fills fewer lanes.

    ValueError: a batch without files.
    """
    if files < 1 or size < 1:
        raise ValueError(f"a batch has at least one file and one byte, not {files} and {size}")
    begin, end, held = 0, 0, 0
    for chunk in rows.select(["size"]).to_batches(max_chunksize=_MAX_BATCH_ROWS):
        for value in chunk["size"].to_pylist():
            end, held = end + 1, held + value
            if end - begin == files or held >= size:
                yield _part(rows, begin, end)
                begin, held = end, 0
    if begin < end:
        yield _part(rows, begin, end)


def _part(rows: pa.Table, begin: int, end: int) -> pa.Table:
    # Copies the rows: a slice would be sent to another process with the whole table.
    return rows.take(pa.array(range(begin, end), pa.int64()))


def _columns() -> list[list[object]]:
    return [[] for _ in SCHEMA]


def _batch(columns: list[list[object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, SCHEMA)], schema=SCHEMA)


def _files(path: str) -> Iterator[tuple[object, ...]]:
    root = places.file_of(path)
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            found = os.scandir(folder)
        except FileNotFoundError:
            if folder == root:
                raise
            continue
        with found as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield places.path_of(entry.path), status.st_size, places.etag_of_file(status), status.st_mtime_ns // 1000


def _objects(url: str, retries: int) -> Iterator[tuple[object, ...]]:
    root, prefix = places.split(url)
    store = places.store(root, retries)
    import obstore

    pages: Iterable[Iterable[dict[str, object]]] = obstore.list(store, prefix.rstrip("/") or None, chunk_size=1000)
    for page in pages:
        for found in page:
            yield f"{root}/{found['path']}", found["size"], found["e_tag"] or "", found["last_modified"]
