"""The package in processes: costs of importing, threads, fork, multiprocessing."""

import ast
import hashlib
import inspect
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
    gantry.seal_many("aes-128-gcm", bytes(16), [index.to_bytes(12, "big") for index in range(50)], [b"text"] * 50)
    return gantry.digest_many("sha256", values).to_list() == digests


def test_no_thread_is_left_behind():
    # An emulator has threads of its own.
    program = (
        "import os; before = len(os.listdir('/proc/self/task'))\n"
        "import gantry_crypto as g\n"
        "g.seal_many('aes-128-gcm', bytes(16), [n.to_bytes(12, 'big') for n in range(50)], [b''] * 50)\n"
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


def test_a_child_forked_while_threads_hash_can_hash():
    stop = threading.Event()

    def work():
        # Without the GIL, comparing locks a list. In the child, a lock held by another thread of the parent would stay locked.
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


def test_importing_does_not_enable_the_gil():
    program = "import gantry_crypto, sys; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    has_gil = not sysconfig.get_config_var("Py_GIL_DISABLED")
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == f"{has_gil}\n"


def test_importing_imports_no_other_package():
    program = "import gantry_crypto, sys; print([name for name in ['polars', 'pyarrow', 'numpy', 'pandas', 'typing'] if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"


def test_help_is_the_documentation_of_the_stub():
    stub = ast.parse((pathlib.Path(gantry.__file__).parent / "__init__.pyi").read_text())
    documented = [node for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)]
    documented = [node for node in documented if hasattr(gantry, node.name)]
    assert len(documented) >= 12
    for node in documented:
        assert inspect.getdoc(getattr(gantry, node.name)) == ast.get_docstring(node), node.name


def test_the_module_describes_itself_as_a_command():
    said = subprocess.run([sys.executable, "-m", "gantry_crypto"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"gantry_crypto {gantry.__version__}: ")
    for part in ["sha512_256", "aes-256-gcm", "aes-128-ctr", "python -m gantry_crypto.manifest --help"]:
        assert part in said


def test_mypy_knows_the_namespace_of_polars(tmp_path):
    pytest.importorskip("mypy")
    pytest.importorskip("polars")
    program = "import gantry_crypto.polars\nimport polars as pl\nreveal_type(pl.col('a').gantry.sha256(hex=True))\npl.col('a').gantry.nonsense()\n"
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "mypy.ini").write_text("[mypy]\nplugins = gantry_crypto.mypy_plugin\n")
    # The second run reads the cache of the first one.
    for _ in range(2):
        run = subprocess.run([sys.executable, "-m", "mypy", "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert 'Revealed type is "polars.expr.expr.Expr"' in run.stdout, run.stdout + run.stderr
        assert '"GantryExpressions" has no attribute "nonsense"' in run.stdout and "Found 1 error" in run.stdout, run.stdout


def test_the_stub_matches_the_package():
    folder = pathlib.Path(gantry.__file__).parent
    assert (folder / "py.typed").exists()
    stub = ast.parse((folder / "__init__.pyi").read_text())
    named = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    named |= {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names if alias.asname}
    named |= {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    # Types defined by the stub.
    named -= {"ArrowArrayExportable", "ArrowStreamExportable", "Values"}
    assert named == set(gantry.__all__)
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and hasattr(gantry, node.name):
            missing = {item.name for item in node.body if isinstance(item, ast.FunctionDef)} - set(dir(getattr(gantry, node.name)))
            assert missing == set(), node.name
