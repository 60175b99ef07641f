"""Hashes all batches of a plan in processes of one machine."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .hashing import Hasher
from .planning import batches
from .shards import ERROR


class Done(NamedTuple):
    """The totals of a batch."""

    files: int
    size: int
    errors: int
    cpu: float
    """Seconds of CPU time."""


def run(rows: pa.Table, hasher: Hasher, processes: int) -> Iterator[Done]:
    """Hashes a plan, and yields the totals of each batch as it ends. At most two batches per process are pending.

    BrokenProcessPool: a process was killed. Other errors are those of the hasher; batches that have not begun by then are dropped.
    """
    # The threads of an object store's client do not survive `fork`.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("forkserver")) as pool:
        pending = set()
        try:
            for batch in batches(rows, **_limits(rows, processes)):
                pending.add(pool.submit(_hash, hasher, batch))
                if len(pending) == 2 * processes:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    yield from [future.result() for future in done]
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from [future.result() for future in done]
        finally:
            pool.shutdown(cancel_futures=True)


def _limits(rows: pa.Table, processes: int) -> dict[str, int]:
    """Limits of a batch with which even few files keep all processes busy."""
    share = 4 * processes
    return {"files": min(1024, rows.num_rows // share + 1), "size": min(8 << 30, (pc.sum(rows["size"]).as_py() or 0) // share + 1)}


def _hash(hasher: Hasher, batch: pa.Table) -> Done:
    begin = time.process_time()
    results = hasher(batch)
    read = results.filter(pc.is_null(results[ERROR]))
    return Done(read.num_rows, pc.sum(read["size"]).as_py() or 0, results.num_rows - read.num_rows, time.process_time() - begin)
