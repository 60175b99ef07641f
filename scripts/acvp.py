#!/usr/bin/env python3
"""Makes ml-kem.txt and ml-dsa.txt in conformance/vectors and conformance/more-vectors/long, and core/src/trust/post_quantum.rs, from
vectors of NIST's ACVP.

    scripts/acvp.py FOLDER

FOLDER has the files internalProjection.json of usnistgov/ACVP-Server (gen-val/json-files, commit 65370b8), by these names:
kem-key-gen.json, kem-encap-decap.json, dsa-key-gen.json, dsa-sig-gen.json and dsa-sig-ver.json.

The signatures are of Algorithms 7 and 8 of FIPS 204 (the internal interface); this script makes the representative mu of their messages.
kyber-py and dilithium-py (`pip install kyber-py dilithium-py`), which are written from the standards, compute the parts that ACVP lacks: a
context, a hash before the signature, a secret under a key made from a seed. The devices verify these parts.
"""

import hashlib
import json
import pathlib
import sys

from dilithium_py import ml_dsa
from kyber_py import ml_kem

ROOT = pathlib.Path(__file__).resolve().parent.parent
ACVP = "NIST ACVP, usnistgov/ACVP-Server 65370b8"

# Tests taken from each group: few, because the repository keeps them.
KEYS, SECRETS, REJECTIONS, SIGNATURES, VERDICTS = 3, 3, 10, 2, 10

# Tests of each parameter set outside the folder `long`, which programs with `gantry check` contain.
SHORT = {"keyGen": 1, "encapsulation": 1, "decapsulation": 2, "sigGen": 0, "sigVer": 1, "sigVer invalid": 1}

# The last byte of the hash's OID, 2.16.840.1.101.3.4.2.
SHA512 = 3


def main(folder):
    groups = {path.stem: load(path) for path in pathlib.Path(folder).glob("???-*.json")}
    kem = {f"ml-kem-{size}": [] for size in (512, 768, 1024)}
    for group, test in tests(groups["kem-key-gen"], KEYS):
        block = {"aad": test["d"] + test["z"], "key": test["dk"], "public": test["ek"]}
        kem[group["parameterSet"].lower()].append(("keyGen", test, block))
    for group, test in tests(groups["kem-encap-decap"], REJECTIONS):
        if group["function"] == "decapsulation":
            block = {"key": group["dk"], "output": test["c"], "tag": test["k"]}
        elif (test["tcId"] - 1) % 25 < SECRETS:
            block = {"key": test["dk"], "public": test["ek"], "iv": test["m"], "output": test["c"], "tag": test["k"]}
        else:
            continue
        kem[group["parameterSet"].lower()].append((group["function"], test, block))
    write("ml-kem", kem)

    dsa = {f"ml-dsa-{size}": [] for size in (44, 65, 87)}
    for group, test in tests(groups["dsa-key-gen"], KEYS):
        dsa[group["parameterSet"].lower()].append(("keyGen", test, signed(group, test)))
    for group, test in tests(groups["dsa-sig-gen"], SIGNATURES):
        public = scheme(group).pk_from_sk(bytes.fromhex(test["sk"])).hex()
        block = {"key": test["sk"], "public": public, "prehash": "00", "input": mu(public, test["message"])}
        dsa[group["parameterSet"].lower()].append(("sigGen", test, block | {"output": test["signature"]}))
    for group, test in tests(groups["dsa-sig-ver"], VERDICTS):
        block = {"public": group["pk"], "prehash": "00", "input": mu(group["pk"], test["message"]), "output": test["signature"]}
        dsa[group["parameterSet"].lower()].append(("sigVer", test, block | ({} if test["testPassed"] else {"invalid": "01"})))
    write("ml-dsa", dsa)
    known_answers(groups)


def load(path):
    content = json.loads(path.read_text())
    return content["testGroups"]


def tests(groups, most):
    for group in groups:
        yield from ((group, test) for test in group["tests"][: max(most, 10) if "function" in group else most])


def scheme(group, hashed=False):
    size = group["parameterSet"].rsplit("-")[-1]
    return getattr(ml_dsa, f"HASH_ML_DSA_{size}_WITH_SHA512" if hashed else f"ML_DSA_{size}")


def mu(public, message):
    """Computes mu (FIPS 204, Algorithm 7, step 6)."""
    tr = hashlib.shake_256(bytes.fromhex(public)).digest(64)
    return hashlib.shake_256(tr + bytes.fromhex(message)).hexdigest(64)


def signed(group, test):
    """Returns a signature under the key of a seed: a third each are pure, with a context, and of a hash."""
    which = test["tcId"] % 3
    hashed, context = which == 2, [b"", b"Gantry", b"a context"][which]
    message = bytes(range(200 + which))
    signer = scheme(group, hashed)
    public, private = scheme(group)._keygen_internal(bytes.fromhex(test["seed"]))
    assert public == bytes.fromhex(test["pk"]) and private == bytes.fromhex(test["sk"])
    signature = signer.sign(private, message, ctx=context, deterministic=True)
    assert signer.verify(public, message, signature, ctx=context)
    block = {"key": test["seed"], "public": test["pk"], "aad": context.hex(), "input": message.hex()}
    return block | ({"prehash": f"{SHA512:02x}"} if hashed else {}) | {"output": signature.hex()}


def write(name, sections):
    """Splits the vectors into the two files."""
    short, long = {}, {}
    for algorithm, blocks in sections.items():
        left = dict(SHORT)
        short[algorithm], long[algorithm] = [], []
        for what, test, block in blocks:
            kind = f"{what} invalid" if "invalid" in block else what
            (short if left[kind] > 0 else long)[algorithm].append((what, test, block))
            left[kind] -= 1
    write_file(ROOT / f"conformance/vectors/{name}.txt", short)
    write_file(ROOT / f"conformance/more-vectors/long/{name}.txt", long)


def write_file(path, sections):
    lines = [f"# Origin: {ACVP}; facts. Made by scripts/acvp.py.", ""]
    for algorithm, blocks in sections.items():
        lines += [f"[{algorithm}]", ""]
        for what, test, block in blocks:
            lines += [f"# {what} {test['tcId']}", f"id = {test['tcId']:04x}"]
            lines += [f"{key} = {value.lower()}" for key, value in block.items() if value]
            lines.append("")
    path.write_text("\n".join(lines))
    print(f"{path.name}: {path.stat().st_size} bytes, {sum(map(len, sections.values()))} vectors")


HEAD = """\
//! Known answers of ML-KEM and ML-DSA, made by `scripts/acvp.py`. Do not edit by hand.
//!
//! The keys are NIST's (ACVP). The secrets and signatures under them were computed by kyber-py and dilithium-py.

use super::answer::KnownAnswer;
use super::hex::hex;
use crate::algorithm::Algorithm;

#[rustfmt::skip]
pub(crate) const KNOWN_ANSWERS: &[KnownAnswer] = &[
"""


def known_answers(groups):
    entries = []
    for group in groups["kem-key-gen"]:
        test, size = group["tests"][-1], group["parameterSet"].rsplit("-")[-1]
        implementation = getattr(ml_kem, f"ML_KEM_{size}")
        public, private = implementation._keygen_internal(*(bytes.fromhex(test[part]) for part in "dz"))
        assert public == bytes.fromhex(test["ek"]) and private == bytes.fromhex(test["dk"])
        random = bytes(range(7, 39))
        secret, ciphertext = implementation._encaps_internal(public, random)
        assert implementation.decaps(private, ciphertext) == secret
        fields = {"key": private, "second_key": public, "iv": random, "aad": bytes.fromhex(test["d"] + test["z"])}
        entries.append(entry(f"MlKem{size}", test, fields | {"output": ciphertext, "tag": secret}))
    for group in groups["dsa-key-gen"]:
        test, size = group["tests"][1], group["parameterSet"].rsplit("-")[-1]
        block = signed(group, test | {"tcId": 1})
        fields = {"key": block["key"], "second_key": block["public"], **{name: block[name] for name in ("aad", "input", "output")}}
        entries.append(entry(f"MlDsa{size}", test, {name: bytes.fromhex(value) for name, value in fields.items()}))
    path = ROOT / "core/src/trust/post_quantum.rs"
    path.write_text(HEAD + "".join(entries) + "];\n")
    print(f"{path.name}: {path.stat().st_size} bytes, {len(entries)} answers")


def entry(variant, test, fields):
    lines = [f"    // NIST ACVP, keyGen {test['tcId']}", "    KnownAnswer {", f"        algorithm: Algorithm::{variant},"]
    lines += [f'        {name}: hex!("{wrapped(value.hex())}"),' for name, value in fields.items()]
    empty = [name for name in ("iv", "aad", "input", "output", "tag") if name not in fields]
    lines += ["        " + " ".join(f"{name}: &[]," for name in empty)] if empty else []
    return "\n".join([*lines, "    },\n"])


def wrapped(digits):
    return "\\\n            ".join(digits[at : at + 240] for at in range(0, len(digits), 240))


if __name__ == "__main__":
    main(sys.argv[1])
