#!/usr/bin/env python3
"""Makes conformance/vectors/*.txt from public test vectors.

    scripts/vectors.py [DIRECTORY]

DIRECTORY is the unpacked wheel `cryptography_vectors`; without it the wheel is downloaded with pip.
The wheel carries the response files of NIST's CAVP, the vectors of the RFCs and those of BoringSSL.
Algorithms without a public set (encrypt-then-authenticate pairs, BLAKE2b-256, a few long messages) are computed
by scripts/reference.py with two independent implementations, which must agree. The same module recomputes
every vector, so that a mistake in the selection shows here.

The format is read by conformance/src/text.rs: `# ` starts a comment, `[algorithm]` opens a section,
blocks of `key = hexadecimal` (or `ptn = bytes`: the length of the RFC 9861 pattern used as input) are
separated by empty lines.
"""

import dataclasses
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import reference

WHEEL = "cryptography_vectors==50.0.2"
TARGET = pathlib.Path(__file__).resolve().parent.parent / "conformance" / "vectors"
AES_BITS = ("128", "192", "256")

# Names of fields in the sources -> ours.
INPUT = ("msg", "message", "pt", "plaintext", "payload", "in")
OUTPUT = ("md", "output", "ct", "ciphertext")


def main():
    if len(sys.argv) > 1:
        write_all(pathlib.Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", scratch, WHEEL], check=True
        )
        (wheel,) = pathlib.Path(scratch).glob("*.whl")
        zipfile.ZipFile(wheel).extractall(scratch)
        write_all(pathlib.Path(scratch) / "cryptography_vectors")


def write_all(source):
    TARGET.mkdir(parents=True, exist_ok=True)
    for make in (digests, macs, ciphers, aeads, curves, computed):
        for name, (origin, sections) in make(source).items():
            write(name, origin, sections)


# ---- the sources of the vectors -------------------------------------------------------------------------------------


def digests(source):
    root = source / "hashes"
    files = {
        "md5": ("RFC 1321, appendix A.5", [digest_section("md5", root / "MD5/rfc-1321.txt")]),
        "ripemd160": (
            "the RIPEMD-160 page of its authors, A. Bosselaers, KU Leuven",
            [digest_section("ripemd160", root / "ripemd160/ripevectors.txt")],
        ),
    }
    for family, directory, members in (
        ("sha1", "SHA1", {"sha1": "SHA1"}),
        (
            "sha2",
            "SHA2",
            {
                "sha224": "SHA224",
                "sha256": "SHA256",
                "sha384": "SHA384",
                "sha512": "SHA512",
                "sha512-256": "SHA512_256",
            },
        ),
        ("sha3", "SHA3", {f"sha3-{n}": f"SHA3_{n}" for n in (224, 256, 384, 512)}),
    ):
        sections = []
        for algorithm, stem in members.items():
            base = root / directory / stem
            sections.append(digest_section(algorithm, base.with_name(stem + "ShortMsg.rsp")))
            long = digest_section(algorithm, base.with_name(stem + "LongMsg.rsp"))
            sections.append(dataclasses.replace(long, blocks=spread(long.blocks[: len(long.blocks) // 2], 5)))
            sections.append(monte_carlo(algorithm, base.with_name(stem + "Monte.rsp"), family))
        files[family] = ("NIST CAVP, SHAVS / SHA3VS, byte oriented", sections)
    sections = []
    for algorithm in ("shake128", "shake256"):
        base = root / "SHAKE" / algorithm.upper()
        for test, keep in (("ShortMsg", 30), ("LongMsg", 5), ("VariableOut", 30)):
            path = base.with_name(f"{base.name}{test}.rsp")
            blocks = [xof_block(record) for record in records(path)]
            blocks = blocks[: len(blocks) // 2] if test == "LongMsg" else blocks
            sections.append(Section(algorithm, path.name, spread(blocks, keep)))
    files["shake"] = ("NIST CAVP, SHA3VS, byte oriented", sections)
    sections = [Section(name, "section 5", rfc9861(*outputs)) for name, outputs in RFC_9861.items()]
    files["rfc9861"] = ("RFC 9861, section 5: TurboSHAKE with the domain byte 1F, KT128 without customization", sections)
    return files


def xof_block(record):
    length = int(record.get("len") or record["input length"]) // 8
    return {"input": record["msg"][: 2 * length], "output": record["output"]}


# Outputs in the RFC.
RFC_9861 = {
    "turboshake128": (
        "1e415f1c5983aff2169217277d17bb538cd945a397ddec541f1ce41af2c1b74c"
            "3e8ccae2a4dae56c84a04c2385c03c15e8193bdf58737363321691c05462c8df",
        "55cedd6f60af7bb29a4042ae832ef3f58db7299f893ebb9247247d856958daa9",
        "9c97d036a3bac819db70ede0ca554ec6e4c2a1a4ffbfd9ec269ca6a111161233",
        "96c77c279e0126f7fc07c9b07f5cdae1e0be60bdbe10620040e75d7223a624d2",
        "d4976eb56bcf118520582b709f73e1d6853e001fdaf80e1b13e0d0599d5fb372",
        "da67c7039e98bf530cf7a37830c6664e14cbab7f540f58403b1b82951318ee5c",
    ),
    "turboshake256": (
        "367a329dafea871c7802ec67f905ae13c57695dc2c6663c61035f59a18f8e7db"
            "11edc0e12e91ea60eb6b32df06dd7f002fbafabb6e13ec1cc20d995547600db0",
        "3e1712f928f8eaf1054632b2aa0a246ed8b0c378728f60bc970410155c28820e"
            "90cc90d8a3006aa2372c5c5ea176b0682bf22bae7467ac94f74d43d39b0482e2",
        "b3bab0300e6a191fbe6137939835923578794ea54843f5011090fa2f3780a9e5"
            "cb22c59d78b40a0fbff9e672c0fbe0970bd2c845091c6044d687054da5d8e9c7",
        "66b810db8e90780424c0847372fdc95710882fde31c6df75beb9d4cd9305cfca"
            "e35e7b83e8b7e6eb4b78605880116316fe2c078a09b94ad7b8213c0a738b65c0",
        "c74ebc919a5b3b0dd1228185ba02d29ef442d69d3d4276a93efe0bf9a16a7dc0"
            "cd4eabadab8cd7a5edd96695f5d360abe09e2c6511a3ec397da3b76b9e1674fb",
        "02cc3a8897e6f4f6ccb6fd46631b1f5207b66c6de9c7b55b2d1a23134a170afd"
            "ac234eaba9a77cff88c1f020b73724618c5687b362c430b248cd38647f848a1d",
    ),
    "kt128": (
        "1ac2d450fc3b4205d19da7bfca1b37513c0803577ac7167f06fe2ce1f0ef39e5"
            "4269c056b8c82e48276038b6d292966cc07a3d4645272e31ff38508139eb0a71",
        "2bda92450e8b147f8a7cb629e784a058efca7cf7d8218e02d345dfaa65244a1f",
        "6bf75fa2239198db4772e36478f8e19b0f371205f6a9a93a273f51df37122888",
        "0c315ebcdedbf61426de7dcf8fb725d1e74675d7f5327a5067f367b108ecb67c",
        "cb552e2ec77d9910701d578b457ddf772c12e322e4ee7fe417f92c758f0d59d0",
        "8701045e22205345ff4dda05555cbb5c3af1a771c2b89baef37db43d9998b9fe",
    ),
}


def rfc9861(empty, *outputs):
    """Returns blocks of the empty message, then of 17 ** i bytes of the pattern."""
    blocks = [{"input": "", "output": empty}]
    return blocks + [{"ptn": str(17**i), "output": output} for i, output in enumerate(outputs)]


def digest_section(algorithm, path):
    blocks = []
    for record in records(path):
        length = int(record["len"]) // 8
        blocks.append({"input": record["msg"][: 2 * length], "output": record["md"]})
    return Section(algorithm, path.name, blocks)


def monte_carlo(algorithm, path, family):
    """Returns a section whose blocks are inner loops of a Monte Carlo test: a thousand digests, each over the last `monte` digests."""
    width, blocks, seed = ("01" if family == "sha3" else "03"), [], None
    for record in records(path):
        seed = seed or record["seed"]
        blocks.append({"monte": width, "input": seed, "output": record["md"]})
        seed = record["md"]
    return Section(algorithm, path.name, blocks[:2])


def macs(source):
    hmac = []
    for algorithm, name in (
        ("hmac-md5", "rfc-2202-md5"),
        ("hmac-sha1", "rfc-2202-sha1"),
        ("hmac-sha224", "rfc-4231-sha224"),
        ("hmac-sha256", "rfc-4231-sha256"),
        ("hmac-sha384", "rfc-4231-sha384"),
        ("hmac-sha512", "rfc-4231-sha512"),
        ("hmac-ripemd160", "rfc-2286-ripemd160"),
    ):
        path = source / "HMAC" / f"{name}.txt"
        hmac.append(Section(algorithm, path.name, [mac_block(r) for r in records(path)]))
    cmac = []
    for bits in AES_BITS:
        path = source / "CMAC" / f"nist-800-38b-aes{bits}.txt"
        cmac.append(Section(f"aes-{bits}-cmac", path.name, [mac_block(r) for r in records(path)]))
    path = source / "poly1305/rfc7539.txt"
    poly = Section("poly1305", path.name, [mac_block(r) for r in records(path)])
    return {
        "hmac": ("RFC 2202 (MD5, SHA-1), RFC 4231 (SHA-2), RFC 2286 (RIPEMD-160)", hmac),
        "cmac": ("NIST SP 800-38B, appendix D", cmac),
        "poly1305": ("RFC 7539, appendix A.3", [poly]),
    }


def mac_block(record):
    block = {"key": record["key"], "input": pick(record, INPUT), "output": record.get("tag") or pick(record, OUTPUT)}
    return block


def ciphers(source):
    aes = source / "ciphers/AES"
    files = {}
    for mode, stem in (("ecb", "ECB"), ("cbc", "CBC"), ("ofb", "OFB"), ("cfb", "CFB128")):
        sections = []
        for bits in AES_BITS:
            for test, keep in (("GFSbox", 7), ("KeySbox", 7), ("VarKey", 12), ("VarTxt", 12), ("MMT", 20)):
                path = aes / mode.upper() / f"{stem}{test}{bits}.rsp"
                blocks = unique(cipher_block(r) for r in records(path))
                sections.append(Section(f"aes-{bits}-{mode}", path.name, spread(blocks, keep)))
        files[f"aes-{mode}"] = ("NIST CAVP, AESAVS (known answers and multi-block messages)", sections)

    sections = []
    for bits in AES_BITS:
        path = aes / "CTR" / f"aes-{bits}-ctr.txt"
        sections.append(Section(f"aes-{bits}-ctr", path.name, [cipher_block(r) for r in records(path)]))
    files["aes-ctr"] = ("RFC 3686, section 6", sections)

    sections = []
    for bits in ("128", "256"):
        path = aes / "XTS/tweak-128hexstr" / f"XTSGenAES{bits}.rsp"
        whole = [r for r in records(path) if int(r["dataunitlen"]) % 8 == 0]
        blocks = []
        for length in sorted({int(r["dataunitlen"]) for r in whole}):
            same = [cipher_block(r) for r in whole if int(r["dataunitlen"]) == length]
            blocks += spread(same, 16)
        sections.append(Section(f"aes-{bits}-xts", path.name, blocks))
    files["aes-xts"] = ("NIST CAVP, XTSVS, tweak as 128 bits (whole bytes only)", sections)

    sections = []
    for test, keep in (
        ("invperm", 12),
        ("permop", 12),
        ("subtab", 12),
        ("varkey", 12),
        ("vartext", 12),
        ("MMT1", 20),
        ("MMT2", 20),
        ("MMT3", 20),
    ):
        path = source / "ciphers/3DES/CBC" / f"TCBC{test}.rsp"
        blocks = spread(unique(cipher_block(r) for r in records(path)), keep)
        sections.append(Section("des-ede3-cbc", path.name, blocks))
    files["des-ede3-cbc"] = ("NIST CAVP, TDES (SP 800-20 known answers and multi-block messages)", sections)

    path = source / "ciphers/ChaCha20/rfc7539.txt"
    blocks = []
    for record in records(path):
        counter = int(record["initial_block_counter"]).to_bytes(4, "little").hex()
        record["iv"] = counter + record["nonce"]
        blocks.append(cipher_block(record))
    files["chacha20"] = ("RFC 7539, appendix A.2", [Section("chacha20", path.name, blocks)])
    return files


def cipher_block(record):
    if "keys" in record:
        record["key"] = record["keys"] * 3
    elif "key1" in record:
        record["key"] = record["key1"] + record["key2"] + record["key3"]
    block = {"key": record["key"]}
    iv = record.get("iv") or record.get("i")
    if iv:
        block["iv"] = iv
    block |= {"input": pick(record, INPUT), "output": pick(record, OUTPUT)}
    return block


def aeads(source):
    aes = source / "ciphers/AES"
    gcm, gmac, ccm = [], [], []
    for bits in AES_BITS:
        for name in (f"gcmEncryptExtIV{bits}", f"gcmDecrypt{bits}"):
            path = aes / "GCM" / f"{name}.rsp"
            blocks, macs_ = [], []
            for (ivlen, ptlen, _, taglen), group in grouped(path, ("ivlen", "ptlen", "aadlen", "taglen")):
                usual = ivlen == "96" and taglen == "128"
                if ivlen == "96" and (taglen in ("128", "96") or group[0]["aadlen"] == "160"):
                    good = [r for r in group if "fail" not in r]
                    blocks += [aead_block(r) for r in good[: 2 if usual else 1]]
                    blocks += [aead_block(r) for r in group if "fail" in r][:1]
                elif taglen == "128" and group[0]["aadlen"] == "160":
                    blocks += [aead_block(r) for r in group[:2]]
                if usual and ptlen == "0" and name.startswith("gcmEncrypt"):
                    macs_ += [
                        {"key": r["key"], "iv": r["iv"], "input": r["aad"], "output": r["tag"]} for r in group[2:6]
                    ]
            gcm.append(Section(f"aes-{bits}-gcm", path.name, blocks))
            if macs_:
                gmac.append(Section(f"aes-{bits}-gmac", path.name + ", those without plaintext", macs_))
        for test, group_by, keep in (
            ("DVPT", ("alen", "plen", "nlen", "tlen"), 3),
            ("VADT", ("alen",), 1),
            ("VNT", ("nlen",), 3),
            ("VPT", ("plen",), 2),
            ("VTT", ("tlen",), 3),
        ):
            path = aes / "CCM" / f"{test}{bits}.rsp"
            blocks = []
            for _, group in grouped(path, group_by):
                blocks += [ccm_block(r) for r in group[:keep]]
            ccm.append(Section(f"aes-{bits}-ccm", path.name, blocks))

    path = source / "ciphers/ChaCha20Poly1305/boringssl.txt"
    blocks = []
    for record in records(path):
        if len(record["tag"]) < 32:
            continue  # BoringSSL's own truncated tags: no standard has them.
        for field, value in record.items():
            if value.startswith('"'):
                record[field] = value.strip('"').encode().hex()
        blocks.append(
            {
                "key": record["key"],
                "iv": record["nonce"],
                "aad": record["ad"],
                "input": record["in"],
                "output": record["ct"],
                "tag": record["tag"],
            }
        )
    chacha = Section("chacha20-poly1305", path.name, spread(blocks, 40))
    return {
        "aes-gcm": ("NIST CAVP, GCMVS", gcm),
        "aes-gmac": ("NIST CAVP, GCMVS, additional data only", gmac),
        "aes-ccm": ("NIST CAVP, CCMVS", ccm),
        "chacha20-poly1305": ("RFC 7539, section 2.8.2, and BoringSSL's chacha20_poly1305_tests.txt", [chacha]),
    }


def aead_block(record):
    block = {"key": record["key"], "iv": record["iv"], "aad": record["aad"]}
    if "fail" in record:
        block |= {"output": record["ct"], "tag": record["tag"], "invalid": "01"}
    else:
        block |= {"input": record["pt"], "output": record["ct"], "tag": record["tag"]}
    return block


def ccm_block(record):
    aad = record["adata"][: 2 * int(record["alen"])]
    length, tag = 2 * int(record["plen"]), 2 * int(record["tlen"])
    block = {"key": record["key"], "iv": record["nonce"], "aad": aad}
    assert len(record["ct"]) == length + tag
    if record.get("result") == "fail":
        return block | {"output": record["ct"][:length], "tag": record["ct"][length:], "invalid": "01"}
    return block | {"input": record["payload"][:length], "output": record["ct"][:length], "tag": record["ct"][length:]}


def curves(source):
    root, signatures, secrets = source / "asymmetric", [], []
    # A line is private ‖ public : public : message : signature ‖ message.
    for line in (root / "Ed25519/sign.input").read_text().splitlines():
        keys, public, message, signed, _ = line.split(":")
        signatures.append({"key": keys[:64], "public": public, "input": message, "output": signed[:128]})
    for text in (root / "X25519/rfc7748.txt").read_text().split("COUNT")[1:]:
        record = dict(line.split(" = ") for line in text.split("\n") if " = " in line)
        if len(secrets) < 3:
            names = {"key": "INPUT_SCALAR", "input": "INPUT_U", "output": "OUTPUT_U"}
            secrets.append({name: record[theirs] for name, theirs in names.items()})
    nist = root / "ECDSA/FIPS_186-3"
    signed, judged = p256_signatures(nist / "SigGen.txt"), p256_signatures(nist / "SigVer.rsp")
    validity = "KASValidityTest_ECCStaticUnified_NOKC_ZZOnly_init.fax"
    return {
        "ecdsa-p256": (
            "NIST CAVP, FIPS 186-3",
            [Section("ecdsa-p256", "SigGen.txt", signed), Section("ecdsa-p256", "SigVer.rsp", judged)],
        ),
        "ecdh-p256": (
            "NIST CAVP, SP 800-56A",
            [Section("ecdh-p256", validity, p256_secrets(root / "ECDH" / validity))],
        ),
        "rsa-pkcs1": (
            "NIST CAVP, FIPS 186-3",
            [
                Section(f"rsa-{bits}-pkcs1", "SigVer15_186-3.rsp", blocks)
                for bits, blocks in rsa_signatures(root / "RSA/FIPS_186-2/SigVer15_186-3.rsp").items()
            ],
        ),
        "rsaes": (
            "RSA Laboratories, PKCS #1 v1.5",
            [
                Section(name, "pkcs1v15crypt-vectors.txt", blocks)
                for name, blocks in rsa_ciphertexts(root / "RSA/pkcs1v15crypt-vectors.txt").items()
            ],
        ),
        "ed25519": ("the Ed25519 page of its authors", [Section("ed25519", "sign.input", spread(signatures, 64))]),
        "x25519": ("RFC 7748, section 5.2", [Section("x25519", "rfc7748.txt", secrets)]),
    }


def p256_signatures(path):
    """Returns signatures of digests; the heading names the function that makes the digest of the message."""
    blocks, function = [], None
    for part in re.split(r"\n\s*\n", path.read_text().replace("\r", "")):
        if heading := re.search(r"^\[(.*),(SHA-\d+)\]", part, re.M):
            function = heading[2].replace("-", "").lower() if heading[1] == "P-256" else None
        record = dict(line.split(" = ") for line in part.split("\n") if " = " in line)
        if function and "Msg" in record:
            half = {name: record[name].strip().rjust(64, "0") for name in ("d", "Qx", "Qy", "R", "S") if name in record}
            block = {"key": half["d"]} if "d" in half else {}
            block |= {"public": "04" + half["Qx"] + half["Qy"]}
            block |= {"input": hashlib.new(function, bytes.fromhex(record["Msg"])).hexdigest()}
            block |= {"output": half["R"] + half["S"]}
            if record.get("Result", "P").startswith("F"):
                block["invalid"] = "01"
            blocks.append(block)
    return blocks


def rsa_signatures(path):
    """Returns signatures by key size, with the functions and exponents of our rows. (NIST's PSS salts have 10 bytes.)"""
    found, numbers = {"2048": [], "3072": [], "4096": []}, {}
    for record in (line_by_line(part) for part in re.split(r"\n\s*\n", path.read_text().replace("\r", ""))):
        numbers |= {name: value for name, value in record.items() if name in ("[mod", "n", "p", "q")}
        bits = numbers.get("[mod", "").strip("]")
        if bits not in found or record.get("SHAAlg") not in ("SHA256", "SHA384", "SHA512"):
            continue
        size, (n, e, d, p, q) = int(bits) // 8, (int((numbers | record)[name], 16) for name in "nedpq")
        if e >= 1 << 32:
            continue
        public = n.to_bytes(size) + e.to_bytes(reference.EXPONENT)
        block = {"public": public.hex()}
        block |= {"input": hashlib.new(record["SHAAlg"].lower(), bytes.fromhex(record["Msg"])).hexdigest()}
        block |= {"output": record["S"].rjust(2 * size, "0")}
        if record["Result"].startswith("F"):
            block["invalid"] = "01"
        else:
            private = public + d.to_bytes(size)
            private += b"".join(x.to_bytes(size // 2) for x in (p, q, d % (p - 1), d % (q - 1), pow(q, -1, p)))
            block = {"key": private.hex()} | block
        found[bits].append(block)
    return {bits: spread(blocks, 12) for bits, blocks in found.items()}


def rsa_ciphertexts(path):
    """Returns vectors of the only key with a size of our rows. Seeds make padded messages vectors of the bare permutation."""
    (text,) = re.findall(r"^# Example \d+: A 2048-bit RSA key pair$(.*)", path.read_text(), re.M | re.S)
    size, numbers, padded, bare = 256, {}, [], []
    for name, digits in re.findall(r"^# ([^:\n]+):[^\n]*\n((?:[0-9a-f]{2} [0-9a-f ]*\n)+)", text, re.M):
        numbers[name] = bytes.fromhex(digits)
        if name == "Encryption":
            n, e, d, p, q = (int.from_bytes(numbers[name]) for name in ("Modulus", "Public exponent", "Exponent", "Prime 1", "Prime 2"))
            public = n.to_bytes(size) + e.to_bytes(reference.EXPONENT)
            halves = (p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
            private = public + d.to_bytes(size) + b"".join(x.to_bytes(size // 2) for x in halves)
            message, block = numbers["Message"], b"\0\2" + numbers["Seed"] + b"\0" + numbers["Message"]
            keys = {"key": private.hex(), "public": public.hex()}
            padded.append(keys | {"input": message.hex(), "output": numbers[name].hex()})
            # A seed of the set lacks its last byte.
            if len(block) == size:
                bare.append(keys | {"input": block.hex(), "output": numbers[name].hex()})
    assert len(padded) == 20, len(padded)
    return {"rsaes-2048-pkcs1": spread(padded, 10), "rsa-2048-raw": spread(bare, 10)}


def line_by_line(part):
    return dict(line.split(" = ") for line in part.split("\n") if " = " in line)


def p256_secrets(path):
    """Returns valid vectors, and peers that are not points. Other defects of some vectors do not concern the secret."""
    blocks, curve = [], None
    for part in re.split(r"\n\s*\n", path.read_text().replace("\r", "")):
        if heading := re.search(r"^\[(E[A-E]) - ", part, re.M):
            curve = heading[1]
        record = dict(line.split(" = ") for line in part.split("\n") if " = " in line)
        result = record.get("Result", "")
        if curve == "EC" and result.startswith(("P", "F (1", "F (2")):
            names = {"key": ("dsIUT",), "input": ("QsCAVSx", "QsCAVSy"), "output": ("Z",)}
            block = {name: "".join(record[theirs].rjust(64, "0") for theirs in of) for name, of in names.items()}
            block["input"] = "04" + block["input"]
            if result.startswith("F"):
                block["invalid"] = "01"
            blocks.append(block)
    return blocks


def computed(_source):
    """Computes algorithms and lengths that the public sets do not cover, over the pattern of reference.py."""
    everything = []
    for algorithm in reference.ALGORITHMS:
        lengths = (0, 1, 63, 129, 600)
        if algorithm.block > 1:
            lengths = (algorithm.block, 10 * algorithm.block, 608)
        if algorithm.kind == "exchange":
            lengths = (32,)
        if reference.is_rsa(algorithm):
            lengths = (32, 48, 64)
        if algorithm.kind == "encipherment":
            size = reference.rsa_size(bytes(algorithm.key))
            lengths = (size,) if algorithm.mode == "raw" else (0, 1, 48, size - reference.PADDING)
        if algorithm.name == "ecdsa-p256":
            lengths = (1, 31, 33, 64, 600)  # PyCryptodome signs no digest that is zero.
        if algorithm.kind == "xts":
            lengths = (16, 17, 31, 512, 600)
        blocks = []
        for length in lengths:
            aad = length % 23 if algorithm.kind in ("aead", "eta") else 0
            blocks.append(reference.known_answer(algorithm, length, aad, shift=length))
        if algorithm.mode == "ctr" and algorithm.kind == "cipher":
            # The counter is 128 bits wide: carries out of its last 4, 8 and 16 bytes.
            for iv in (8 * "5a" + 4 * "01" + 3 * "ff" + "fe", 8 * "5a" + 7 * "ff" + "fd", 15 * "ff" + "fc"):
                blocks.append(reference.known_answer(algorithm, 300, 0, iv=bytes.fromhex(iv)))
        if algorithm.xof:
            blocks = [
                reference.known_answer(algorithm, length, 0, shift=length, xof=1 + 11 * length % 700) for length in lengths
            ]
        if algorithm.name == "kt128":
            # At the end of a chunk.
            chunk = 8192
            for length in (chunk - 1, chunk, chunk + 1, 2 * chunk - 1, 2 * chunk, 2 * chunk + 1, 9 * chunk + 168):
                blocks.append(reference.known_answer_of_ptn(algorithm, length, 1 + length % 600))
        everything.append(Section(algorithm.name, "scripts/reference.py", blocks))
    return {"computed": ("computed by scripts/reference.py, two implementations agreeing", everything)}


# ---- reading and writing -----------------------------------------------------------------------------------------


def records(path):
    """Yields the blocks of a response file, each with the values of the headings above it; keys are in lower case."""
    heading, block = {}, {}

    def close():
        if any(name in block for name in OUTPUT + ("tag",)):
            return [heading | block]
        heading.update(block)
        return []

    for line in path.read_text().splitlines() + [""]:
        line = line.strip()
        if line.startswith("#"):
            continue
        if not line or line.startswith("["):
            yield from close()
            block = {}
            for part in line.strip("[]").split(","):
                name, _, value = part.partition("=")
                heading[name.strip().lower()] = value.strip()
        else:
            name, _, value = line.partition("=")
            value = value.strip()
            block[name.strip().lower()] = value if value.startswith('"') else value.lower()


def grouped(path, names):
    groups = {}
    for record in records(path):
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return groups.items()


def spread(items, count):
    """Returns at most `count` items, evenly spread, including the first and the last."""
    if len(items) <= count:
        return items
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


def unique(blocks):
    seen, kept = set(), []
    for block in blocks:
        if str(block) not in seen:
            seen.add(str(block))
            kept.append(block)
    return kept


def pick(record, names):
    return next(record[name] for name in names if name in record)


@dataclasses.dataclass
class Section:
    """Blocks of one algorithm from one source."""

    algorithm: str
    origin: str
    blocks: list


def write(name, origin, sections):
    lines = [f"# Origin: {origin}", "# Made by scripts/vectors.py"]
    for part in sections:
        lines += ["", f"# {part.origin}", f"[{part.algorithm}]"]
        algorithm = reference.BY_NAME[part.algorithm]
        for block in part.blocks:
            reference.confirm(algorithm, block)
            lines += [""] + [f"{key} = {value}".rstrip() for key, value in block.items()]
    path = TARGET / f"{name}.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path.stat().st_size:8} {sum(len(s.blocks) for s in sections):5} {path.name}")


if __name__ == "__main__":
    main()
