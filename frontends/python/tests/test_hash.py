"""Objects shaped like those of hashlib, with CPython's own tests of such objects."""

import copy
import hashlib
import mmap
import os
import signal
import sys
import threading
import unittest
import unittest.mock

import gantry_crypto as gantry
import pytest

try:
    from test import support, test_hashlib
except ImportError:
    test_hashlib = None

NAMES = sorted(set(gantry.algorithms_available) - {"blake2b_256", "blake2b_512", "keccak_256"})


@pytest.mark.parametrize("name", NAMES)
def test_an_object_has_hashlibs_attributes_and_digests(name):
    if name not in hashlib.algorithms_available:
        pytest.skip(f"{name} in hashlib, which only OpenSSL has")
    data = bytes(range(256)) * 33
    ours, theirs = getattr(gantry, name)(data), hashlib.new(name, data)
    for attribute in ["name", "digest_size", "block_size"]:
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    assert (ours.digest(), ours.hexdigest()) == (theirs.digest(), theirs.hexdigest())
    branch = ours.copy()
    ours.update(b"more")
    theirs.update(b"more")
    assert ours.digest() == theirs.digest() != branch.digest()
    assert copy.copy(branch).digest() == branch.digest() == hashlib.new(name, data).digest()
    assert gantry.new(name.upper(), usedforsecurity=False).name == name


def test_blake2b_has_two_lengths():
    assert gantry.blake2b_512(b"x").digest() == hashlib.blake2b(b"x").digest()
    assert gantry.blake2b_256(b"x").digest() == hashlib.blake2b(b"x", digest_size=32).digest()
    assert gantry.new("blake2b-256").name == "blake2b_256"


def test_keccak_256_is_that_of_ethereum():
    # EIP-1052: the hash of empty code.
    empty = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert gantry.keccak_256().hexdigest() == empty
    assert gantry.digest_many("keccak-256", [b""] * 5).to_list() == [bytes.fromhex(empty)] * 5


def test_data_are_buffers():
    for data in [bytearray(b"abc"), memoryview(b"abc"), memoryview(bytearray(b"abc" * 100000))]:
        assert gantry.sha256(data).digest() == hashlib.sha256(data).digest()
    assert gantry.sha256(string=b"abc").digest() == gantry.sha256(data=b"abc").digest() == hashlib.sha256(b"abc").digest()
    for data in ["text", 5, None, [b"a"]]:
        with pytest.raises(TypeError):
            gantry.sha256().update(data)
    with pytest.raises(TypeError, match="mutually exclusive"):
        gantry.sha256(b"a", string=b"b")
    with pytest.raises(BufferError):
        gantry.sha256(memoryview(bytes(100))[::2])


@pytest.mark.parametrize("name", ["SHA-256", "sha256", "SHA2-256", "SHA256", "sha2_256", "SHA 256"])
def test_a_name_has_several_spellings(name):
    assert gantry.new(name).name == "sha256"
    assert gantry.digest_many(name, [b"a"]) == gantry.digest_many("sha256", [b"a"])


def test_other_spellings_of_functions_with_two_numbers():
    for spelling, name in [("SHA3-256", "sha3_256"), ("sha3256", "sha3_256"), ("SHA-512/256", "sha512_256"), ("BLAKE2b-512", "blake2b_512")]:
        assert gantry.new(spelling).name == name
    with pytest.raises(ValueError, match='unsupported hash type "sha265"; did you mean sha256'):
        gantry.new("sha265")


class Stop(Exception):
    """Raised by the handler of a signal."""


def interrupted(work):
    """Runs `work` with a signal that arrives during it, and returns true if it was interrupted."""
    def stop(*_):
        raise Stop

    def send():
        begun.wait()
        os.kill(os.getpid(), signal.SIGUSR1)

    before, interval = signal.signal(signal.SIGUSR1, stop), sys.getswitchinterval()
    begun, thread = threading.Event(), threading.Thread(target=send)
    thread.start()
    # The other thread runs again when `work` releases the GIL.
    sys.setswitchinterval(100)
    try:
        begun.set()
        work()
    except Stop:
        return True
    finally:
        sys.setswitchinterval(interval)
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    return False


def test_a_signal_interrupts_long_messages_and_leaves_them_unchanged():
    # The pages are all one page of zeros.
    data = mmap.mmap(-1, 1 << 33, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    message, other = gantry.sha512(b"before"), gantry.sha256(b"before")
    assert interrupted(lambda: message.update(data))
    assert interrupted(lambda: gantry.update_many([message, other], [data, b"more"]))
    assert message.digest() == hashlib.sha512(b"before").digest() and other.digest() == hashlib.sha256(b"before").digest()
    assert interrupted(lambda: gantry.digest_many("sha512", [data]))


def test_a_signal_interrupts_long_bytes():
    data = bytes(1 << 29)
    for work in [lambda: gantry.sha512(data), lambda: gantry.digest_many("sha512", [data] * 50)]:
        assert interrupted(work)


def test_threads_share_an_object():
    shared = gantry.sha256()
    piece = b"x" * 100_000

    def feed():
        for _ in range(50):
            shared.update(piece)
            shared.update(b"x" * 100)
            shared.hexdigest()

    threads = [threading.Thread(target=feed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.digest() == hashlib.sha256(b"x" * (4 * 50 * 100_100)).digest()


# Parts of CPython's tests that do not apply here, by the end of a test's name.
NOT_OFFERED = {
    "algorithms_guaranteed": "the list of hashlib itself",
    "algorithms_available": "the list of hashlib itself",
    "get_builtin_constructor": "a function of hashlib itself",
    "usedforsecurity_true": "calls OpenSSL's constructors by name",
    "usedforsecurity_false": "calls OpenSSL's constructors by name",
    "clinic_signature": "the signature of CPython 3.14 and of OpenSSL's constructors",
    "clinic_signature_errors": "the signature of CPython 3.14 and of OpenSSL's constructors",
    "blocksize_name": "SHAKE and BLAKE2s are not offered",
    "blocksize_name_sha3": "SHAKE is not offered",
    "no_unicode_sha3": "SHAKE is not offered",
    "extra_sha3": "private attributes of CPython's SHA-3",
    "hash_disallow_instantiation": "a type of CPython's",
    "readonly_types": "a type of CPython's",
}
WORDS = {"blake2": "BLAKE2 with parameters, and BLAKE2s, are not offered", "shake": "SHAKE is not offered", "file_digest": "a function of hashlib itself"}


def reason(name):
    name = name.removeprefix("test_")
    return NOT_OFFERED.get(name) or next((why for word, why in WORDS.items() if word in name), None)


@pytest.mark.skipif(test_hashlib is None, reason="this Python comes without its tests (libpython3-testsuite)")
def test_cpythons_own_tests_pass():
    class Ours(test_hashlib.HashLibTestCase):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.constructors_to_test = {
                name: {getattr(gantry, name), lambda *data, _name=name, **options: gantry.new(_name, *data, **options)} for name in NAMES
            }

        def setUp(self):
            super().setUp()
            # The names through which the tests call constructors.
            replaced = {"new": gantry.new, **{name: getattr(gantry, name) for name in NAMES if hasattr(hashlib, name)}}
            for name, value in replaced.items():
                patch = unittest.mock.patch.object(hashlib, name, value)
                patch.start()
                self.addCleanup(patch.stop)

    suite, left_out = unittest.TestSuite(), {}
    for test in unittest.defaultTestLoader.loadTestsFromTestCase(Ours):
        why = reason(test.id().rsplit(".", 1)[1])
        if why:
            left_out[test.id().rsplit(".", 1)[1]] = why
        else:
            suite.addTest(test)
    count = suite.countTestCases()
    result = unittest.TestResult()
    # Skips vectors that the tests would download.
    with unittest.mock.patch.object(support, "use_resources", []):
        suite.run(result)
    for name, why in sorted(left_out.items()):
        print(f"not run: {name}: {why}")
    assert result.failures == [] and result.errors == [], "\n".join(text for _, text in result.failures + result.errors)
    print(f"CPython's tests: {count} run, {len(result.skipped)} of them skip themselves, {len(left_out)} not run")
    assert count > len(left_out) and count - len(result.skipped) > 20
