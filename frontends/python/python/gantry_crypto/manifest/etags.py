"""The ETags of S3: the MD5 of an object, or the MD5 of the MD5s of its parts with their number (Amazon S3 User Guide, "Checking object
integrity"). Stores have other ETags, too: the ETag of an object under SSE-KMS or SSE-C is not a digest.
"""

from __future__ import annotations

import re

from .._core import Hash, new

S3_ETAG = "s3_etag"
"""The name, used like an algorithm's, for the expected ETag of an object in S3."""
MIB = 1 << 20
# Part sizes of common programs, in MiB: aws-cli and boto3 8, s3cmd 15, SDKs and rclone 5, MinIO 16 and 128, others powers of two.
_COMMON_PART_SIZES = (8, 5, 15, 16, 10, 20, 25, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000, 1024, 2048, 4096)
# If at most this many multiples of a MiB give the number of parts, all are tried. Each costs another MD5.
_MAX_CANDIDATES = 8


def parse_etag(etag: str) -> tuple[str, int | None] | None:
    """Returns the digits of an S3 ETag, and its number of parts if it was uploaded in parts; None for an ETag of another shape."""
    match = re.fullmatch(r'"?([0-9a-f]{32})(?:-([1-9][0-9]{0,4}))?"?', etag)
    return match and (match[1], int(match[2]) if match[2] else None)


def part_sizes(parts: int, size: int) -> list[int]:
    """Returns part sizes, in bytes, that split an object of `size` bytes into `parts` parts."""
    if parts == 1:
        return [max(size, 1)]
    # The smallest and largest part size, in MiB, that give this number of parts with a non-empty last one.
    least, most = -(-size // (parts * MIB)), (size - 1) // ((parts - 1) * MIB)
    common = [each for each in _COMMON_PART_SIZES if least <= each <= most]
    candidates = range(least, most + 1) if most - least < _MAX_CANDIDATES else [least]
    return [each * MIB for each in dict.fromkeys([*common, *candidates]) if -(-size // (each * MIB)) == parts]


class PartHashes:
    """MD5 of the parts of one object."""

    def __init__(self, part_size: int) -> None:
        self._part_size, self._remaining, self._hash, self._digests = part_size, part_size, new("md5"), b""

    def take(self, piece: memoryview) -> list[tuple[Hash, memoryview]]:
        """Splits a piece where parts end. Returns the current hash and its share, for the caller to hash beside others."""
        while len(piece) > self._remaining:
            self._hash.update(piece[: self._remaining])
            piece = piece[self._remaining :]
            self._end_part()
        self._remaining -= len(piece)
        return [(self._hash, piece)]

    def _end_part(self) -> None:
        self._digests += self._hash.digest()
        self._remaining, self._hash = self._part_size, new("md5")

    def etag(self) -> str:
        """Returns the ETag without quotes."""
        self._end_part()
        return f"{new('md5', self._digests).hexdigest()}-{len(self._digests) // 16}"


class Etag:
    """The expected ETag of an object."""

    def __init__(self, etag: str, size: int) -> None:
        parsed = parse_etag(etag)
        self._given = etag.strip('"')
        self._whole = new("md5") if parsed and parsed[1] is None else None
        self._candidates = [PartHashes(part_size) for part_size in part_sizes(parsed[1], size)] if parsed and parsed[1] else []

    def take(self, piece: memoryview) -> list[tuple[Hash, memoryview]]:
        """Returns the hashes to update with a piece."""
        if self._whole is not None:
            return [(self._whole, piece)]
        return [update for parts in self._candidates for update in parts.take(piece)]

    def hexdigest(self) -> str | None:
        """Returns the content's ETag, without quotes; None if the given ETag has another shape or comes from an unknown part size."""
        if self._whole is not None:
            return self._whole.hexdigest()
        found = [parts.etag() for parts in self._candidates]
        return self._given if self._given in found else next(iter(found), None)
