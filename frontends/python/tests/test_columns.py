"""Columns of common programs, compared with hashlib value by value."""

import copy
import ctypes
import datetime
import gc
import hashlib
import hmac
import os
import pickle

import duckdb
import gantry_crypto as gantry
import pandas
import polars
import pyarrow
import pytest

VALUES = ["alice@example.org", None, "", "é" * 9, "x" * 300, "twelve bytes"] * 500
DIGESTS = [None if value is None else hashlib.sha256(value.encode()).digest() for value in VALUES]
DIGITS = [None if digest is None else digest.hex() for digest in DIGESTS]
TYPES = [
    pyarrow.string(),
    pyarrow.large_string(),
    pyarrow.string_view(),
    pyarrow.binary(),
    pyarrow.large_binary(),
    pyarrow.binary_view(),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_type_of_strings_is_hashed_value_by_value_and_nulls_stay_null(kind):
    column = pyarrow.array(VALUES, kind)
    assert gantry.digest_many("sha256", column).to_list() == DIGESTS
    for begin, end in [(3, 1501), (1, 1), (7, 8), (2999, 3000)]:
        assert gantry.digest_many("sha256", column[begin:end], hex=True).to_list() == DIGITS[begin:end]
    chunks = pyarrow.chunked_array([column[:5], column[5:5], column[5:]])
    assert gantry.digest_many("sha256", chunks, hex=True).to_list() == DIGITS


@pytest.mark.parametrize("alg", sorted(set(gantry.algorithms_available) - {"keccak_256"}))
def test_every_algorithm_agrees_with_hashlib_and_hmac(alg):
    def reference(value):
        if alg == "blake2b_256":
            return hashlib.blake2b(value, digest_size=32).digest()
        return hashlib.new({"blake2b_512": "blake2b"}.get(alg, alg), value).digest()

    values = [bytes(range(256))[:length] * 2 for length in range(0, 257, 7)]
    assert gantry.digest_many(alg, pyarrow.array(values)).to_list() == [reference(value) for value in values]
    if not alg.startswith("blake2b"):
        for key in [b"", b"key", b"k" * 200]:
            expected = [hmac.digest(key, value, alg) for value in values]
            assert gantry.digest_many(alg, pyarrow.array(values), key).to_list() == expected
            assert gantry.digest_many(alg, values, bytearray(key)).to_list() == expected


def test_fixed_size_values_are_hashed_and_nulls_stay_null():
    column = pyarrow.array([b"abcd", None, b"efgh"], pyarrow.binary(4))
    expected = [hashlib.md5(b"abcd").digest(), None, hashlib.md5(b"efgh").digest()]
    assert gantry.digest_many("md5", column).to_list() == expected
    assert gantry.digest_many("md5", column[1:]).to_list() == expected[1:]
    assert gantry.digest_many("md5", pyarrow.nulls(3)).to_list() == [None] * 3
    assert gantry.digest_many("md5", pyarrow.array([None, None], pyarrow.string())).to_list() == [None] * 2


def test_a_column_without_values_has_no_digests():
    for empty in [*(pyarrow.array([], kind) for kind in TYPES), pyarrow.chunked_array([], pyarrow.string()), polars.Series([], dtype=polars.String)]:
        digests = gantry.digest_many("sha256", empty)
        assert len(digests) == 0 and digests.to_list() == [] and list(digests) == []
        assert pyarrow.array(digests).type == pyarrow.binary(32)


def test_series_and_relations_and_tables_of_one_column_are_hashed():
    table = pyarrow.table({"email": VALUES})
    connection = duckdb.connect()
    connection.register("users", table)
    for column in [
        polars.Series(VALUES),
        polars.DataFrame({"email": VALUES}),
        pandas.Series(VALUES),
        pandas.Series(VALUES, dtype="object"),
        pandas.DataFrame({"email": VALUES}),
        table,
        table.slice(0),
        table.to_batches()[0],
        connection.sql("select email from users"),
    ]:
        assert gantry.digest_many("sha256", column, hex=True).to_list() == DIGITS, type(column)
    assert gantry.digest_many("sha256", table.slice(7, 100)).to_list() == DIGESTS[7:107]


def test_a_result_is_a_column_wherever_columns_are_taken():
    for column in [pyarrow.array(VALUES), pyarrow.chunked_array([VALUES[:7], VALUES[7:]])]:
        raw = gantry.digest_many("sha256", column)
        digits = gantry.digest_many("sha256", column, hex=True)
        assert pyarrow.array(raw).type == pyarrow.binary(32)
        assert pyarrow.array(digits).type == pyarrow.string()
        pyarrow.array(raw).validate(full=True)
        pyarrow.array(digits).validate(full=True)
        pyarrow.chunked_array(digits).validate(full=True)
        assert pyarrow.array(raw).to_pylist() == pyarrow.chunked_array(raw).to_pylist() == DIGESTS
        assert pyarrow.array(digits).to_pylist() == DIGITS
        assert polars.Series(raw).to_list() == DIGESTS
        assert polars.Series(digits).to_list() == DIGITS
        assert gantry.digest_many("md5", raw).to_list() == gantry.digest_many("md5", DIGESTS).to_list()
        made = pyarrow.table({"id": digits})
        assert duckdb.connect().sql("select count(distinct id) from made").fetchall() == [(5,)]
        assert made.to_pandas()["id"][0] == DIGITS[0]


@pytest.mark.parametrize("values", [[], [None, None]])
def test_a_column_of_nulls_has_any_type(values):
    for column in [polars.Series(values), polars.Series("a", values), polars.DataFrame({"a": values}), pyarrow.array(values, pyarrow.null())]:
        assert gantry.digest_many("sha256", column).to_list() == values


def test_a_slice_has_digests_of_its_own():
    values = [b"a", None, b"b", b"c", None, b"d"] * 3
    for column in [values, pyarrow.chunked_array([values[:7], values[7:]])]:
        for hex in [False, True]:
            digests = gantry.digest_many("sha256", column, hex=hex)
            for part in [slice(None), slice(2, 9), slice(None, None, -1), slice(-3, 100, 2), slice(5, 2), slice(1, 2)]:
                assert digests[part].to_list() == digests.to_list()[part], part
                assert pyarrow.array(digests[part]).to_pylist() == digests.to_list()[part], part
    with pytest.raises(TypeError):
        digests["1"]


def test_digests_are_equal_by_type_and_values():
    values = [b"a", None, b"b"]
    digests = gantry.digest_many("sha256", values)
    assert digests == gantry.digest_many("sha256", pyarrow.chunked_array([values[:1], values[1:]]))
    assert digests[1:] == gantry.digest_many("sha256", values[1:])
    for other in [
        gantry.digest_many("sha256", values[:2]),
        gantry.digest_many("sha256", [b"a", None, b"c"]),
        gantry.digest_many("sha256", values, hex=True),
        gantry.digest_many("sha3_256", values),
        digests.to_list(),
        None,
    ]:
        assert digests != other
    with pytest.raises(TypeError):
        hash(digests)


def test_digests_are_pickled():
    values = [None if i % 11 == 3 else str(i).encode() for i in range(3000)]
    for column in [values, [], [None], pyarrow.chunked_array([values[:7], values[7:]])]:
        for hex in [False, True]:
            digests = gantry.digest_many("sha256", column, hex=hex)
            for copied in [pickle.loads(pickle.dumps(digests)), copy.copy(digests), copy.deepcopy(digests)]:
                assert copied == digests and copied.to_list() == digests.to_list()
                assert pyarrow.array(copied).to_pylist() == digests.to_list()
    restore = digests.__reduce__()[0]
    for wrong in [(False, 32, [(1, bytes(31), None)]), (False, 32, [(9, bytes(9 * 32), b"x")]), (True, 64, [(1, b"\xff" * 64, None)]),
                  (False, 0, [(5, b"", None)]), (False, 1 << 60, [(16, b"", None)])]:
        with pytest.raises(ValueError, match="no pickled digests"):
            restore(*wrong)


def test_a_result_is_a_sequence():
    digests = gantry.digest_many("sha256", pyarrow.chunked_array([VALUES[:7], [], VALUES[7:]]))
    assert (digests[0], digests[1], digests[-1]) == (DIGESTS[0], None, DIGESTS[-1])
    assert list(digests) == DIGESTS and len(digests) == len(DIGESTS)
    for index in [len(VALUES), -len(VALUES) - 1]:
        with pytest.raises(IndexError):
            digests[index]


def test_columns_of_other_types_are_refused():
    for column, words in [
        (pyarrow.array([1, 2]), "values of type int64 are not strings"),
        (pyarrow.array([1.5]), "values of type double are"),
        (polars.Series([datetime.date(2026, 1, 1)]), "values of type date32 are"),
        (pyarrow.array(["a"]).dictionary_encode(), "cast it to a string type"),
        (pyarrow.table({"a": ["x"], "b": ["y"]}), "one column of the table"),
        (polars.Series([["a"]]), "values of type list are not strings"),
    ]:
        with pytest.raises(TypeError, match=words):
            gantry.digest_many("sha256", column)
    with pytest.raises(ValueError, match="unsupported hash type \"sha257\""):
        gantry.digest_many("sha257", pyarrow.array(["a"]))
    for key in ["text", 5, [b"k"]]:
        with pytest.raises(TypeError, match="a key must be bytes"):
            gantry.digest_many("sha256", pyarrow.array(["a"]), key)


def strings(offsets, data):
    buffers = [None, pyarrow.py_buffer(b"".join(o.to_bytes(4, "little", signed=True) for o in offsets)), pyarrow.py_buffer(data)]
    return pyarrow.Array.from_buffers(pyarrow.string(), len(offsets) - 1, buffers)


def test_wrong_offsets_are_errors_with_the_index_of_the_value():
    for offsets, words in [
        ([0, 5, 3, 8], "value 1: its offsets run backwards"),
        ([0, 9, 9, 8], "value 0: it ends beyond the data"),
    ]:
        with pytest.raises(ValueError, match=words):
            gantry.digest_many("sha256", strings(offsets, b"alicebob"))


def test_errors_count_the_values_of_a_stream_from_its_first_array():
    chunks = pyarrow.chunked_array([["a", "b"], strings([0, 5, 3, 8], b"alicebob")])
    with pytest.raises(ValueError, match="value 3: its offsets run backwards"):
        gantry.digest_many("sha256", chunks)


def test_invalid_views_are_errors_with_the_index_of_the_value():
    data = b"a value longer than twelve bytes"
    good = (32).to_bytes(4, "little") + data[:4] + bytes(8)
    for bad in [
        (32).to_bytes(4, "little") + data[:4] + (1).to_bytes(4, "little") + bytes(4),
        (32).to_bytes(4, "little") + data[:4] + bytes(4) + (1).to_bytes(4, "little"),
        (-1).to_bytes(4, "little", signed=True) + bytes(12),
    ]:
        buffers = [None, pyarrow.py_buffer(good + bad), pyarrow.py_buffer(data)]
        column = pyarrow.Array.from_buffers(pyarrow.string_view(), 2, buffers)
        assert gantry.digest_many("sha256", column[:1])[0] == hashlib.sha256(data).digest()
        with pytest.raises(ValueError, match="value 1"):
            gantry.digest_many("sha256", column)


class Capsules:
    """Exports the same capsules each time."""

    def __init__(self, array):
        self.capsules = array.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema=None):
        return self.capsules


def test_capsules_are_consumed_once():
    capsules = Capsules(pyarrow.array(["a"]))
    assert len(gantry.digest_many("sha256", capsules)) == 1
    with pytest.raises(ValueError, match="released or consumed"):
        gantry.digest_many("sha256", capsules)

    class Stream:
        stream = pyarrow.chunked_array([["a"]]).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.stream

    assert len(gantry.digest_many("sha256", Stream())) == 1
    with pytest.raises(ValueError, match="released or consumed"):
        gantry.digest_many("sha256", Stream())


def test_non_capsules_and_other_capsules_are_refused():
    schema, array = pyarrow.array(["a"]).__arrow_c_array__()
    for capsules in [(array, schema), (schema, schema), (None, None), (1, 2), schema]:
        wrong = Capsules(pyarrow.array(["a"]))
        wrong.capsules = capsules
        with pytest.raises((TypeError, ValueError)):
            gantry.digest_many("sha256", wrong)


def test_a_failing_stream_is_an_error_with_its_message():
    def batches():
        yield pyarrow.record_batch({"a": ["x"]})
        raise RuntimeError("the disk is on fire")

    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema({"a": pyarrow.string()}), batches())
    with pytest.raises(ValueError, match="the disk is on fire"):
        gantry.digest_many("sha256", reader)


RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ArrowArray(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ["length", "null_count", "offset", "n_buffers", "n_children"]),
        *((name, ctypes.c_void_p) for name in ["buffers", "children", "dictionary"]),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


def test_an_array_is_released_exactly_once():
    capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for column, good in [(pyarrow.array(VALUES), True), (strings([0, 5, 3], b"alicebob"), False), (pyarrow.array([1]), False)]:
        calls = []
        capsules = Capsules(column)
        array = ArrowArray.from_address(capsule_pointer(capsules.capsules[1], b"arrow_array"))
        original = RELEASE(array.release)

        def release(address, original=original, calls=calls):
            calls.append(address)
            original(address)

        counting = RELEASE(release)
        array.release = ctypes.cast(counting, ctypes.c_void_p)
        if good:
            gantry.digest_many("sha256", capsules)
        else:
            with pytest.raises((TypeError, ValueError)):
                gantry.digest_many("sha256", capsules)
        del capsules, array
        gc.collect()
        assert len(calls) == 1


def test_results_and_inputs_are_not_leaked():
    column = pyarrow.array([value for value in VALUES if value])
    before = pyarrow.total_allocated_bytes()

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def rounds(count):
        for _ in range(count):
            digests = gantry.digest_many("sha512", column, hex=True)
            pyarrow.array(digests)
            polars.Series(digests)
            digests.__arrow_c_array__()
            digests.__arrow_c_stream__()

    rounds(20)
    gc.collect()
    begin = resident()
    rounds(200)
    gc.collect()
    # One result has 320 kB; leaks would add up to 64 MB.
    assert resident() - begin < 24 << 20
    assert pyarrow.total_allocated_bytes() == before


def test_expressions_of_polars():
    import gantry_crypto.polars  # noqa: F401

    frame = polars.DataFrame({"email": VALUES})
    key = b"secret"
    expressions = polars.col("email").gantry
    made = frame.lazy().select(
        raw=expressions.sha256(), digits=expressions.sha256(hex=True), mac=expressions.hmac("sha1", key, hex=True),
        md5=expressions.md5(hex=True), sha1=expressions.sha1(hex=True), sha512=expressions.sha512(),
        sha3=expressions.sha3_256(), blake=expressions.blake2b_256(), any=expressions.digest("sha224", hex=True),
    ).collect()
    assert made["raw"].to_list() == DIGESTS and made["raw"].dtype == polars.Binary
    assert made["digits"].to_list() == DIGITS and made["digits"].dtype == polars.String
    assert made["mac"][0] == hmac.new(key, VALUES[0].encode(), "sha1").hexdigest()
    assert made["any"][0] == hashlib.sha224(VALUES[0].encode()).hexdigest()
    assert made["mac"][1] is None and made["blake"][1] is None
    grouped = frame.group_by("email").agg(polars.col("email").first().gantry.md5(hex=True).alias("id"))
    assert set(grouped["id"]) == set(made["md5"])
