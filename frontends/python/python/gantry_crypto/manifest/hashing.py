"""`Hasher`: files that are read and hashed side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

import pyarrow as pa

from .. import _core
from . import places
from .etags import S3_ETAG, Etag
from .planning import SCHEMA
from .shards import ERROR, KEY_COLUMNS, columns, write

MAX_OPEN_FILES = 32
"""Files that are hashed side by side: enough for the lanes of every CPU."""

Batch = TypeVar("Batch", pa.Table, pa.RecordBatch)


class Hasher:
    """A callable that hashes the files of a batch of a plan, and returns a row with digests for each: for Ray's `map_batches`, a process
    pool, Dask, Spark's `mapInArrow`. It can be sent to other processes, and opens files and objects where it is called.

    `algs` are names in `gantry_crypto.algorithms_available`, and "s3_etag". Each file is read once for all of them. `shards` is a folder, or
    a URL of an object store; each batch becomes a shard there.

    At most 32 files are open, with 64 KiB of each in memory; for an object also the next part of the response, and the operating system's
    buffers. A failed request to an object store is repeated up to `retries` times, after increasing waits.

    ValueError: no algorithm, an unknown one, or the same one twice.
    """

    def __init__(self, algs: str | Iterable[str] = "sha256", shards: str | None = None, *, retries: int = places.RETRIES) -> None:
        self.algs = columns(algs)
        if not self.algs or len(set(self.algs)) < len(self.algs):
            raise ValueError("name at least one algorithm, and none twice")
        # A worker may have a different current folder.
        self.shards = os.path.abspath(shards) if shards is not None and not places.is_url(shards) else shards
        self.retries = retries

    def __call__(self, batch: Batch) -> Batch:
        """Hashes a batch. Returns the plan's columns, a column of hexadecimal digests per algorithm, and `error`, null for hashed files.

        TypeError: not an Arrow batch, or one without the columns of a plan. OSError: the shard cannot be written.
        """
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            raise TypeError(f'a batch is a Table or a RecordBatch of pyarrow (batch_format="pyarrow" in Ray), not {type(batch).__name__}')
        lacking = [field.name for field in SCHEMA if field.name not in batch.schema.names]
        if lacking:
            raise TypeError(f"a batch has the columns of a plan, and this one has no {lacking[0]!r}")
        rows = batch.select(SCHEMA.names).cast(SCHEMA)
        keys = list(zip(*(rows[name].to_pylist() for name in KEY_COLUMNS)))
        found = _hash([_File(key, self.algs) for key in keys], self.retries)
        columns_by_name = {name: rows[name] for name in SCHEMA.names}
        for index, name in enumerate([*self.algs, ERROR]):
            columns_by_name[name] = pa.array([row[index] for row in found], pa.string())
        results = pa.table(columns_by_name)
        if self.shards is not None:
            write(self.shards, results)
        if isinstance(batch, pa.Table):
            return results
        return pa.RecordBatch.from_arrays([column.combine_chunks() for column in results.columns], schema=results.schema)


class _File:
    """A file or an object that is hashed."""

    def __init__(self, key: tuple[str, int, str], algs: list[str]) -> None:
        self._key, self._algs = key, algs
        self._reader: places.FileReader | places.ObjectReader | None = None
        self._messages: list[_core.Hash | Etag] = []
        self._piece: bytes | memoryview = b""
        self._error: str | None = None

    def open(self, retries: int) -> _File:
        """Opens the file and reads the first piece. Both may take as long as a server does."""
        path, size, etag = self._key
        try:
            self._reader = places.open_path(path, size, etag, retries)
        except places.ReadError as error:
            self._error = str(error)
            return self
        self._messages = [Etag(etag, size) if alg == S3_ETAG else _core.new(alg) for alg in self._algs]
        self.read()
        return self

    def read(self) -> None:
        """Reads the next piece."""
        assert self._reader is not None
        try:
            self._piece = self._reader.read()
        except places.ReadError as error:
            self._piece, self._error = b"", str(error)

    @property
    def is_done(self) -> bool:
        """True after the last piece."""
        return not self._piece

    def updates(self) -> list[tuple[_core.Hash, bytes | memoryview]]:
        """Returns the hashes to update with the piece."""
        updates: list[tuple[_core.Hash, bytes | memoryview]] = []
        for message in self._messages:
            updates += message.take(memoryview(self._piece)) if isinstance(message, Etag) else [(message, self._piece)]
        return updates

    def close(self) -> None:
        """Closes the file."""
        if self._reader is not None:
            self._reader.close()

    def row(self) -> list[str | None]:
        """Returns the digests, and the error."""
        if self._error is not None:
            return [*(None for _ in self._algs), self._error]
        return [*(message.hexdigest() for message in self._messages), None]


def _hash(files: list[_File], retries: int) -> list[list[str | None]]:
    """Hashes files in rounds, each of which takes a piece of every open file. Returns their rows, in order."""
    pending, opening, active = iter(files), set[Future[_File]](), list[_File]()
    # Opening waits for a server's response, so threads open the next files meanwhile.
    with ThreadPoolExecutor(MAX_OPEN_FILES) as pool:
        try:
            while True:
                room = MAX_OPEN_FILES - len(opening) - len(active)
                opening |= {pool.submit(file.open, retries) for file in islice(pending, room)}
                if not opening and not active:
                    return [file.row() for file in files]
                done = {future for future in opening if future.done()} if active else wait(opening, return_when=FIRST_COMPLETED).done
                opening -= done
                active = _remaining([*active, *(future.result() for future in done)])
                updates = [update for file in active for update in file.updates()]
                if updates:
                    _core.update_many([message for message, _ in updates], [piece for _, piece in updates])
                for file in active:
                    file.read()
                active = _remaining(active)
        finally:
            for file in files:
                file.close()


def _remaining(files: list[_File]) -> list[_File]:
    """Returns the files that continue, and closes the others."""
    for file in files:
        if file.is_done:
            file.close()
    return [file for file in files if not file.is_done]
