"""hash_files."""

import hashlib
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import gantry_crypto as gantry
import pytest


def digests(path, algs):
    return {alg: hashlib.new(alg, pathlib.Path(os.fsdecode(path)).read_bytes()).hexdigest() for alg in algs}


@pytest.fixture
def tree(tmp_path):
    sizes = [0, 1, 4096, 65535, 65536, 65537, 1 << 20, 3, 200000] * 12
    paths = []
    for index, size in enumerate(sizes):
        path = tmp_path / f"{index:03}"
        path.write_bytes(index.to_bytes(4, "little") * (size // 4) + b"x" * (size % 4))
        paths.append(path)
    return paths


@pytest.mark.parametrize("path", ["/etc/passwd", b"/etc/passwd", pathlib.Path("/etc/passwd")])
def test_a_single_path_is_refused(path):
    with pytest.raises(TypeError, match="expected a list of paths, not a single .*; write \\[path\\]"):
        gantry.hash_files(path, "sha256")


def test_digests_come_in_the_order_of_the_paths_for_all_algorithms(tree):
    algs = ["sha256", "md5", "sha512"]
    results = list(gantry.hash_files(tree, algs))
    assert [result.path for result in results] == tree
    for result in results:
        assert (result.digests, result.error) == (digests(result.path, algs), None)
        assert result.size == result.path.stat().st_size
    assert list(results[0].digests) == algs


def test_paths_are_strings_bytes_and_path_likes(tree):
    given = [str(tree[3]), os.fsencode(tree[4]), tree[5]]
    results = list(gantry.hash_files(iter(given), "SHA1"))
    assert [result.path for result in results] == given
    assert [result.digests for result in results] == [digests(path, ["sha1"]) for path in given]


def test_an_unreadable_file_yields_an_error_among_the_others(tree, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    given = [tree[0], tmp_path / "missing", tmp_path, tmp_path / "fifo", "/dev/null", tree[1], tmp_path / "x\0y"]
    results = list(gantry.hash_files(given, "sha256"))
    assert [type(result.error) for result in results] == [
        type(None), FileNotFoundError, IsADirectoryError, OSError, OSError, type(None), OSError,
    ]
    assert results[1].error.filename == tmp_path / "missing" and results[1].digests == {} and results[1].size is None
    assert "Not a regular file" in str(results[3].error)
    assert results[5].digests == digests(tree[1], ["sha256"])
    assert isinstance(results[1], gantry.FileDigest)
    path, _, error, _ = results[1]
    assert path == given[1] and isinstance(error, FileNotFoundError), "a result can be unpacked"


def test_paths_are_taken_as_they_are_needed(tree):
    taken = 0

    def paths():
        nonlocal taken
        while True:
            taken += 1
            yield tree[taken % len(tree)]

    results = gantry.hash_files(paths(), "md5")
    for _ in range(5):
        next(results)
    assert taken < 2000


def test_an_error_of_the_paths_follows_the_earlier_files(tree):
    def paths():
        yield tree[0]
        yield tree[8]
        raise LookupError("no more")

    results = gantry.hash_files(paths(), "md5")
    assert [next(results).path, next(results).path] == [tree[0], tree[8]]
    with pytest.raises(LookupError, match="no more"):
        next(results)
    assert list(results) == []
    results = gantry.hash_files([tree[0], 5], "md5")
    assert next(results).error is None
    with pytest.raises(TypeError):
        next(results)


def test_ctrl_c_in_the_paths_is_raised_at_once(tmp_path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(1 << 40)

    def paths():
        yield path
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(gantry.hash_files(paths(), "md5"))


def test_missing_and_duplicate_algorithms_are_refused():
    for algs in [[], ["md5", "MD5"], "sha257", ["md5", "sha257"]]:
        with pytest.raises(ValueError):
            gantry.hash_files([], algs)
    with pytest.raises(TypeError):
        gantry.hash_files(5, "md5")
    assert list(gantry.hash_files([], "md5")) == []


def test_a_shrunk_file_is_hashed_up_to_its_end(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))

    def paths():
        yield path
        # The file is open, but nothing has been read.
        os.truncate(path, 1000)

    [result] = gantry.hash_files(paths(), "md5")
    assert (result.size, result.digests) == (1000, {"md5": hashlib.md5(b"x" * 1000).hexdigest()})


def test_few_descriptors_are_enough(tree):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, hard))
    try:
        results = list(gantry.hash_files(tree, "sha256"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [result.digests for result in results] == [digests(path, ["sha256"]) for path in tree]


def test_ctrl_c_ends_it_at_once(tmp_path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    # A shell ignores the signal in background processes.
    program = (
        "import signal, sys, gantry_crypto as g; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('begin', flush=True); list(g.hash_files([sys.argv[1]] * 3, 'md5'))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"begin\n"
        time.sleep(0.3)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert b"KeyboardInterrupt" in errors
    # A TiB takes an hour; a busy machine may take a while to schedule the process.
    assert time.monotonic() - begin < 20


def test_an_iterator_is_used_by_one_at_a_time(tree):
    results = None

    def paths():
        yield tree[0]
        next(results)

    results = gantry.hash_files(paths(), "md5")
    assert next(results).path == tree[0]
    with pytest.raises(RuntimeError, match="in use"):
        next(results)


def test_a_child_goes_on_with_an_iterator_without_moving_the_parents(tree):
    results = gantry.hash_files(tree, "sha256")
    expected = [digests(path, ["sha256"]) for path in tree]
    assert next(results).digests == expected[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if [result.digests for result in results] == expected[1:] else 1)
    assert [result.digests for result in results] == expected[1:]
    assert os.waitpid(child, 0)[1] == 0


def test_descriptors_are_closed(tree):
    before = len(os.listdir("/proc/self/fd"))
    results = gantry.hash_files(tree, "md5")
    next(results)
    del results
    list(gantry.hash_files(tree, "md5"))
    assert len(os.listdir("/proc/self/fd")) == before
