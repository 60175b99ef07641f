#!/usr/bin/env python3
"""Makes core/src/trust/vectors.rs: the known answers that a device must give before it serves an algorithm.

Each algorithm has a short answer, from a public set if conformance/vectors has one, and an answer that crosses several blocks, which the
two implementations of reference.py compute over a pattern.
"""

import pathlib
import re

import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "core/src/trust/vectors.rs"

HEAD = """\
//! Known answers, made by `scripts/kat.py`. Do not edit by hand.
//!
//! A comment above each answer names its origin. `computed` means: by two implementations that share no code (OpenSSL and
//! PyCryptodome, see `scripts/reference.py`), which agree.

use super::answer::KnownAnswer;
use super::hex::hex;
use super::sample_keys;
use crate::algorithm::Algorithm;

/// A short answer of each algorithm, and one that crosses several blocks; a single answer of RSA.
#[rustfmt::skip]
pub(crate) const KNOWN_ANSWERS: &[KnownAnswer] = &[
"""

TAIL = """\
];

/// A part of a pattern in which no two blocks are alike.
const fn pattern(start: usize, length: usize) -> &'static [u8] {
    PATTERN.split_at(start).1.split_at(length).0
}

const PATTERN: &[u8; 8704] = &{
    let mut bytes = [0; 8704];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = ((7 * i + 31 * (i >> 8)) & 0xff) as u8;
        i += 1;
    }
    bytes
};

"""

# Gantry's names -> those of the vector files.
FIELDS = {name: (name,) for name in ("key", "second_key", "iv", "aad", "input", "output", "tag")}
FIELDS["second_key"] = ("mac_key", "public")


def main():
    public, shared, entries = short_vectors(), {}, []
    for key in reference.rsa_samples().values():
        size = reference.rsa_size(key)
        shared[key] = f"sample_keys::SAMPLE_{8 * size}"
        shared[key[: size + reference.EXPONENT]] = f"sample_keys::public_key(sample_keys::SAMPLE_{8 * size})"
    samples = dict(shared)
    for algorithm in reference.ALGORITHMS:
        if reference.is_rsa(algorithm):
            # One answer is enough: private keys take long.
            length = reference.rsa_size(bytes(algorithm.key)) if algorithm.mode == "raw" else 48
            entries.append(entry(algorithm, "computed", reference.known_answer(algorithm, length, 0, shift=3), shared))
            continue
        if algorithm.kind != "null":
            origin, block = public.get(algorithm.name) or ("computed", reference.known_answer(algorithm, 32, 12))
            entries.append(entry(algorithm, origin, block, shared))
        length = 272 if algorithm.block > 1 or algorithm.mode == "ctr" else 263
        length = 32 if algorithm.kind == "exchange" else length
        length = 8600 if algorithm.name == "kt128" else length  # more than a chunk
        xof = 400 if algorithm.xof else None  # more than a block
        aad = 20 if algorithm.kind in ("aead", "eta") else 0
        entries.append(entry(algorithm, "computed", reference.known_answer(algorithm, length, aad, shift=3, xof=xof), shared))
    consts = "".join(
        f'#[rustfmt::skip]\nconst {name}: &[u8] = hex!("{wrapped(value.hex())}");\n'
        for value, name in shared.items()
        if value not in samples
    )
    TARGET.write_text(HEAD + "".join(entries) + TAIL + consts)
    print(f"{TARGET.stat().st_size} bytes, {len(entries)} answers")


def short_vectors():
    """Returns, for each algorithm, the first public vector with a short input, the usual IV and a full tag."""
    found = {}
    for path in sorted((ROOT / "conformance/vectors").glob("*.txt")):
        if path.stem == "computed":
            continue
        text = path.read_text()
        title = re.search(r"^# Origin: (.*)", text)[1]
        for part in re.split(r"\n\n(?=# .*\n\[)", text)[1:]:
            source, name = re.match(r"# (.*)\n\[(.*)\]", part).groups()
            algorithm = reference.BY_NAME[name]
            for block in part.split("\n\n")[1:]:
                block = dict(re.match(r"(\w+) = ?(.*)", line).groups() for line in block.strip().splitlines())
                if "ptn" in block:
                    block["input"] = reference.ptn(int(block["ptn"])).hex()
                if suits(algorithm, block):
                    found.setdefault(name, (f"{title}; {source}", block))
    return found


def suits(algorithm, block):
    if "monte" in block or "invalid" in block or len(block.get("iv", "")) != 2 * algorithm.iv:
        return False
    if algorithm.kind == "aead" and (len(block["tag"]) != 32 or not block["aad"]):
        return False
    if algorithm.mode == "des" and len({block["key"][i : i + 16] for i in (0, 16, 32)}) < 3:
        return False
    if algorithm.mode == "poly1305" and block["output"] == 32 * "0":
        return False
    low = max(algorithm.block, 32 if algorithm.kind in ("cipher", "xts") else 1)
    return low <= len(block["input"]) // 2 <= 128


def entry(algorithm, origin, block, shared):
    """Formats an answer. `shared` holds long ciphertexts so far: an encrypt-then-authenticate pair repeats its cipher's."""
    lines = ""
    values = {name: "".join(block.get(theirs, "") for theirs in fields) for name, fields in FIELDS.items()}
    for name, digits in values.items():
        value = bytes.fromhex(digits)
        if value in shared:
            lines += f"        {name}: {shared[value]},\n"
        elif name == "output" and len(value) > 64 and algorithm.kind == "cipher" and algorithm.mode in ("cbc", "ctr"):
            shared[value] = algorithm.name.upper().replace("-", "_")
            lines += f"        {name}: {shared[value]},\n"
        elif value:
            lines += f"        {name}: {literal(value)},\n"
    empty = ", ".join(f"{name}: &[]" for name, digits in values.items() if not digits)
    empty = f"        {empty},\n" if empty else ""
    return (
        f"    // {origin}\n    KnownAnswer {{\n        algorithm: Algorithm::{variant(algorithm.name)},\n"
        f"{lines}{empty}    }},\n"
    )


def literal(value):
    at = reference.pattern(0, 8704).find(value)
    if len(value) >= 8 and at >= 0:
        return f"pattern({at}, {len(value)})"
    return f'hex!("{wrapped(value.hex())}")'


def wrapped(digits):
    """Wraps the digits of a string literal."""
    return "\\\n            ".join(digits[i : i + 96] for i in range(0, len(digits), 96))


def variant(name):
    """Returns the Rust name: sha512-256 -> Sha512_256, aes-128-cbc-hmac-sha1 -> Aes128CbcHmacSha1."""
    special = {"chacha20": "ChaCha20", "xchacha20": "XChaCha20"}
    special |= {"turboshake128": "TurboShake128", "turboshake256": "TurboShake256"}
    result = ""
    for part in name.split("-"):
        part = special.get(part, part[:1].upper() + part[1:])
        result += ("_" if result[-1:].isdigit() and part[0].isdigit() else "") + part
    return result


if __name__ == "__main__":
    main()
