#!/usr/bin/env python3
"""Makes the known answers of SLH-DSA from vectors of NIST's ACVP.

    scripts/slh-dsa.py OPENSSL

OPENSSL is a source of OpenSSL 3.5 or later, whose tests have the vectors of all parameter sets (test/recipes/30-test_evp_data, from
usnistgov/ACVP-Server, gen-val/json-files, version 53). `slh-dsa/tests/openssl.rs` runs all of them. Output:

    slh-dsa/tests/acvp.txt                        keys, signatures by their SHA-256, and verdicts of the smallest sets
    conformance/vectors/slh-dsa.txt               keys from seeds, and messages: our signatures are verified under NIST's public keys
    conformance/more-vectors/long/slh-dsa.txt     a signature of each set, and changed ones of the smallest sets
    core/src/trust/slh_dsa.rs                     known answers of devices

Signatures are up to 50 kB long.
"""

import hashlib
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORIGIN = "NIST ACVP, usnistgov/ACVP-Server (version 53)"
SETS = [f"SLH-DSA-{function}-{size}{kind}" for function in ("SHA2", "SHAKE") for size in (128, 192, 256) for kind in "sf"]
# The sets whose verdicts are kept, one for each reason.
SMALLEST = ["SLH-DSA-SHA2-128s", "SLH-DSA-SHAKE-128s"]
# Signatures used as known answers: the fastest ones of each choice of hash functions.
SHOWN = {"SLH-DSA-SHA2-128f": "SlhDsaSha2_128f", "SLH-DSA-SHA2-192f": "SlhDsaSha2_192f", "SLH-DSA-SHAKE-128f": "SlhDsaShake128f"}
# Bytes of messages in `conformance/vectors`, and their purpose.
MESSAGES = [(0, b""), (65, b"Gantry"), (300, b"a context")]


def main(openssl):
    data = pathlib.Path(openssl) / "test/recipes/30-test_evp_data"
    keys = list(made_keys(data))
    signatures = list(made_signatures(data))
    verdicts = list(made_verdicts(data))
    write_crate(keys, signatures, verdicts)
    write_short(keys)
    write_long(verdicts)
    write_answers(signatures)


def made_keys(data):
    for block in records(data / "evppkey_slh_dsa_keygen.txt"):
        if block["KeyGen"] in SETS:
            yield block["KeyGen"], {"seeds": block["Ctrl"]["hexseed"], "public": block["CtrlOut"]["hexpub"]}


def made_signatures(data):
    """Yields vectors, each with its set, whether its message is framed, and whether it is deterministic."""
    for controls, name, key, block in with_keys(data / "evppkey_slh_dsa_siggen.txt", "PrivateKeyRaw", "Sign-Message"):
        vector = {"key": key, "message": block["Input"]}
        framed, deterministic = controls["message-encoding"] == "1", controls["deterministic"] == "1"
        if framed:
            vector["context"] = controls["hexcontext-string"]
        if not deterministic:
            vector["randomness"] = controls["hextest-entropy"]
        yield (name, framed, deterministic), vector | {"signature": block["Output"]}


def made_verdicts(data):
    """Yields vectors, each with its set and the reason of its verdict."""
    for controls, name, key, block in with_keys(data / "evppkey_slh_dsa_sigver.txt", "PublicKeyRaw", "Verify-Message-Public"):
        if controls["message-encoding"] == "1":
            vector = {"#": block["#"], "public": key, "message": block["Input"], "context": controls["hexcontext-string"]}
            yield (name, block["#"]), vector | {"whole": block["Output"], "valid": "00" if "Result" in block else "01"}


def with_keys(path, raw, operation):
    keys = {}
    for block in records(path):
        if raw in block:
            label, _, key = block[raw].split(":")
            keys[label] = key
            continue
        name, label = block[operation].split(":")
        yield block["Ctrl"], name, keys[label], block


def records(path):
    """Yields the paragraphs of `name = value` as dictionaries; control values are in a nested dictionary."""
    for paragraph in path.read_text().split("\n\n"):
        record = {"Ctrl": {}, "CtrlOut": {}}
        for line in paragraph.splitlines():
            if line.startswith("#"):
                record["#"] = line[2:]
            if line.startswith("#") or " =" not in line:
                continue
            name, value = (part.strip() for part in line.split(" =", 1))
            if name in ("Ctrl", "CtrlOut"):
                control, _, value = value.partition(":")
                record[name][control] = value
            else:
                record[name] = value
        if len(record) > 3 or record["Ctrl"] or "PublicKeyRaw" in record or "PrivateKeyRaw" in record:
            yield record


def shortest(vectors):
    """Returns the test with the shortest message of each kind."""
    found = {}
    for kind, vector in vectors:
        if kind not in found or len(vector["message"]) < len(found[kind]["message"]):
            found[kind] = vector
    return found


def write_crate(keys, signatures, verdicts):
    blocks = {name: [] for name in SETS}
    for name, vector in reversed(dict(reversed(keys)).items()):
        blocks[name].append(vector)
    for (name, _, _), vector in shortest(signatures).items():
        digest = hashlib.sha256(bytes.fromhex(vector["signature"])).hexdigest()
        blocks[name].append(vector | {"signature": digest})
    for (name, _), vector in shortest(verdicts).items():
        if name in SMALLEST:
            blocks[name].append(vector)
    lines = [f"# Origin: {ORIGIN}; facts. Made by scripts/slh-dsa.py."]
    for name, vectors in blocks.items():
        lines.append(f"\n[{name}]")
        for vector in vectors:
            lines.append("")
            lines.extend(f"# {value}" if field == "#" else f"{field} = {value.lower()}" for field, value in vector.items())
    (ROOT / "slh-dsa/tests/acvp.txt").write_text("\n".join(lines) + "\n")


def write_short(keys):
    """Omits signatures, which would add a third of a megabyte to every program with `gantry check`."""
    sections = {name: [] for name in SETS}
    for name, key in keys:
        for length, context in MESSAGES[len(sections[name]) :][:1]:
            block = {"key": key["seeds"], "public": key["public"], "aad": context.hex()}
            sections[name].append(block | {"input": bytes(i % 256 for i in range(length)).hex()})
    write_vectors("conformance/vectors/slh-dsa.txt", sections)


def write_long(verdicts):
    sections = {name: [] for name in SETS}
    for (name, reason), vector in shortest(verdicts).items():
        valid = vector["valid"] == "01"
        if valid or name in SMALLEST:
            block = {"public": vector["public"], "aad": vector["context"], "input": vector["message"], "output": vector["whole"]}
            sections[name].append({"#": reason} | block | ({} if valid else {"invalid": "01"}))
    write_vectors("conformance/more-vectors/long/slh-dsa.txt", sections)


def write_vectors(path, sections):
    lines = [f"# Origin: {ORIGIN}; facts. Made by scripts/slh-dsa.py.", ""]
    for name, blocks in sections.items():
        lines += [f"[{name.lower()}]", ""]
        for block in blocks:
            lines += [f"# {value}" if field == "#" else f"{field} = {value.lower()}" for field, value in block.items() if value]
            lines.append("")
    (ROOT / path).write_text("\n".join(lines))


HEAD = f"""\
//! Known answers of SLH-DSA, made by `scripts/slh-dsa.py` from {ORIGIN}. Do not edit by hand.

use super::answer::KnownAnswer;
use super::hex::hex;
use crate::algorithm::Algorithm;

#[rustfmt::skip]
pub(super) const KNOWN_ANSWERS: &[KnownAnswer] = &[
"""


def write_answers(signatures):
    found = shortest((kind, vector) for kind, vector in signatures if kind[0] in SHOWN and kind[1])
    text = HEAD
    for name, variant in SHOWN.items():
        vector = found[name, True, True]
        key = vector["key"]
        fields = {"key": key, "second_key": key[len(key) // 2 :], "aad": vector["context"], "input": vector["message"]}
        text += f"    KnownAnswer {{\n        algorithm: Algorithm::{variant},\n"
        for field, value in (fields | {"output": vector["signature"]}).items():
            lines = "\\\n            ".join(textwrap.wrap(value.lower(), 480))
            text += f'        {field}: hex!("{lines}"),\n'
        text += "        iv: &[],\n        tag: &[],\n    },\n"
    (ROOT / "core/src/trust/slh_dsa.rs").write_text(text + "];\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
