"""Lists of checksums: the formats of `sha256sum` and of BSD's programs, and the manifests of BagIt (RFC 8493)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from .. import _core

# Algorithms of coreutils by the number of digits of their digests.
_ALG_BY_DIGITS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
_GNU = re.compile(rb"(?P<escaped>\\?)(?P<digits>[0-9A-Fa-f]+) [ *](?P<name>.+)")
_BSD = re.compile(rb"(?P<escaped>\\?)(?P<alg>[0-9A-Za-z_-]+) \((?P<name>.+)\) = (?P<digits>[0-9A-Fa-f]+)")
_BAG = re.compile(rb"(?P<digits>[0-9A-Fa-f]+)[ \t]+(?P<name>.+)")
_ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\\\": b"\\"}


def read_list(path: str) -> Iterator[tuple[str, str, bytes]]:
    """Yields the algorithm, digits and name of each line. ValueError: a line of another format, with its number."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip(b"\r\n")
            if not line or line.startswith(b"#"):
                continue
            match = _BSD.fullmatch(line) or _GNU.fullmatch(line)
            alg = match and (_alg(match["alg"].decode()) if "alg" in match.groupdict() else _ALG_BY_DIGITS.get(len(match["digits"])))
            if not match or not alg:
                raise ValueError(f"{path}:{number}: expected a checksum of a known algorithm and a name")
            name = match["name"]
            if match["escaped"]:
                name = re.sub(rb"\\[nr\\]", lambda escape: _ESCAPES[escape[0]], name)
            yield alg, match["digits"].decode().lower(), name


def read_bag(bag: str) -> Iterator[tuple[str, str, bytes]]:
    """Yields the algorithm, digits and name of each line of a bag's payload manifests.

    ValueError: there is no manifest of a known algorithm, or a line has another format.
    """
    known = False
    for entry in sorted(os.listdir(bag)):
        match = re.fullmatch(r"manifest-([0-9a-z_]+)\.txt", entry)
        alg = match and _alg(match[1])
        if not alg:
            continue
        known = True
        path = os.path.join(bag, entry)
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                found = _BAG.fullmatch(line.rstrip(b"\r\n"))
                if not found:
                    raise ValueError(f"{path}:{number}: expected a checksum and a name")
                # Only these three are encoded (RFC 8493, 2.1.3).
                name = re.sub(rb"%(0[AaDd]|25)", lambda code: bytes([int(code[1], 16)]), found["name"])
                yield alg, found["digits"].decode().lower(), name
    if not known:
        raise ValueError(f"{bag} has no manifest of a known algorithm")


def line(digits: str, name: bytes) -> bytes:
    """Returns a line in the format of `sha256sum`."""
    escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return (b"\\" if escaped != name else b"") + digits.encode() + b"  " + escaped + b"\n"


def _alg(name: str) -> str | None:
    try:
        return _core.new(name).name
    except ValueError:
        return None
