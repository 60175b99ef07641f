#!/usr/bin/env python3
"""Makes core/src/trust/compressed.rs and conformance/vectors/compression.txt, with zlib (Python's) and the command zstd. Streams that no
program writes are made by hand.

    scripts/compressed.py

Other versions of zlib and zstd write other bytes for the same data. The present bytes stay valid.
"""

import pathlib
import struct
import subprocess
import zlib

ROOT = pathlib.Path(__file__).parent.parent
TEXT = (
    b"It takes cryptographic requests from programs, data at rest, packets and virtual machines, and sends each "
    b"one to the engine of the machine that serves it best: SIMD lanes, a kernel driver, a card behind a ring, "
    b"plain software. Requests of many programs fill the lanes; a card takes the rest of the requests."
)


def noise(length, seed=5):
    """Returns incompressible bytes."""
    state, result = seed, bytearray()
    while len(result) < length:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        result.append(state >> 56)
    return bytes(result)


def by_zlib(bits, data, level=9, strategy=zlib.Z_DEFAULT_STRATEGY, flush=None):
    stream = zlib.compressobj(level, zlib.DEFLATED, bits, 9, strategy)
    if flush is None:
        return stream.compress(data) + stream.flush()
    half = len(data) // 2
    return stream.compress(data[:half]) + stream.flush(flush) + stream.compress(data[half:]) + stream.flush()


RAW, ZLIB, GZIP = -15, 15, 31


def by_zstd(data, *options):
    # zstd cannot know the length of a pipe.
    command = ["zstd", "--quiet", "--stdout", f"--stream-size={len(data)}", *options]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def answers():
    yield """//! Known answers of compression, made by `scripts/compressed.py`. Do not edit by hand.
//!
//! Each format has two answers: a compressed text, with matches and its own codes, and incompressible bytes, which are stored. Made by
//! zlib and by the command zstd.

use super::answer::KnownAnswer;
use super::hex::hex;
use crate::algorithm::Algorithm;

#[rustfmt::skip]
pub(crate) const KNOWN_ANSWERS: &[KnownAnswer] = &["""
    plain = noise(40)
    for name, compress in (
        ("Deflate", lambda data, level: by_zlib(RAW, data, level)),
        ("Zlib", lambda data, level: by_zlib(ZLIB, data, level)),
        ("Gzip", lambda data, level: by_zlib(GZIP, data, level)),
        ("Zstd", lambda data, level: by_zstd(data, "--check", "-19")),
    ):
        for data, level in ((TEXT, 9), (plain, 0)):
            yield f"""    KnownAnswer {{
        algorithm: Algorithm::{name},
        input: hex!("{data.hex()}"),
        output: hex!("{compress(data, level).hex()}"),
        key: &[], second_key: &[], iv: &[], aad: &[], tag: &[],
    }},"""
    yield "];"


# Data with a run, a text repeated at all distances, letters of few bits, and noise in between.
MIXED = b"".join(
    (b"\0" * 300, TEXT, noise(90), bytes(65 + value % 5 for value in noise(200, 7)), TEXT, b"ab" * 50)
)
# Two copies of the text, farther apart than the window of DEFLATE.
FAR = TEXT + b"\0" * 33000 + TEXT
PLAIN = (b"", b"a", b"\0" * 258, b"abc" * 7, TEXT, MIXED, bytes(range(256)) * 5)


def deflate(bits):
    """Yields streams that zlib writes, as pairs of data and stream."""
    for data in PLAIN:
        yield data, by_zlib(bits, data, 6)
    for level in (1, 9):
        yield MIXED, by_zlib(bits, MIXED, level)
    for strategy in (zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED):
        yield MIXED, by_zlib(bits, MIXED, 6, strategy)
    for flush in (zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH):
        yield MIXED, by_zlib(bits, MIXED, 6, flush=flush)
    yield MIXED, by_zlib(bits, MIXED, 0)
    if bits == RAW:
        yield FAR, by_zlib(bits, FAR, 6)


def bad_deflate():
    """Yields streams that break rules of RFC 1951. The bits of a byte are read from the lowest on."""
    yield "nothing", b""
    yield "a block of the type that is reserved", b"\x07"
    yield "a stored block whose lengths do not agree", b"\x01\x01\x00\xff\xff\x41"
    yield "a stored block that ends too early", b"\x01\x05\x00\xfa\xff\x41"
    yield "no last block", b"\x00\x01\x00\xfe\xff\x41"
    yield "something behind the end", by_zlib(RAW, b"abc") + b"x"
    # Fixed codes: 257 (length 3) is 0000001, and a distance of 1 is 00000; nothing comes before it.
    yield "a match before the beginning", b"\x03\x02\x00\x00"
    # Code lengths: HLIT 257 and more, HDIST, HCLEN, and all lengths of the code for code lengths are 0.
    yield "no codes", b"\x05\x00\x00\x00\x00\x00\x00"
    # Seven bits each: an oversubscribed code for code lengths.
    yield "too many codes", b"\x05\x00\x92\x24\x49\x92\x24\x49"


def bad_zlib():
    good = by_zlib(ZLIB, TEXT)
    yield "nothing", b""
    yield "a wrong checksum", good[:-1] + bytes([good[-1] ^ 1])
    yield "a check of the header that does not fit", bytes([good[0], good[1] ^ 1]) + good[2:]
    yield "a method that is not DEFLATE", b"\x77\x85" + good[2:]
    yield "a window larger than 32 KiB", b"\x88\x1c" + good[2:]
    yield "a dictionary", b"\x78\xbb\x00\x00\x00\x01" + good[2:]
    yield "something behind the end", good + b"\0"
    yield "a member of gzip", by_zlib(GZIP, TEXT)


def member(data, flags=0, fields=b"", mtime=0):
    """Returns a gzip member with all optional header fields (RFC 1952, 2.3)."""
    header = b"\x1f\x8b\x08" + bytes([flags]) + struct.pack("<I", mtime) + b"\0\x03" + fields
    if flags & 2:
        header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    return header + by_zlib(RAW, data) + struct.pack("<II", zlib.crc32(data), len(data))


def gzip():
    yield from deflate(GZIP)
    yield TEXT, member(TEXT, 8, b"file.txt\0", 1700000000)
    yield TEXT, member(TEXT, 16, b"a comment\0")
    yield TEXT, member(TEXT, 4, struct.pack("<H", 6) + b"GY\x02\x00ab")
    yield TEXT, member(TEXT, 4 + 8 + 16, struct.pack("<H", 0) + b"name\0comment\0")
    yield TEXT + MIXED + b"z", member(TEXT) + member(MIXED) + member(b"") + member(b"z")


def bad_gzip():
    good = member(TEXT)
    yield "nothing", b""
    yield "a wrong checksum", good[:-8] + bytes([good[-8] ^ 1]) + good[-7:]
    yield "a wrong length", good[:-1] + b"\x01"
    yield "another method", good[:2] + b"\x07" + good[3:]
    yield "a flag that is reserved", good[:3] + b"\x20" + good[4:]
    yield "a name without an end", good[:3] + b"\x08" + good[4:10] + b"name"
    yield "an extra field longer than the rest", good[:3] + b"\x04" + good[4:10] + b"\xff\xff" + good[10:]
    yield "something behind the end", good + b"tail"
    yield "the beginning of another member", good + good[:12]
    yield "another member with a wrong checksum", good + good[:-8] + bytes([good[-8] ^ 1]) + good[-7:]
    yield "a stream of zlib", by_zlib(ZLIB, TEXT)


def zstd():
    for data in PLAIN:
        yield data, by_zstd(data)
    for level in ("-1", "-19", "--fast=5"):
        yield MIXED, by_zstd(MIXED, level)
    yield MIXED, by_zstd(MIXED, "--no-check")
    yield FAR, by_zstd(FAR, "-6")
    # Without the content size in the header.
    yield MIXED, by_zstd(MIXED, "--no-content-size")
    frames = by_zstd(TEXT) + by_zstd(MIXED, "--no-check") + by_zstd(b"")
    yield TEXT + MIXED, frames
    # RFC 8878, 3.1.2: a skippable frame.
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello"
    yield TEXT + MIXED, skippable + frames + skippable


def bad_zstd():
    good = by_zstd(TEXT)
    yield "nothing", b""
    yield "a wrong checksum", good[:-1] + bytes([good[-1] ^ 1])
    yield "another magic number", b"\x29" + good[1:]
    yield "a bit that is reserved", good[:4] + bytes([good[4] | 8]) + good[5:]
    # RFC 8878, 3.1.1.2: an empty single-segment frame, with a last block of type 3.
    yield "a block of the type that is reserved", b"\x28\xb5\x2f\xfd\x20\x00\x07\x00\x00"
    yield "a block that says that it is longer than any", b"\x28\xb5\x2f\xfd\x20\x00\xf9\xff\xff" + b"a" * 40
    yield "something behind the end", good + b"tail"
    yield "the beginning of another frame", good + good[:9]
    yield "a length in the header that is not that of the data", good[:5] + bytes([good[5] ^ 1]) + good[6:]


def vectors():
    yield "# Origin: zlib (by Python), the command zstd, and by hand what breaks the rules of RFC 1950, 1951, 1952 and 8878"
    yield "# Made by scripts/compressed.py"
    for name, good, bad in (
        ("deflate", deflate(RAW), bad_deflate()),
        ("zlib", deflate(ZLIB), bad_zlib()),
        ("gzip", gzip(), bad_gzip()),
        ("zstd", zstd(), bad_zstd()),
    ):
        yield f"\n[{name}]"
        seen = set()
        for data, stream in good:
            if stream not in seen:
                seen.add(stream)
                yield f"\ninput = {data.hex()}\noutput = {stream.hex()}"
        for why, stream in bad:
            yield f"\n# {why}\noutput = {stream.hex()}\ninvalid = 01"


def write(path, lines):
    (ROOT / path).write_text("\n".join(lines) + "\n", encoding="ascii")


write("core/src/trust/compressed.rs", answers())
write("conformance/vectors/compression.txt", vectors())
