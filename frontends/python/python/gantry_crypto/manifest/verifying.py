"""Compares results with checksums from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from . import places, sums
from .etags import S3_ETAG
from .shards import ERROR


class Finding(NamedTuple):
    """The verdict on one file."""

    path: str
    status: str
    """"ok", "changed", "unreadable", "missing" (listed, without a result), "new" (in a bag, not listed) or "unknown" (nothing to compare)."""
    detail: str
    """The error of an unreadable file, or the difference."""


def verify_sums(results: pa.Table, path: str | os.PathLike[str], under: str | None = None) -> Iterator[Finding]:
    """Compares with a list in the format of `sha256sum`, in its order. Its names are relative to `under`, a folder or a URL; by default the
    list's folder. If a line does not name its algorithm, the number of digits selects MD5 or one of SHA.

    ValueError: a line without a checksum.
    """
    path = os.fspath(path)
    return _compare(results, sums.read_list(path), os.path.dirname(path) if under is None else under)


def verify_bag(results: pa.Table, bag: str | os.PathLike[str]) -> Iterator[Finding]:
    """Compares with the payload manifests of a bag (RFC 8493), which lists all files below its folder `data`.

    ValueError: no bag with a known algorithm.
    """
    bag = os.fspath(bag)
    listed = set()
    for finding in _compare(results, sums.read_bag(bag), bag):
        listed.add(finding.path)
        yield finding
    payload = places.path_of(os.path.join(bag, "data")) + os.sep
    for path in results["path"].to_pylist():
        if path.startswith(payload) and path not in listed:
            yield Finding(path, "new", "the bag does not list it")


def verify_etags(results: pa.Table) -> Iterator[Finding]:
    """Compares the ETags of objects in S3 with their content, hashed with the algorithm "s3_etag".

    ValueError: the results have no "s3_etag".
    """
    if S3_ETAG not in results.schema.names:
        raise ValueError(f"the results have no {S3_ETAG}: hash with it, beside others")
    columns = (results[name] for name in ["path", "etag", S3_ETAG, ERROR])
    for path, etag, found, error in zip(*((value.as_py() for value in column) for column in columns)):
        if error is not None:
            yield Finding(path, "unreadable", error)
        elif found is None:
            yield Finding(path, "unknown", f"the ETag {etag} is no MD5, nor one of parts of a usual size")
        elif found == etag.strip('"'):
            yield Finding(path, "ok", "")
        else:
            yield Finding(path, "changed", f"the ETag is {etag}, and the content has {found} if its parts have a usual size")


def _compare(results: pa.Table, expected: Iterable[tuple[str, str, bytes]], under: str) -> Iterator[Finding]:
    rows = {path.as_py(): row for row, path in enumerate(results["path"])}
    for alg, digits, name in expected:
        if places.is_url(under):
            path = f"{under.rstrip('/')}/{os.path.normpath(os.fsdecode(name))}"
        else:
            path = places.path_of(os.path.join(os.fsencode(under), name))
        row = rows.get(path)
        if row is None:
            yield Finding(path, "missing", "there is no result")
        elif (error := results[ERROR][row].as_py()) is not None:
            yield Finding(path, "unreadable", error)
        elif alg not in results.schema.names or (found := results[alg][row].as_py()) is None:
            yield Finding(path, "unknown", f"it was not hashed with {alg}")
        elif found != digits:
            yield Finding(path, "changed", f"{alg} {found}, listed {digits}")
        else:
            yield Finding(path, "ok", "")
