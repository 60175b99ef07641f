"""seal_many and its siblings, with vectors of the specifications."""

import os
import subprocess
import sys

import gantry_crypto as gantry
import pytest

KEY = bytes(range(32))
NONCES = [index.to_bytes(12, "little") for index in range(3000)]
VALUES = [bytes([index % 251]) * (index % 700) for index in range(3000)]
AEADS = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"]


def key(alg):
    return KEY[: 16 if "128-" in alg else 32]


def test_aes_gcm_matches_a_vector_of_its_specification():
    # McGrew and Viega, "The Galois/Counter Mode of Operation", test case 4.
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308")
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    text = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    aad = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    sealed = bytes.fromhex(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
        "5bc94fbc3221a5db94fae95ae7121a47"
    )
    assert gantry.seal_many("aes-128-gcm", key, [nonce], [text], aad) == [sealed]
    assert gantry.open_many("aes-128-gcm", key, [nonce], [sealed], aad) == [text]


def test_aes_ctr_matches_a_vector_of_its_specification():
    # NIST SP 800-38A, F.5.1.
    key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    text, encrypted = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a"), bytes.fromhex("874d6191b620e3261bef6864990db6ce")
    assert gantry.encrypt_many("aes-128-ctr", key, [counter], [text]) == [encrypted]
    assert gantry.decrypt_many("aes-128-ctr", key, [counter], [encrypted]) == [text]


@pytest.mark.parametrize("alg", AEADS)
def test_sealed_values_open_with_the_same_associated_data(alg):
    each = [bytes([index % 256]) * (index % 5) for index in range(3000)]
    for aad in [None, b"one for all", bytearray(b"buffer"), each]:
        sealed = gantry.seal_many(alg, key(alg), NONCES, VALUES, aad)
        assert [len(value) for value in sealed] == [len(value) + 16 for value in VALUES]
        assert gantry.open_many(alg, key(alg), NONCES, sealed, aad) == VALUES
    with pytest.raises(gantry.InvalidTag):
        gantry.open_many(alg, key(alg), NONCES, sealed, b"other")


@pytest.mark.parametrize("alg", AEADS)
def test_values_with_bad_tags_are_listed_and_not_decrypted(alg):
    sealed = gantry.seal_many(alg, key(alg), NONCES, VALUES)
    broken = {7: sealed[7][:-1] + bytes([sealed[7][-1] ^ 1]), 1500: b"\0" + sealed[1500][1:], 2000: b"short", 2999: b""}
    given = [broken.get(index, value) for index, value in enumerate(sealed)]
    with pytest.raises(gantry.InvalidTag, match="4 of 3000 values: bad tag; the first is value 7") as caught:
        gantry.open_many(alg, key(alg), NONCES, given)
    assert caught.value.indexes == sorted(broken)
    assert caught.value.values == [None if index in broken else value for index, value in enumerate(VALUES)]


def test_ciphers_take_buffers_of_any_kind_and_rows():
    numpy = pytest.importorskip("numpy")
    rows = numpy.arange(64, dtype=numpy.uint8).reshape(4, 16)
    encrypted = gantry.encrypt_many("aes-256-cbc", KEY, [bytes(16)] * 4, rows)
    assert gantry.decrypt_many("aes-256-cbc", KEY, rows * 0, [bytearray(value) for value in encrypted]) == [bytes(row) for row in rows]


def test_mistakes_are_errors_with_the_index_of_the_value():
    for arguments, error, words in [
        (("nope", KEY, NONCES[:2], [b"a", b"b"]), ValueError, "there is no AEAD 'nope'; there are aes-128-gcm, "),
        (("aes-256-cbc", KEY, NONCES[:2], [b"a", b"b"]), ValueError, "there is no AEAD 'aes-256-cbc'; did you mean aes-256-"),
        (("aes-gcm", KEY, NONCES[:2], [b"a", b"b"]), ValueError, "did you mean aes-128-gcm, aes-192-gcm or aes-256-gcm?"),
        (("aes-256-gcm", KEY, [NONCES[0], bytes(16)], [b"a", b"b"]), ValueError, "value 1: a nonce or IV of 16 bytes; aes-256-gcm takes 12"),
        (("aes-256-gcm", KEY, set(NONCES[:2]), [b"a", b"b"]), TypeError, "nonces: a set is not a list in order"),
        (("aes-256-gcm", KEY[:5], NONCES[:2], [b"a", b"b"]), ValueError, "a key of 5 bytes"),
        (("aes-256-gcm", "key", NONCES[:2], [b"a", b"b"]), TypeError, "a key must be bytes"),
        (("aes-256-gcm", KEY, NONCES[:1], [b"a", b"b"]), ValueError, "value 1 has no nonce"),
        (("aes-256-gcm", KEY, NONCES[:3], [b"a", b"b"]), ValueError, "than the 2 values"),
        (("aes-256-gcm", KEY, NONCES[:2], [b"a", b"b"], [b"x"]), ValueError, "value 1 has no associated data"),
        (("aes-256-gcm", KEY, NONCES[:2], [b"a", b"b"], [b"x"] * 3), ValueError, "than the 2 values"),
        (("chacha20-poly1305", KEY, [NONCES[0], b"short"], [b"a", b"b"]), ValueError, "value 1: .* 5 bytes"),
        (("aes-256-gcm", KEY, NONCES[:2], [b"a", "text"]), TypeError, "value 1: expected bytes"),
        (("aes-256-gcm", KEY, NONCES[:2], [b"a", None]), TypeError, "value 1: expected bytes"),
        (("aes-256-gcm", KEY, NONCES[0], [b"a"]), TypeError, "nonces: expected a list of buffers"),
        (("aes-256-gcm", KEY, NONCES[:1], b"a"), TypeError, "values: expected a list of buffers"),
    ]:
        with pytest.raises(error, match=words):
            gantry.seal_many(*arguments)
    with pytest.raises(ValueError, match="value 1: aes-256-cbc takes no data of 15 bytes"):
        gantry.encrypt_many("aes-256-cbc", KEY, [bytes(16)] * 3, [bytes(16), bytes(15), bytes(16)])
    assert gantry.seal_many("aes-256-gcm", KEY, [], []) == []


@pytest.mark.parametrize("alg", AEADS)
def test_a_nonce_is_used_once_in_a_call(alg):
    for nonces, words in [([NONCES[5]] * 2, "values 0 and 1 have the same nonce"), ([*NONCES[:2500], NONCES[3]], "values 3 and 2500")]:
        with pytest.raises(ValueError, match=words):
            gantry.seal_many(alg, key(alg), nonces, [b"a"] * len(nonces))
    [sealed] = gantry.seal_many(alg, key(alg), NONCES[:1], [b"a"])
    assert gantry.open_many(alg, key(alg), NONCES[:1] * 2, [sealed] * 2) == [b"a", b"a"]


def test_gcm_takes_nonces_of_other_lengths_on_request():
    nonces = [bytes([length]) * length for length in [1, 8, 12, 16, 100]]
    sealed = gantry.seal_many("aes-256-gcm", KEY, nonces, [b"text"] * 5, any_nonce=True)
    assert gantry.open_many("aes-256-gcm", KEY, nonces, sealed, any_nonce=True) == [b"text"] * 5
    with pytest.raises(ValueError, match="value 0: a nonce or IV of 1 bytes"):
        gantry.open_many("aes-256-gcm", KEY, nonces, sealed)


def test_names_are_taken_in_any_spelling():
    sealed = gantry.seal_many("aes-256-gcm", KEY, NONCES[:1], [b"a"])
    for alg in ["AES-256-GCM", "AES_256_GCM", "aes256gcm", "A256GCM", "id-aes256-GCM"]:
        assert gantry.seal_many(alg, KEY, NONCES[:1], [b"a"]) == sealed


def test_a_wrong_configuration_only_affects_calls_that_need_one():
    program = (
        "import gantry_crypto as g\n"
        "g.digest_many('md5', [b'a']); g.sha256(b'')\n"
        "try: g.seal_many('aes-128-gcm', bytes(16), [bytes(12)], [b''])\n"
        "except RuntimeError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "GANTRY_DEVICES": "nonsense=on"}, capture_output=True, text=True, check=True
    )
    assert "nonsense" in run.stdout and run.stderr == ""
