"""Levels of Merkle trees."""

import array
import hashlib
import shutil
import subprocess
import sys

import gantry_crypto as gantry
import pytest


def level(alg, data, block, before=b"", behind=b""):
    """Returns the expected level, hashed block by block."""
    blocks = [data[begin : begin + block].ljust(block, b"\0") for begin in range(0, len(data), block)]
    return b"".join(hashlib.new(alg, before + each + behind).digest() for each in blocks)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 64 * 70 + 3])
def test_a_level_is_the_digest_of_each_block(length):
    data = bytes(index * 7 % 251 for index in range(length))
    for alg in ["sha256", "sha512", "sha1", "md5", "sha3_256"]:
        assert gantry.tree_level(alg, data, 64) == level(alg, data, 64)
        assert gantry.tree_level(alg, data, 64, b"salt") == level(alg, data, 64, before=b"salt")
        assert gantry.tree_level(alg, data, 64, b"salt", salt_behind=True) == level(alg, data, 64, behind=b"salt")


def test_data_are_any_contiguous_buffer():
    data = bytes(range(256)) * 64
    expected = level("sha256", data, 4096)
    for buffer in [bytearray(data), memoryview(data), array.array("I", data)]:
        assert gantry.tree_level("sha256", buffer, 4096, bytearray(b"")) == expected
    for wrong in ["text", None, 5, [b"list"], memoryview(data)[::2]]:
        with pytest.raises(TypeError, match="data must be bytes or a contiguous buffer"):
            gantry.tree_level("sha256", wrong, 4096)


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("block", [1000, 4096, 5 << 20])
def test_rounds_over_a_long_buffer_give_one_level(kind, block):
    data = kind(b"0123456789abcde" * 700000)
    assert gantry.tree_level("sha256", data, block, b"s") == level("sha256", bytes(data), block, before=b"s")


def test_impossible_block_lengths_are_refused():
    assert gantry.tree_level("sha256", b"a", 1 << 20) == level("sha256", b"a", 1 << 20)
    for block in [0, (1 << 30) + 1]:
        with pytest.raises(ValueError, match=f"1 to 1073741824 bytes, not {block}"):
            gantry.tree_level("sha256", b"a", block)
    with pytest.raises(OverflowError):
        gantry.tree_level("sha256", b"a", -1)
    with pytest.raises(ValueError, match="unsupported hash type"):
        gantry.tree_level("sha257", b"a", 64)
    for salt in ["text", 7, [b"a"]]:
        with pytest.raises(TypeError, match="a salt must be bytes"):
            gantry.tree_level("sha256", b"a", 64, salt)


def test_digests_without_room_are_an_error():
    ctypes = pytest.importorskip("ctypes")
    # The memory is not backed, and must not be read.
    data = memoryview((ctypes.c_char * (1 << 46)).from_address(1 << 12))
    with pytest.raises(MemoryError):
        gantry.tree_level("sha512", data, 1)


def test_a_signal_interrupts_tree_level():
    program = """if True:
        import gantry_crypto, signal
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        data = bytearray(4 << 20)
        try:
            while True:
                gantry_crypto.tree_level("sha512", data, 1)
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "interrupted\n"


def test_the_root_is_that_of_veritysetup(tmp_path):
    if not shutil.which("veritysetup"):
        pytest.skip("no veritysetup")
    data, salt = b"0123456789" * 100000, bytes(range(32))
    data = data[: len(data) // 4096 * 4096]
    (tmp_path / "data").write_bytes(data)
    command = ["veritysetup", "format", "--salt", salt.hex(), tmp_path / "data", tmp_path / "tree"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    root = data
    while len(root) > 32:
        root = gantry.tree_level("sha256", root, 4096, salt)
    assert f"Root hash:      \t{root.hex()}" in said, said
