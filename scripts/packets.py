#!/usr/bin/env python3
"""Makes core/src/trust/packets.rs and conformance/vectors/esp.txt: packets of ESP, computed by the package `cryptography`. Packets that no
sender makes are made by hand.

    scripts/packets.py
"""

import hashlib
import hmac
import pathlib
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

ROOT = pathlib.Path(__file__).parent.parent
# Rows: name, variant, bytes of the cipher's key, digest if any.
ROWS = (
    ("esp-aes-128-gcm", "EspAes128Gcm", 16, None),
    ("esp-aes-192-gcm", "EspAes192Gcm", 24, None),
    ("esp-aes-256-gcm", "EspAes256Gcm", 32, None),
    ("esp-chacha20-poly1305", "EspChaCha20Poly1305", 32, None),
    ("esp-aes-128-cbc-hmac-sha1", "EspAes128CbcHmacSha1", 16, hashlib.sha1),
    ("esp-aes-256-cbc-hmac-sha1", "EspAes256CbcHmacSha1", 32, hashlib.sha1),
    ("esp-aes-128-cbc-hmac-sha256", "EspAes128CbcHmacSha256", 16, hashlib.sha256),
    ("esp-aes-256-cbc-hmac-sha256", "EspAes256CbcHmacSha256", 32, hashlib.sha256),
)


def pattern(seed, length):
    return bytes((index * 37 + seed * 11 + index // 7) & 255 for index in range(length))


class Association:
    """A security association (RFC 4303) with the keys of a row."""

    def __init__(self, row, seed, spi=0x1234ABCD, extended=False):
        self.name, _, key, self.digest = row
        self.aead = self.digest is None
        self.key = pattern(seed, key + (4 if self.aead else 0))
        self.mac_key = b"" if self.aead else pattern(seed + 1, self.digest().digest_size)
        self.spi, self.extended = spi, extended

    def seal(self, payload, number, next_header, icv=None, padding=None, lie=None):
        block = 4 if self.aead else 16
        if padding is None:
            padding = -(len(payload) + 2) % block
        pad = bytes(range(1, padding + 1)) if lie is None else lie
        data = payload + pad + bytes([padding, next_header])
        header = struct.pack(">II", self.spi, number & 0xFFFFFFFF)
        aad = struct.pack(">IQ", self.spi, number) if self.extended else header
        if self.aead:
            iv, (key, salt) = struct.pack(">Q", number), (self.key[:-4], self.key[-4:])
            cipher = ChaCha20Poly1305(key) if "chacha" in self.name else AESGCM(key)
            sealed = cipher.encrypt(salt + iv, data, aad)
            # A shorter integrity check value is a prefix of the whole one.
            return header + iv + sealed[:-16] + sealed[-16:][: icv or 16]
        iv = hashlib.sha256(self.key + header).digest()[:16]
        encryptor = Cipher(algorithms.AES(self.key), modes.CBC(iv)).encryptor()
        packet = header + iv + encryptor.update(data) + encryptor.finalize()
        length = {"sha1": 12, "sha256": 16}[self.digest().name]
        return packet + hmac.new(self.mac_key, packet, self.digest).digest()[:length]


def answers():
    yield """//! Known answers of packets, made by `scripts/packets.py`. Do not edit by hand.
//!
//! `iv` has the number, and `aad` the SPI, the next header, and whether numbers are extended.

use super::answer::KnownAnswer;
use super::hex::hex;
use crate::algorithm::Algorithm;

#[rustfmt::skip]
pub(crate) const KNOWN_ANSWERS: &[KnownAnswer] = &["""
    for row in ROWS:
        for seed, length, number, next_header in ((1, 5, 1, 4), (2, 84, 0x01020304, 41)):
            end = Association(row, seed)
            payload = pattern(seed + 7, length)
            packet = end.seal(payload, number, next_header)
            yield f"""    KnownAnswer {{
        algorithm: Algorithm::{row[1]},
        key: hex!("{end.key.hex()}"),
        second_key: hex!("{end.mac_key.hex()}"),
        iv: hex!("{number:016x}"),
        aad: hex!("{end.spi:08x}{next_header:02x}00"),
        input: hex!("{payload.hex()}"),
        output: hex!("{packet.hex()}"),
        tag: &[],
    }},"""
    yield "];"


def vectors():
    yield "# Origin: computed by the package cryptography, by RFC 4303, 4106, 7634, 3602, 2404 and 4868"
    yield "# Made by scripts/packets.py"
    for row in ROWS:
        yield f"\n[{row[0]}]"
        end = Association(row, 3)
        for number, length in enumerate((0, 1, 2, 3, 13, 14, 15, 16, 17, 64, 255, 256, 1400), 1):
            yield vector(end, pattern(number, length), number, 4)
        extended = Association(row, 4, extended=True)
        if end.aead:
            yield vector(extended, pattern(1, 40), (7 << 32) + 5, 41)
            yield vector(extended, pattern(2, 40), 2**64 - 1, 41)
        yield vector(end, pattern(3, 40), 2**32 - 1, 6)
        if "gcm" in row[0]:
            yield vector(end, pattern(5, 33), 9, 4, icv=12)
            yield vector(end, pattern(6, 34), 9, 4, icv=8)
        # More padding than needed hides the length of the payload (RFC 4303, 2.7).
        block = 4 if end.aead else 16
        long = pattern(8, 100)
        yield vector(end, long, 21, 4, padding=-(len(long) + 2) % block + 8 * block)
        good = end.seal(long, 22, 4)
        for why, packet in (
            ("another SPI", b"\0\0\1\0" + good[4:]),
            ("another number", good[:7] + b"\x17" + good[8:]),
            ("padding that is none", end.seal(pattern(9, 9), 22, 4, padding=5, lie=b"\1\2\3\4\6")),
            ("more padding than data", end.seal(b"", 22, 4, padding=255, lie=bytes(range(1, 15)))),
            ("a byte is missing", good[:-1]),
            ("a header alone", good[:8]),
            ("nothing", b""),
        ):
            yield f"\n# {why}\n{head(end, 22, 4)}\noutput = {packet.hex()}\ninvalid = 01"


def head(end, number, next_header):
    mac_key = f"mac_key = {end.mac_key.hex()}\n" if end.mac_key else ""
    return (
        f"key = {end.key.hex()}\n{mac_key}iv = {number:016x}\n"
        f"aad = {end.spi:08x}{next_header:02x}{int(end.extended):02x}"
    )


def vector(end, payload, number, next_header, **how):
    packet = end.seal(payload, number, next_header, **how)
    tag = f"tag = {packet[-how['icv']:].hex()}\n" if "icv" in how else ""
    return (
        f"\n{head(end, number, next_header)}\ninput = {payload.hex()}\n"
        f"output = {packet.hex()}\n{tag}".rstrip("\n")
    )


def write(path, lines):
    (ROOT / path).write_text("\n".join(lines) + "\n", encoding="ascii")


write("core/src/trust/packets.rs", answers())
write("conformance/vectors/esp.txt", vectors())
