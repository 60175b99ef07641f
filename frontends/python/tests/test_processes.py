"""Processes around the package: what importing costs them, threads, fork, multiprocessing."""

import ast
import hashlib
import multiprocessing
import os
import pathlib
import subprocess
import sys
import sysconfig
import threading

import gantry_crypto as gantry
import pytest

VALUES = [str(index).encode() for index in range(5000)]
DIGESTS = [hashlib.sha256(value).digest() for value in VALUES]


def hashed(_=None, values=VALUES, digests=DIGESTS):
    gantry.seal_many("aes-128-gcm", bytes(16), [bytes(12)] * 50, [b"text"] * 50)
    return gantry.digest_many("sha256", values).to_list() == digests


def test_no_thread_is_left_behind():
    # An emulator has threads of its own.
    program = (
        "import os; before = len(os.listdir('/proc/self/task'))\n"
        "import gantry_crypto as g\n"
        "g.seal_many('aes-128-gcm', bytes(16), [bytes(12)] * 50, [b'']* 50)\n"
        "g.digest_many('md5', [b'a'] * 5000)\n"
        "list(g.hash_files(['/proc/self/maps'] * 50, 'md5'))\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"0\n"


def files(paths):
    return list(gantry.hash_files(paths, "md5"))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_hash_and_seal(method):
    assert hashed()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(hashed, range(4)) == [True] * 4
        [[here, missing]] = pool.map(files, [[__file__, "/missing"]])
        assert here.digests["md5"] == hashlib.md5(pathlib.Path(__file__).read_bytes()).hexdigest()
        assert isinstance(missing.error, FileNotFoundError)


def test_a_child_that_was_forked_while_threads_hash_goes_on():
    stop = threading.Event()

    def work():
        # Without the GIL, comparing locks a list, and the lock of a thread that the child does not have is never opened there.
        values, digests = VALUES.copy(), DIGESTS.copy()
        while not stop.is_set():
            hashed(None, values, digests)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if hashed() else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_importing_brings_back_no_gil():
    program = "import gantry_crypto, sys; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    has_gil = not sysconfig.get_config_var("Py_GIL_DISABLED")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == f"{has_gil}\n"


def test_importing_brings_in_no_other_package():
    program = "import gantry_crypto, sys; print([name for name in ['polars', 'pyarrow', 'numpy', 'pandas', 'typing'] if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"


def test_the_stub_names_what_the_package_has():
    folder = pathlib.Path(gantry.__file__).parent
    assert (folder / "py.typed").exists()
    stub = ast.parse((folder / "__init__.pyi").read_text())
    named = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    named |= {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names if alias.asname}
    named |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    # Types of the stub's own.
    named -= {"ArrowArrayExportable", "ArrowStreamExportable", "Values"}
    assert named == set(gantry.__all__)
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and hasattr(gantry, node.name):
            missing = {item.name for item in node.body if isinstance(item, ast.FunctionDef)} - set(dir(getattr(gantry, node.name)))
            assert missing == set(), node.name
