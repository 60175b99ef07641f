"""Shards: results in Parquet files, which are written completely or not at all.

A row is a result of `Hasher`. Its key is (path, size, etag): a file that changed has another key, and is hashed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .. import _core
from . import places
from .etags import S3_ETAG
from .planning import SCHEMA, largest_first

KEY_COLUMNS = ["path", "size", "etag"]
ERROR = "error"
NOT_DIGESTS = frozenset([*SCHEMA.names, ERROR])
"""The columns of results that are not digests."""


def columns(algs: str | Iterable[str]) -> list[str]:
    """Returns the columns of results for algorithms. ValueError: an unknown algorithm."""
    return [name if name == S3_ETAG else _core.new(name).name for name in ([algs] if isinstance(algs, str) else algs)]


def write(shards: str, results: pa.Table) -> None:
    """Writes a shard, named after its keys and columns: if a batch is hashed twice, its second shard replaces the first.

    OSError, with the path: the shard cannot be written, and no part of it remains. obstore's errors, for a URL.
    """
    keys = hashlib.sha256(repr(results.schema.names).encode())
    for name in KEY_COLUMNS:
        keys.update(repr(results[name].to_pylist()).encode())
    write_file(f"{shards.rstrip('/')}/{keys.hexdigest()[:32]}.parquet", results)


def write_file(path: str, rows: pa.Table) -> None:
    """Writes one Parquet file, completely or not at all. Errors as `write`."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    content = sink.getvalue()
    if places.is_url(path):
        import obstore

        root, key = places.split(path)
        obstore.put(places.store(root, places.RETRIES), key, content.to_pybytes())
        return
    folder = os.path.dirname(os.path.abspath(path))
    temporary = os.path.join(folder, f".{uuid.uuid4().hex}.tmp")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        # The name must be on the disk, too, before the batch counts as done.
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
    finally:
        with contextlib.suppress(OSError):
            # Exists only after an error.
            os.unlink(temporary)


def read(shards: str | os.PathLike[str]) -> pa.Table:
    """Returns all results, largest first. A later result replaces an error; digests of several jobs share a row. For a file that changed
    between two jobs, the newer row is returned, or both if the times of the last change are equal.

    ValueError, with the path: a shard is damaged, or two disagree about an unchanged file.
    OSError, obstore's errors: a shard cannot be read.
    """
    rows = _merged(os.fspath(shards))
    newest = rows.group_by("path").aggregate([("mtime", "max")])
    rows = rows.join(newest, ["path"])
    return largest_first(rows.filter(pc.equal(rows["mtime"], rows["mtime_max"])).drop_columns(["mtime_max"]))


def missing(plan: pa.Table, shards: str | os.PathLike[str], algs: str | Iterable[str] = "sha256") -> pa.Table:
    """Returns the rows of a plan whose path, size and ETag lack a digest of some algorithm, largest first. Unreadable files are included.

    ValueError: an unknown algorithm. Other errors as `read`.
    """
    results = _merged(os.fspath(shards))
    for alg in columns(algs):
        there = results.schema.names
        results = results.filter(pc.is_valid(results[alg])) if alg in there else results.slice(0, 0)
    return largest_first(plan.join(results.select(KEY_COLUMNS), KEY_COLUMNS, join_type="left anti").select(SCHEMA.names).cast(SCHEMA))


def _merged(shards: str) -> pa.Table:
    """Returns one row for each key."""
    tables = [_table(name, content) for name, content in _contents(shards)]
    if not tables:
        return pa.table({**{field.name: pa.array([], field.type) for field in SCHEMA}, ERROR: pa.array([], pa.string())})
    rows = pa.concat_tables(tables, promote_options="default")
    algs = [name for name in rows.schema.names if name not in NOT_DIGESTS]
    aggregates: list[Any] = [("mtime", "max"), (ERROR, "max"), *((alg, "min") for alg in algs), *((alg, "max") for alg in algs)]
    merged = rows.group_by(KEY_COLUMNS).aggregate(aggregates)
    failed = pc.is_valid(merged[f"{ERROR}_max"])
    for alg in algs:
        differ = merged.filter(pc.not_equal(merged[f"{alg}_min"], merged[f"{alg}_max"]))
        if differ.num_rows:
            raise ValueError(f"{shards}: two values of {alg} for {differ['path'][0].as_py()!r}, whose size and ETag are the same")
        failed = pc.and_(failed, pc.is_null(merged[f"{alg}_max"]))
    columns_by_name = {name: merged[name if name in KEY_COLUMNS else f"{name}_max"] for name in [*SCHEMA.names, *algs, ERROR]}
    columns_by_name[ERROR] = pc.if_else(failed, columns_by_name[ERROR], pa.scalar(None, pa.string()))
    return pa.table(columns_by_name)


def _table(name: str, content: Any) -> pa.Table:
    try:
        rows = pq.read_table(content)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{name} is a damaged shard ({error}); remove it to hash its files again") from error
    if not {*SCHEMA.names, ERROR} <= set(rows.schema.names):
        raise ValueError(f"{name} has no columns of results")
    return rows


def _contents(shards: str) -> Iterator[tuple[str, Any]]:
    """Yields the path and the content of each shard."""
    if places.is_url(shards):
        import obstore

        root, key = places.split(shards)
        store = places.store(root, places.RETRIES)
        for page in obstore.list(store, key.rstrip("/") or None, chunk_size=1000):
            for found in page:
                if found["path"].endswith(".parquet"):
                    yield f"{root}/{found['path']}", pa.BufferReader(obstore.get(store, found["path"]).bytes().to_bytes())
        return
    try:
        names = sorted(os.listdir(shards))
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(".parquet"):
            with open(os.path.join(shards, name), "rb") as file:
                yield file.name, pa.BufferReader(file.read())
