"""Lists of buffers, and rows of arrays."""

import array
import hashlib
import hmac
import threading
import types

import gantry_crypto as gantry
import pytest

numpy = pytest.importorskip("numpy")


def sha256(values):
    return [None if value is None else hashlib.sha256(value).digest() for value in values]


def test_a_list_has_buffers_of_any_kind_strings_and_none():
    values = [b"bytes", bytearray(b"bytearray"), memoryview(b"view"), array.array("I", [1, 2]), numpy.arange(5), None, b""]
    assert gantry.digest_many("sha256", values).to_list() == sha256(None if v is None else bytes(v) for v in values)
    assert gantry.digest_many("sha256", ["é", "a" * 999]).to_list() == sha256(["é".encode(), b"a" * 999])
    assert gantry.digest_many("sha256", (value for value in [b"a", b"b"])).to_list() == sha256([b"a", b"b"])
    assert gantry.digest_many("sha256", numpy.array(["a", None], object)).to_list() == sha256([b"a", None])
    assert gantry.digest_many("sha256", []).to_list() == []


def test_short_and_long_buffers_keep_their_order():
    long = [bytearray(bytes([i]) * (65536 * 2 + i)) for i in range(40)]
    values = [b"first", *long[:35], None, b"between", long[35], bytearray(b"short"), *long[36:], b"z" * (5 << 20), b"last"]
    assert gantry.digest_many("sha256", values).to_list() == sha256(values)
    key = b"key"
    expected = [None if value is None else hmac.digest(key, value, "sha512") for value in values]
    assert gantry.digest_many("sha512", values, key).to_list() == expected


def test_a_list_that_claims_a_length_without_room_is_an_error():
    class Claims(list):
        def __len__(self):
            return 1 << 50

    with pytest.raises(MemoryError):
        gantry.digest_many("sha256", Claims([b"a"]))


def test_more_values_than_a_block_holds_are_hashed():
    values = [None if i % 11 == 3 else str(i).encode() for i in range(5000)]
    assert gantry.digest_many("sha256", values).to_list() == sha256(values)
    assert gantry.digest_many("sha256", values, hex=True).to_list() == [v and v.hex() for v in sha256(values)]


@pytest.mark.parametrize("shape", [(5000, 100), (33, 200001), (1, 1), (3, 0), (0, 3), (0, 0)])
def test_the_rows_of_an_array_are_values(shape):
    rows = numpy.random.default_rng(7).integers(0, 256, shape, numpy.uint8)
    assert gantry.digest_many("sha256", rows).to_list() == sha256(row.tobytes() for row in rows)


def test_rows_of_numbers_are_their_bytes():
    rows = numpy.arange(60, dtype=numpy.float64).reshape(6, 10)
    assert gantry.digest_many("md5", rows).to_list() == [hashlib.md5(row.tobytes()).digest() for row in rows]
    rows.flags.writeable = False
    assert gantry.digest_many("md5", rows)[5] == hashlib.md5(rows[5].tobytes()).digest()


def test_other_objects_than_lists_of_buffers_are_refused():
    for values in [{b"a", b"b"}, frozenset([b"a"]), {b"a": 1}, types.MappingProxyType({b"a": 1})]:
        with pytest.raises(TypeError, match="is not a list in order"):
            gantry.digest_many("sha256", values)
    assert gantry.digest_many("sha256", {1: b"a"}.values()).to_list() == sha256([b"a"])
    for values in ["text", b"bytes", bytearray(3), numpy.arange(5), 5, None]:
        with pytest.raises(TypeError, match="are not a column or a list of buffers"):
            gantry.digest_many("sha256", values)
    for values, error, words in [
        ([b"a", 5], TypeError, "value 1: a bytes-like object is required"),
        ([b"a", b"b", numpy.zeros((4, 4))[:, ::2]], BufferError, "value 2: the buffer is not C-contiguous"),
        (["a", "\ud800"], ValueError, "value 1: .*surrogates not allowed"),
        ([numpy.array(["a"], object)], BufferError, "value 0: the buffer holds objects"),
        (numpy.zeros((4, 4))[:, ::2], BufferError, "not C-contiguous"),
        (numpy.zeros((2, 2, 2)), ValueError, "two dimensions"),
    ]:
        with pytest.raises(error, match=words):
            gantry.digest_many("sha256", values)


def test_an_error_of_an_iterator_is_passed_on():
    def values():
        yield b"a"
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        gantry.digest_many("sha256", values())


def test_a_buffer_that_changes_while_it_is_hashed_gives_some_digest_of_its_bytes():
    rows = numpy.zeros((64, 1 << 20), numpy.uint8)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            rows[:, ::4096] += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(3):
            assert len(gantry.digest_many("sha256", rows)) == 64
            assert len(gantry.digest_many("sha256", list(rows[:8]))) == 8
            assert len(gantry.sha256(rows).digest()) == 32
    finally:
        stop.set()
        thread.join()
    assert gantry.digest_many("sha256", rows).to_list() == sha256(rows)


def test_a_buffer_cannot_be_resized_while_it_is_hashed_and_can_afterwards():
    value = bytearray(100000)

    def values():
        yield value
        with pytest.raises(BufferError):
            value.append(1)
        yield b"other"

    assert gantry.digest_many("sha256", values()).to_list() == sha256([bytes(100000), b"other"])
    value.append(1)


def test_other_threads_run_while_values_are_hashed():
    values = [b"x" * 1000] * 20000
    count = 0
    stop = threading.Event()

    def work():
        nonlocal count
        while not stop.is_set():
            count += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        before = count
        gantry.digest_many("sha256", values)
        assert count > before
    finally:
        stop.set()
        thread.join()
