"""Computes every algorithm of Gantry twice, by implementations that share no code.

The first is OpenSSL (packages `hashlib` and `cryptography`), the second PyCryptodome. If one of them lacks an algorithm, a few lines of
Python from the standard's text replace it. Needs `pip install cryptography==48.0.0 pycryptodome`.
"""

import dataclasses
import hashlib
import hmac
import pathlib
import re
import struct

from cryptography.hazmat.decrepit.ciphers import algorithms as old_algorithms
from cryptography.hazmat.decrepit.ciphers import modes as old_modes
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import cmac, hashes, poly1305
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.ciphers import Cipher, aead, algorithms, modes
from Crypto.Cipher import AES, DES3, ChaCha20, ChaCha20_Poly1305, PKCS1_v1_5
from Crypto.Hash import BLAKE2b, CMAC, HMAC, MD5, RIPEMD160, SHA1, SHA224, SHA256, SHA384, SHA512
from Crypto.Hash import SHA3_224, SHA3_256, SHA3_384, SHA3_512
from Crypto.Hash import SHAKE128, SHAKE256, KangarooTwelve, TurboSHAKE128, TurboSHAKE256
from Crypto.Protocol import DH
from Crypto.PublicKey import ECC, RSA
from Crypto.Signature import DSS, eddsa, pkcs1_15, pss


@dataclasses.dataclass
class Algorithm:
    name: str
    kind: str  # digest, hmac, mac, cipher, xts, aead, eta, signature, exchange, encipherment or null
    key: int = 0
    iv: int = 0
    block: int = 1  # input is a multiple of it
    digest: str = ""  # of hmac and eta
    mode: str = ""
    xof: int = 0  # default number of bytes of a digest of any length


def known_answer(algorithm, length, aad, shift=0, iv=None, xof=None):
    """Returns a block as in the vector files, over the pattern; both implementations must agree."""
    key = pattern(16 + shift, algorithm.key)
    if is_rsa(algorithm):
        key = rsa_samples()[algorithm.key]
    if algorithm.kind == "hmac":
        key = pattern(16 + shift, 1 + length * 7 % 200)
    if algorithm.mode == "des":
        key = bytes(b & 0xFE | (bin(b >> 1).count("1") + 1) % 2 for b in key)  # odd parity
    mac_key = pattern(96 + shift, len(hashlib.new(algorithm.digest).digest())) if algorithm.kind == "eta" else b""
    iv = iv or pattern(200 + shift, algorithm.iv)
    aad, message = pattern(300 + shift, aad), pattern(shift, length)
    if algorithm.name == "ecdh-p256":
        message = p256_public(message)
    arguments = (algorithm, key, mac_key, iv, aad, message, xof or algorithm.xof or 16)
    first, second = first_implementation(*arguments), second_implementation(*arguments)
    assert first == second and first is not None, (algorithm.name, length, first, second)
    output, tag = first
    block = {"key": key, "mac_key": mac_key, "iv": iv, "aad": aad, "input": message, "output": output, "tag": tag}
    if algorithm.name == "ed25519":
        block["public"] = ed25519.Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
    if algorithm.name == "ecdsa-p256":
        block["public"] = p256_public(key)
    if is_rsa(algorithm):
        block["public"] = key[: rsa_size(key) + EXPONENT]
    kept = {name for name, value in block.items() if value} | {"input", "output"}
    return {name: value.hex() for name, value in block.items() if name in kept}


def known_answer_of_ptn(algorithm, length, xof):
    """Returns a block over the pattern of RFC 9861. The block contains only the pattern's length."""
    first, second = (of(algorithm, b"", b"", b"", b"", ptn(length), xof) for of in (first_implementation, second_implementation))
    assert first == second, (algorithm.name, length, first, second)
    return {"ptn": str(length), "output": first[0].hex()}


def confirm(algorithm, block):
    """Recomputes a block of a vector file with each implementation that supports it; at least one must."""
    key, mac_key, iv, aad, message, output, tag = (
        bytes.fromhex(block.get(name, "")) for name in ("key", "mac_key", "iv", "aad", "input", "output", "tag")
    )
    message = ptn(int(block["ptn"])) if "ptn" in block else message
    answers, length = 0, len(output if algorithm.xof else tag)
    if algorithm.name == "ecdsa-p256":
        for verifies in (openssl_verifies, dome_verifies):
            assert verifies(bytes.fromhex(block["public"]), message, output) != ("invalid" in block), (verifies, block)
        return
    if algorithm.kind == "encipherment":
        for deciphers in (openssl_deciphers, dome_deciphers):
            assert deciphers(algorithm.mode, key, output) == message, (deciphers, block)
        return
    if is_rsa(algorithm):
        for verifies in (openssl_verifies_rsa, dome_verifies_rsa):
            good = verifies(algorithm.mode, bytes.fromhex(block["public"]), message, output)
            assert good != ("invalid" in block), (verifies, block)
        return
    for implementation in (first_implementation, second_implementation):
        if "monte" in block:
            got = monte_carlo(implementation, algorithm, message, int(block["monte"], 16)), b""
            good = got == (output, b"")
        elif algorithm.name == "ecdh-p256" and "invalid" in block:
            try:
                implementation(algorithm, key, mac_key, iv, aad, message, 0)
                good = False
            except ValueError:
                good, got = True, b""
        elif "invalid" in block:
            text = implementation(algorithm, key, mac_key, iv, aad, output, len(tag))
            if text is None:
                continue
            got = implementation(algorithm, key, mac_key, iv, aad, text[0], len(tag))
            good = got != (output, tag)
        else:
            got = implementation(algorithm, key, mac_key, iv, aad, message, length)
            good = got == (output, tag)
        if got is not None:
            assert good, (algorithm.name, block, got)
            answers += 1
    assert answers > 0, (algorithm.name, block)


def p256_digest(digest):
    """Returns the digest as a number, from its first 32 bytes or fewer (FIPS 186-5, 6.4.1)."""
    return digest[:32].rjust(32, b"\0")


def p256_public(private):
    key = ec.derive_private_key(int.from_bytes(private), ec.SECP256R1()).public_key()
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


EXPONENT, PADDING = 4, 11


def is_rsa(algorithm):
    return algorithm.mode in ("pkcs1", "pss", "raw", "rsaes")


def rsa_samples():
    """Returns the keys of core/src/trust/sample_keys.rs, by their length."""
    text = (pathlib.Path(__file__).resolve().parent.parent / "core/src/trust/sample_keys.rs").read_text()
    keys = [bytes.fromhex(re.sub(r"[\\\s]", "", digits)) for digits in re.findall(r'hex!\(\s*"([^"]*)"', text)]
    return {len(key): key for key in keys}


def rsa_size(key):
    """Returns the number of bytes of a private key's modulus."""
    return (len(key) - EXPONENT) * 2 // 9


def rsa_numbers(key):
    """Returns the numbers of a private key in the layout of core/src/algorithm/rsa.rs."""
    size, numbers = rsa_size(key), []
    for length in [size, EXPONENT, size] + 5 * [size // 2]:
        numbers.append(int.from_bytes(key[:length]))
        key = key[length:]
    return numbers


def rsa_public(public):
    return int.from_bytes(public[:-EXPONENT]), int.from_bytes(public[-EXPONENT:])


def rsa_digest(digest):
    """Returns the name of the function that makes digests of this length."""
    return {32: "sha256", 48: "sha384", 64: "sha512"}[len(digest)]


def rsa_salt(digest):
    return pattern(400, len(digest))


def emsa_pss(digest, size):
    """Encodes as in RFC 8017, 9.1.1, with MGF1 (B.2.1), for a modulus of `size` bytes whose top bit is set."""
    function = getattr(hashlib, rsa_digest(digest))
    check = function(bytes(8) + digest + rsa_salt(digest)).digest()
    data = (b"\1" + rsa_salt(digest)).rjust(size - len(check) - 1, b"\0")
    mask = b"".join(function(check + count.to_bytes(4)).digest() for count in range(size // len(check) + 1))
    masked = bytes(a ^ b for a, b in zip(data, mask))
    return bytes([masked[0] & 0x7F]) + masked[1:] + check + b"\xbc"


def rsaes_padding(length):
    """Returns fixed bytes in place of random ones."""
    return bytes(byte or 1 for byte in pattern(400, length))


def emes_pkcs1(message, size):
    """RFC 8017, 7.2.1, step 2."""
    return b"\0\2" + rsaes_padding(size + 8 - PADDING - len(message)) + b"\0" + message


def pattern(start, length):
    """Returns bytes start .. start + length of the pattern of core/src/trust/vectors.rs."""
    return bytes((7 * i + 31 * (i >> 8)) & 0xFF for i in range(start, start + length))


def ptn(length):
    """Returns the pattern of RFC 9861, section 5."""
    return bytes(i % 0xFB for i in range(length))


# ---- OpenSSL -----------------------------------------------------------------------------------------------------


def first_implementation(algorithm, key, mac_key, iv, aad, message, tag_length):
    kind, mode = algorithm.kind, algorithm.mode
    if kind == "null":
        return message, b""
    if kind == "digest":
        if mode == "blake2b":
            return hashlib.blake2b(message, digest_size=32).digest(), b""
        if mode == "shake":
            return hashlib.new(algorithm.digest, message).digest(tag_length), b""
        if mode == "turboshake":
            return turboshake(200 - algorithm.xof, 0x1F, message, tag_length), b""
        if mode == "kt128":
            return kt128(message, tag_length), b""
        return hashlib.new(algorithm.digest, message).digest(), b""
    if kind == "hmac":
        return hmac.new(key, message, algorithm.digest).digest(), b""
    if algorithm.name == "ecdsa-p256":
        deterministic = ec.ECDSA(Prehashed(hashes.SHA256()), deterministic_signing=True)  # RFC 6979
        signature = ec.derive_private_key(int.from_bytes(key), ec.SECP256R1()).sign(p256_digest(message), deterministic)
        return b"".join(half.to_bytes(32) for half in decode_dss_signature(signature)), b""
    if algorithm.name == "ecdh-p256":
        peer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), message)
        return ec.derive_private_key(int.from_bytes(key), ec.SECP256R1()).exchange(ec.ECDH(), peer), b""
    if kind == "encipherment":
        n, e, d, p, q, dp, dq, inverse = rsa_numbers(key)
        block = message if mode == "raw" else emes_pkcs1(message, rsa_size(key))
        output = pow(int.from_bytes(block), e, n).to_bytes(rsa_size(key))
        private = rsa.RSAPrivateNumbers(p, q, d, dp, dq, inverse, rsa.RSAPublicNumbers(e, n)).private_key()
        # OpenSSL draws its own padding, so it only verifies this one.
        assert mode == "raw" or private.decrypt(output, padding.PKCS1v15()) == message
        return output, b""
    if is_rsa(algorithm):
        n, e, d, p, q, dp, dq, inverse = rsa_numbers(key)
        if mode == "pss":
            # OpenSSL takes no salt, so it only verifies this signature.
            signature = pow(int.from_bytes(emsa_pss(message, rsa_size(key))), d, n).to_bytes(rsa_size(key))
            assert openssl_verifies_rsa(mode, key[: rsa_size(key) + EXPONENT], message, signature)
            return signature, b""
        private = rsa.RSAPrivateNumbers(p, q, d, dp, dq, inverse, rsa.RSAPublicNumbers(e, n)).private_key()
        function = getattr(hashes, rsa_digest(message).upper())()
        return private.sign(message, padding.PKCS1v15(), Prehashed(function)), b""
    if kind == "signature":
        return ed25519.Ed25519PrivateKey.from_private_bytes(key).sign(message), b""
    if kind == "exchange":
        peer = x25519.X25519PublicKey.from_public_bytes(message)
        return x25519.X25519PrivateKey.from_private_bytes(key).exchange(peer), b""
    if mode == "cmac":
        state = cmac.CMAC(algorithms.AES(key))
        state.update(message)
        return state.finalize(), b""
    if mode == "gmac":
        return aead.AESGCM(key).encrypt(iv, b"", message), b""
    if mode == "poly1305":
        return poly1305.Poly1305.generate_tag(key, message), b""
    if kind == "eta":
        output = openssl_cipher(mode, key, iv, message)
        return output, hmac.new(mac_key, aad + iv + output, algorithm.digest).digest()
    if kind == "aead":
        if mode == "gcm" and not 8 <= len(iv) <= 128:
            return None
        if mode == "gcm":
            sealed = aead.AESGCM(key).encrypt(iv, message, aad)
            return sealed[: len(message)], sealed[len(message) :][:tag_length]
        if mode == "ccm":
            sealed = aead.AESCCM(key, tag_length).encrypt(iv, message, aad)
        else:
            if mode == "xchacha20":
                key, iv = hchacha20(key, iv[:16]), bytes(4) + iv[16:]
            sealed = aead.ChaCha20Poly1305(key).encrypt(iv, message, aad)
        return sealed[: len(message)], sealed[len(message) :]
    return openssl_cipher(mode, key, iv, message), b""


def openssl_verifies(public, digest, signature):
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public)
    signature = encode_dss_signature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))
    try:
        key.verify(signature, p256_digest(digest), ec.ECDSA(Prehashed(hashes.SHA256())))
    except InvalidSignature:
        return False
    return True


def openssl_deciphers(mode, key, ciphertext):
    n, e, d, p, q, dp, dq, inverse = rsa_numbers(key)
    if mode == "raw":
        # OpenSSL's Python interface has no bare permutation.
        return pow(int.from_bytes(ciphertext), d, n).to_bytes(rsa_size(key))
    private = rsa.RSAPrivateNumbers(p, q, d, dp, dq, inverse, rsa.RSAPublicNumbers(e, n)).private_key()
    return private.decrypt(ciphertext, padding.PKCS1v15())


def openssl_verifies_rsa(mode, public, digest, signature):
    n, e = rsa_public(public)
    function = getattr(hashes, rsa_digest(digest).upper())()
    way = padding.PSS(padding.MGF1(function), len(digest)) if mode == "pss" else padding.PKCS1v15()
    try:
        rsa.RSAPublicNumbers(e, n).public_key().verify(signature, digest, way, Prehashed(function))
    except InvalidSignature:
        return False
    return True


def openssl_cipher(mode, key, iv, message):
    cipher = {
        "ecb": lambda: Cipher(algorithms.AES(key), modes.ECB()),
        "cbc": lambda: Cipher(algorithms.AES(key), modes.CBC(iv)),
        "ctr": lambda: Cipher(algorithms.AES(key), modes.CTR(iv)),
        "xts": lambda: Cipher(algorithms.AES(key), modes.XTS(iv)),
        "ofb": lambda: Cipher(algorithms.AES(key), old_modes.OFB(iv)),
        "cfb": lambda: Cipher(algorithms.AES(key), old_modes.CFB(iv)),
        "des": lambda: Cipher(old_algorithms.TripleDES(key), modes.CBC(iv)),
        "chacha20": lambda: Cipher(algorithms.ChaCha20(key, iv), None),
    }[mode]()
    state = cipher.encryptor()
    return state.update(message) + state.finalize()


def hchacha20(key, nonce):
    """draft-irtf-cfrg-xchacha-03, section 2.2."""
    state = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))

    def quarter(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & 0xFFFFFFFF
            word = state[z] ^ state[x]
            state[z] = (word << turn | word >> (32 - turn)) & 0xFFFFFFFF

    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return struct.pack("<8I", *state[:4], *state[12:])


# ---- PyCryptodome ------------------------------------------------------------------------------------------------


def second_implementation(algorithm, key, mac_key, iv, aad, message, tag_length):
    kind, mode = algorithm.kind, algorithm.mode
    if kind == "null":
        return bytes(message), b""
    if kind == "digest":
        if mode == "blake2b":
            return BLAKE2b.new(data=message, digest_bits=256).digest(), b""
        if algorithm.xof:
            return DOME_XOFS[algorithm.name].new(data=message).read(tag_length), b""
        return dome_digest(algorithm.digest, message), b""
    if kind == "hmac":
        return dome_hmac(algorithm.digest, key, message), b""
    if algorithm.name == "ecdsa-p256":
        private = ECC.construct(curve="P-256", d=int.from_bytes(key))
        return DSS.new(private, "deterministic-rfc6979").sign(Prehash(message)), b""
    if algorithm.name == "ecdh-p256":
        pair = {"static_priv": ECC.construct(curve="P-256", d=int.from_bytes(key)), "static_pub": dome_point(message)}
        return DH.key_agreement(kdf=bytes, **pair), b""
    if kind == "encipherment":
        public = RSA.construct(rsa_public(key[: rsa_size(key) + EXPONENT]))
        if mode == "raw":
            return int(public._encrypt(int.from_bytes(message))).to_bytes(rsa_size(key)), b""
        drawn = iter(rsaes_padding(rsa_size(key)))
        return PKCS1_v1_5.new(public, lambda length: bytes([next(drawn)])).encrypt(message), b""
    if is_rsa(algorithm):
        n, e, d, p, q, *_ = rsa_numbers(key)
        private = RSA.construct((n, e, d, p, q))
        if mode == "pss":
            salt = {"salt_bytes": len(message), "rand_func": lambda length: rsa_salt(message)}
            return pss.new(private, **salt).sign(Ready(message)), b""
        return pkcs1_15.new(private).sign(Ready(message)), b""
    if kind == "signature":
        return eddsa.new(eddsa.import_private_key(key), "rfc8032").sign(message), b""
    if kind == "exchange":
        pair = {"static_priv": DH.import_x25519_private_key(key), "static_pub": DH.import_x25519_public_key(message)}
        return DH.key_agreement(kdf=bytes, **pair), b""
    if mode == "cmac":
        return CMAC.new(key, message, ciphermod=AES).digest(), b""
    if mode == "gmac":
        state = AES.new(key, AES.MODE_GCM, nonce=iv)
        state.update(message)
        return state.digest(), b""
    if mode == "poly1305":
        return poly1305_sum(key, message), b""
    if kind == "eta":
        output = dome_cipher(mode, key, iv, message)
        return output, dome_hmac(algorithm.digest, mac_key, aad + iv + output)
    if kind == "aead":
        if mode == "gcm" and tag_length < 4:
            return None
        state = {
            "gcm": lambda: AES.new(key, AES.MODE_GCM, nonce=iv, mac_len=tag_length),
            "ccm": lambda: AES.new(key, AES.MODE_CCM, nonce=iv, mac_len=tag_length),
            "chacha20": lambda: ChaCha20_Poly1305.new(key=key, nonce=iv),
            "xchacha20": lambda: ChaCha20_Poly1305.new(key=key, nonce=iv),
        }[mode]()
        state.update(aad)
        return state.encrypt_and_digest(message)
    if mode == "des" and (key[:8] == key[8:16] or key[8:16] == key[16:]):
        return None  # PyCryptodome refuses keys that reduce it to single DES.
    return dome_cipher(mode, key, iv, message), b""


class Prehash:
    """A digest in the form PyCryptodome expects."""

    digest_size, block_size, new = 32, 64, staticmethod(SHA256.new)

    def __init__(self, digest):
        self.digest = lambda: p256_digest(digest)


class Ready:
    """A digest selected by its length."""

    def __init__(self, digest):
        function = DOME_DIGESTS[rsa_digest(digest)]
        self.digest_size, self.block_size = len(digest), function.new().block_size
        self.oid, self.new, self.digest = function.new().oid, function.new, lambda: digest


def dome_deciphers(mode, key, ciphertext):
    n, e, d, p, q, *_ = rsa_numbers(key)
    private = RSA.construct((n, e, d, p, q))
    if mode == "raw":
        return private._decrypt_to_bytes(int.from_bytes(ciphertext))
    return PKCS1_v1_5.new(private).decrypt(ciphertext, None)


def dome_verifies_rsa(mode, public, digest, signature):
    key = RSA.construct(rsa_public(public))
    way = pss.new(key, salt_bytes=len(digest)) if mode == "pss" else pkcs1_15.new(key)
    try:
        way.verify(Ready(digest), signature)
    except ValueError:
        return False
    return True


def dome_point(encoded):
    return ECC.import_key(encoded, curve_name="P-256")


def dome_verifies(public, digest, signature):
    try:
        DSS.new(dome_point(public), "deterministic-rfc6979").verify(Prehash(digest), signature)
    except ValueError:
        return False
    return True


DOME_DIGESTS = {
    "md5": MD5,
    "sha1": SHA1,
    "sha224": SHA224,
    "sha256": SHA256,
    "sha384": SHA384,
    "sha512": SHA512,
    "sha3_224": SHA3_224,
    "sha3_256": SHA3_256,
    "sha3_384": SHA3_384,
    "sha3_512": SHA3_512,
    "ripemd160": RIPEMD160,
}


DOME_XOFS = {
    "shake128": SHAKE128,
    "shake256": SHAKE256,
    "turboshake128": TurboSHAKE128,
    "turboshake256": TurboSHAKE256,
    "kt128": KangarooTwelve,
}


def dome_digest(name, message):
    if name == "sha512_256":
        return SHA512.new(message, truncate="256").digest()
    return DOME_DIGESTS[name].new(message).digest()


def dome_hmac(name, key, message):
    if name in ("sha512_256",) or name.startswith("sha3"):
        # RFC 2104, written out: not every release of PyCryptodome supports these digests.
        size = {"sha3_224": 144, "sha3_256": 136, "sha3_384": 104, "sha3_512": 72}.get(name, 128)
        key = (dome_digest(name, key) if len(key) > size else key).ljust(size, b"\0")
        inner = dome_digest(name, bytes(b ^ 0x36 for b in key) + message)
        return dome_digest(name, bytes(b ^ 0x5C for b in key) + inner)
    return HMAC.new(key, message, DOME_DIGESTS[name]).digest()


def dome_cipher(mode, key, iv, message):
    if mode == "xts":
        return xts(key, iv, message)
    if mode == "chacha20":
        state = ChaCha20.new(key=key, nonce=iv[4:])
        state.seek(64 * int.from_bytes(iv[:4], "little"))
        return state.encrypt(message)
    if mode == "cfb":
        padded = message + bytes(-len(message) % 16)
        return AES.new(key, AES.MODE_CFB, iv=iv, segment_size=128).encrypt(padded)[: len(message)]
    if mode == "des":
        return DES3.new(key, DES3.MODE_CBC, iv=iv).encrypt(message)
    if mode == "ctr":
        return AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=iv).encrypt(message)
    if mode == "ecb":
        return AES.new(key, AES.MODE_ECB).encrypt(message)
    return AES.new(key, {"cbc": AES.MODE_CBC, "ofb": AES.MODE_OFB}[mode], iv=iv).encrypt(message)


def xts(key, tweak, message):
    """IEEE 1619: XEX with ciphertext stealing."""
    half = len(key) // 2
    data, tweaks = AES.new(key[:half], AES.MODE_ECB), AES.new(key[half:], AES.MODE_ECB)
    mask = int.from_bytes(tweaks.encrypt(tweak), "little")
    blocks = []
    for start in range(0, len(message), 16):
        piece = message[start : start + 16]
        if len(piece) < 16:
            last = blocks.pop()
            blocks.append(None)
            piece, rest = piece + last[len(piece) :], last[: len(piece)]
        number = int.from_bytes(piece, "little") ^ mask
        sealed = int.from_bytes(data.encrypt(number.to_bytes(16, "little")), "little") ^ mask
        blocks.append(sealed.to_bytes(16, "little"))
        if blocks[-2:-1] == [None]:
            blocks[-2:] = [blocks[-1], rest]
        mask = mask << 1 if mask < 1 << 127 else (mask << 1 & (1 << 128) - 1) ^ 0x87
    return b"".join(blocks)


def poly1305_sum(key, message):
    """RFC 8439, section 2.5."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for start in range(0, len(message), 16):
        total = (total + int.from_bytes(message[start : start + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return ((total + int.from_bytes(key[16:], "little")) & (1 << 128) - 1).to_bytes(16, "little")


def turboshake(rate, domain, message, length):
    """RFC 9861, section 2, with Keccak-p of FIPS 202, section 3."""
    padded = bytearray(message + bytes([domain]))
    padded += bytes(-len(padded) % rate)
    padded[-1] ^= 0x80
    state, output = [0] * 25, b""
    for at in range(0, len(padded), rate):
        for i, word in enumerate(struct.unpack_from(f"<{rate // 8}Q", padded, at)):
            state[i] ^= word
        state = keccak_p12(state)
    while len(output) < length:
        output += struct.pack("<25Q", *state)[:rate]
        state = keccak_p12(state)
    return output[:length]


def keccak_p12(a):
    """Computes the last twelve rounds; word `x + 5 * y` is lane (x, y)."""

    def rotated(word, by):
        by %= 64
        return (word << by | word >> (64 - by)) & (1 << 64) - 1

    for constant in ROUND_CONSTANTS[12:]:
        c = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        d = [c[(x + 4) % 5] ^ rotated(c[(x + 1) % 5], 1) for x in range(5)]
        a = [word ^ d[i % 5] for i, word in enumerate(a)]
        b, x, y = a[:], 1, 0
        for t in range(24):
            b[y + 5 * ((2 * x + 3 * y) % 5)] = rotated(a[x + 5 * y], (t + 1) * (t + 2) // 2)
            x, y = y, (2 * x + 3 * y) % 5
        a = [b[i] ^ ~b[i - i % 5 + (i + 1) % 5] & b[i - i % 5 + (i + 2) % 5] for i in range(25)]
        a[0] ^= constant
    return a


def round_constants():
    register = 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            constant |= (register & 1) << (2**j - 1)
            register = register << 1 ^ 0x171 * (register >> 7)
        yield constant


ROUND_CONSTANTS = list(round_constants())


def kt128(message, length):
    """RFC 9861, section 3.2, with an empty customization string."""
    chunks = [(message + b"\0")[at : at + 8192] for at in range(0, len(message) + 1, 8192)]
    if len(chunks) == 1:
        return turboshake(168, 0x07, chunks[0], length)
    leaves = len(chunks) - 1
    encoded = leaves.to_bytes((leaves.bit_length() + 7) // 8)
    values = b"".join(turboshake(168, 0x0B, chunk, 32) for chunk in chunks[1:])
    node = chunks[0] + b"\3" + bytes(7) + values + encoded + bytes([len(encoded)]) + b"\xff\xff"
    return turboshake(168, 0x06, node, length)


def monte_carlo(implementation, algorithm, seed, width):
    """Computes an inner loop of SHAVS (`width` 3) or SHA3VS (`width` 1)."""
    last = [seed] * width
    for _ in range(1000):
        last = last[1:] + [implementation(algorithm, b"", b"", b"", b"", b"".join(last), 0)[0]]
    return last[-1]


# ---- the table ---------------------------------------------------------------------------------------------------


def table():
    digests = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-256"]
    digests += [f"sha3-{n}" for n in (224, 256, 384, 512)] + ["ripemd160"]
    for name in digests:
        yield Algorithm(name, "digest", digest=name.replace("-", "_"))
    yield Algorithm("blake2b-256", "digest", mode="blake2b")
    for mode in ("shake", "turboshake"):
        for size, name in ((32, f"{mode}128"), (64, f"{mode}256")):
            yield Algorithm(name, "digest", digest=name.replace("shake", "shake_"), mode=mode, xof=size)
    yield Algorithm("kt128", "digest", mode="kt128", xof=32)
    for name in digests:
        yield Algorithm(f"hmac-{name}", "hmac", digest=name.replace("-", "_"))
    for bits in (128, 192, 256):
        yield Algorithm(f"aes-{bits}-cmac", "mac", bits // 8, mode="cmac")
    for bits in (128, 192, 256):
        yield Algorithm(f"aes-{bits}-gmac", "mac", bits // 8, 12, mode="gmac")
    yield Algorithm("poly1305", "mac", 32, mode="poly1305")
    for mode in ("ecb", "cbc", "ctr", "ofb", "cfb"):
        for bits in (128, 192, 256):
            iv, block = (0 if mode == "ecb" else 16), (16 if mode in ("ecb", "cbc") else 1)
            yield Algorithm(f"aes-{bits}-{mode}", "cipher", bits // 8, iv, block, mode=mode)
    for bits in (128, 256):
        yield Algorithm(f"aes-{bits}-xts", "xts", bits // 4, 16, mode="xts")
    yield Algorithm("des-ede3-cbc", "cipher", 24, 8, 8, mode="des")
    yield Algorithm("chacha20", "cipher", 32, 16, mode="chacha20")
    for mode in ("gcm", "ccm"):
        for bits in (128, 192, 256):
            yield Algorithm(f"aes-{bits}-{mode}", "aead", bits // 8, 12, mode=mode)
    yield Algorithm("chacha20-poly1305", "aead", 32, 12, mode="chacha20")
    yield Algorithm("xchacha20-poly1305", "aead", 32, 24, mode="xchacha20")
    for mode in ("cbc", "ctr"):
        for bits in (128, 192, 256):
            for digest in ("sha1", "sha256", "sha384", "sha512"):
                block = 16 if mode == "cbc" else 1
                yield Algorithm(f"aes-{bits}-{mode}-hmac-{digest}", "eta", bits // 8, 16, block, digest, mode)
    yield Algorithm("ed25519", "signature", 32)
    yield Algorithm("x25519", "exchange", 32)
    yield Algorithm("ecdsa-p256", "signature", 32)
    yield Algorithm("ecdh-p256", "exchange", 32)
    for mode in ("pkcs1", "pss"):
        for bits in (2048, 3072, 4096):
            yield Algorithm(f"rsa-{bits}-{mode}", "signature", EXPONENT + 9 * bits // 16, mode=mode)
    for name, mode in (("rsa-{}-raw", "raw"), ("rsaes-{}-pkcs1", "rsaes")):
        for bits in (2048, 3072, 4096):
            yield Algorithm(name.format(bits), "encipherment", EXPONENT + 9 * bits // 16, mode=mode)
    yield Algorithm("null", "null")


ALGORITHMS = list(table())
BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}
