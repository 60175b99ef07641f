"""The command `python -m gantry_crypto.manifest`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures.process import BrokenProcessPool

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import Hasher, local, missing, places, plan, read, shards, sums, verify_bag, verify_etags, verify_sums
from .etags import S3_ETAG
from .planning import SCHEMA

# Seconds between two progress messages.
_PROGRESS_INTERVAL = 30

_DESCRIPTION = """\
Hashes all files of a folder or an object store, many side by side, and keeps the results in a folder of Parquet files.

    python -m gantry_crypto.manifest hash /archive results      hash all files
    python -m gantry_crypto.manifest hash /archive results      again: only files that are new, changed, or could not be read
    python -m gantry_crypto.manifest sums results               print results as sha256sum does
    python -m gantry_crypto.manifest verify results --sums /archive/SHA256SUMS
"""
_STATUS = "Exit status: 0 if all is well; 1 if a file could not be read or differs; 2 if the command line is wrong; 3 if the command failed."
_SOURCE = "a folder, a URL such as s3://bucket/prefix (the variables AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and so on are as obstore has them), or a plan"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except BrokenProcessPool:
        return _report(f"a process was killed; start again to hash the files without a result in {options.shards}", 3)
    except KeyboardInterrupt:
        return _report("interrupted", 3)
    except BrokenPipeError:
        # The reader has closed the pipe. Python would report that once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 3
    except (OSError, ValueError, ImportError, *_store_errors()) as error:
        return _report(places.text_of(error), 3)


def _store_errors() -> tuple[type[Exception], ...]:
    try:
        from obstore.exceptions import BaseError
    except ImportError:
        return ()
    return (BaseError,)


def _report(text: str, status: int) -> int:
    print(f"manifest: {text}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m gantry_crypto.manifest", description=_DESCRIPTION, epilog=_STATUS, formatter_class=form)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("plan", help="list the files to hash", description="Writes path, size, ETag and time of every file, largest first.")
    command.add_argument("source", metavar="SOURCE", help=_SOURCE.rpartition(",")[0])
    command.add_argument("plan", metavar="PLAN", help="the Parquet file to write")
    command.set_defaults(run=_plan)

    command = commands.add_parser("hash", help="hash files without a result", description="Hashes the files without a result, largest first.")
    command.add_argument("source", metavar="SOURCE", help=_SOURCE)
    command.add_argument("shards", metavar="SHARDS", help="the folder or URL of results")
    command.add_argument("-a", dest="algs", metavar="ALG", action="append", help=f"sha256 by default; several are computed in one pass; {S3_ETAG}")
    command.add_argument("--processes", type=_count, default=os.cpu_count(), metavar="N", help="one per CPU by default")
    command.add_argument("--retries", type=int, default=places.RETRIES, metavar="N", help=f"retries of a request to a store; {places.RETRIES} by default")
    command.set_defaults(run=_hash)

    command = commands.add_parser("verify", help="compare results with a list, a bag or ETags", description="Prints differences.")
    command.add_argument("shards", metavar="SHARDS", help="the folder or URL of results")
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--sums", metavar="LIST", help="a list in the format of sha256sum or BSD")
    which.add_argument("--bag", metavar="FOLDER", help="a bag of BagIt")
    which.add_argument("--etags", action="store_true", help=f"ETags of the objects themselves; hash with -a {S3_ETAG}")
    command.add_argument("--under", metavar="ROOT", help="the folder or URL that the names in LIST are relative to; by default the folder of LIST")
    command.set_defaults(run=_verify)

    command = commands.add_parser("sums", help="print results as sha256sum does", description="Prints results as sha256sum does, in the order of names.")
    command.add_argument("shards", metavar="SHARDS", help="the folder or URL of results")
    command.add_argument("-a", dest="alg", metavar="ALG", default="sha256", help="sha256 by default")
    command.add_argument("--under", metavar="ROOT", help="print only names below this folder or URL, relative to it")
    command.set_defaults(run=_sums)
    return parser


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


def _size(rows: pa.Table) -> int:
    return pc.sum(rows["size"]).as_py() or 0


def _plan(options: argparse.Namespace) -> int:
    rows = plan(options.source)
    shards.write_file(options.plan, rows)
    print(f"{rows.num_rows} files, {_size(rows)} bytes")
    return 0


def _read_plan(path: str) -> pa.Table:
    try:
        return pq.read_table(path).select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"{path} is not a plan: {error}") from error


def _hash(options: argparse.Namespace) -> int:
    hasher = Hasher(options.algs or "sha256", options.shards, retries=options.retries)
    is_plan = not places.is_url(options.source) and os.path.isfile(options.source)
    rows = _read_plan(options.source) if is_plan else plan(options.source, retries=options.retries)
    rest = missing(rows, options.shards, hasher.algs)
    print(f"{rows.num_rows} files, {_size(rows)} bytes; {rows.num_rows - rest.num_rows} have results", flush=True)
    files, size, errors, cpu, begin = 0, 0, 0, 0.0, time.monotonic()
    due = begin + _PROGRESS_INTERVAL
    for done in local.run(rest, hasher, options.processes):
        files, size, errors, cpu = files + done.files, size + done.size, errors + done.errors, cpu + done.cpu
        if time.monotonic() >= due:
            print(f"{files + errors} of {rest.num_rows} files, {size} bytes", file=sys.stderr)
            due = time.monotonic() + _PROGRESS_INTERVAL
    print(f"{files} files hashed, {size} bytes, {errors} errors")
    print(f"{time.monotonic() - begin:.1f} s, {cpu:.1f} s of CPU time", file=sys.stderr)
    return 1 if errors else 0


def _verify(options: argparse.Namespace) -> int:
    results = read(options.shards)
    if options.etags:
        findings = verify_etags(results)
    elif options.bag:
        findings = verify_bag(results, options.bag)
    else:
        findings = verify_sums(results, options.sums, options.under)
    statuses: Counter[str] = Counter()
    for finding in findings:
        statuses[finding.status] += 1
        if finding.status != "ok":
            print(f"{finding.status}: {finding.path}: {finding.detail}")
    print(", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "nothing to compare")
    return 0 if set(statuses) == {"ok"} else 1


def _sums(options: argparse.Namespace) -> int:
    results = read(options.shards)
    if options.alg not in set(results.schema.names) - shards.NOT_DIGESTS:
        raise ValueError(f"{options.shards}: nothing was hashed with {options.alg}")
    names = map(_name, results["path"].to_pylist())
    status = 0
    for name, digits, error in sorted(zip(names, results[options.alg].to_pylist(), results[shards.ERROR].to_pylist())):
        shown = name if options.under is None else _below(name, options.under)
        if shown is None:
            continue
        if digits is None:
            status = _report(f"{os.fsdecode(name)}: {error or 'not hashed with ' + options.alg}", 1)
        else:
            sys.stdout.buffer.write(sums.line(digits, shown))
    sys.stdout.flush()
    return status


def _name(path: str) -> bytes:
    return path.encode() if places.is_url(path) else os.fsencode(places.file_of(path))


def _below(name: bytes, root: str) -> bytes | None:
    start = os.fsencode(root if places.is_url(root) else os.path.abspath(root)).rstrip(b"/") + b"/"
    return name[len(start) :] if name.startswith(start) else None


if __name__ == "__main__":
    sys.exit(main())
