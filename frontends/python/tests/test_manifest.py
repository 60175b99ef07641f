"""gantry_crypto.manifest over trees of files: plans, hashing, shards, comparisons, and the command."""

import hashlib
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading
import time

import gantry_crypto
import pytest

pa = pytest.importorskip("pyarrow")
from gantry_crypto import manifest  # noqa: E402
from gantry_crypto.manifest import hashing, local, shards, sums  # noqa: E402

SIZES = [0, 1, 4096, 65535, 65536, 65537, 1 << 20, 3, 200_000, 1_000_001]


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for index, size in enumerate(SIZES * 9):
        path = root / f"{index % 7}" / f"{index:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(index.to_bytes(4, "little") * (size // 4) + b"x" * (size % 4))
    return root


def digests(root, alg="sha256"):
    return {str(path): hashlib.new(alg, path.read_bytes()).hexdigest() for path in root.rglob("*") if path.is_file()}


def found(results, alg="sha256"):
    return dict(zip(results["path"].to_pylist(), results[alg].to_pylist()))


def errors(results):
    return {pathlib.Path(row["path"]).name: row["error"] for row in results.to_pylist() if row["error"]}


def command(*arguments, **options):
    arguments = [sys.executable, "-m", "gantry_crypto.manifest", *map(str, arguments)]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, **options)


def test_a_plan_has_every_regular_file_and_the_largest_first(tree):
    os.mkfifo(tree / "fifo")
    (tree / "link").symlink_to(tree / "0")
    rows = manifest.plan(tree)
    assert rows.schema == manifest.SCHEMA
    assert set(rows["path"].to_pylist()) == set(digests(tree))
    sizes = rows["size"].to_pylist()
    assert sizes == sorted(sizes, reverse=True) and sizes.count(1 << 20) == 9
    assert manifest.plan(os.path.relpath(tree)) == rows
    with pytest.raises(FileNotFoundError, match="nowhere"):
        manifest.plan(tree / "nowhere")


def test_folders_that_vanish_while_they_are_listed_are_omitted(tree, monkeypatch):
    inner, listed = os.scandir, []

    def scandir(path):
        if path != str(tree) and not listed:
            listed.append(path)
            for other in [str(each) for each in tree.iterdir() if str(each) != path]:
                subprocess.run(["rm", "-r", other], check=True)
        return inner(path)

    monkeypatch.setattr(os, "scandir", scandir)
    paths = manifest.plan(tree)["path"].to_pylist()
    assert {os.path.dirname(path) for path in paths} == set(listed)


def test_batches_keep_the_order_and_hold_both_limits(tree):
    rows = manifest.plan(tree)
    parts = list(manifest.batches(rows, files=7, size=1 << 20))
    assert pa.concat_tables(parts) == rows
    assert all(part.num_rows <= 7 for part in parts) and parts[0].num_rows == 1
    # Only the batch is sent to a process.
    assert len(pickle.dumps(parts[0])) < len(pickle.dumps(rows)) / 4
    for limits in [{"files": 0}, {"size": 0}]:
        with pytest.raises(ValueError):
            next(manifest.batches(rows, **limits))


def test_a_batch_has_the_digests_of_hashlib_for_all_algorithms(tree):
    hasher = pickle.loads(pickle.dumps(manifest.Hasher(["sha256", "md5", "SHA3-256"])))
    results = hasher(manifest.plan(tree))
    for alg in ["sha256", "md5", "sha3_256"]:
        assert found(results, alg) == digests(tree, alg)
    assert errors(results) == {}
    batch = manifest.plan(tree).to_batches()[0]
    assert isinstance(hasher(batch), pa.RecordBatch) and found(pa.Table.from_batches([hasher(batch)])) == digests(tree)


def test_non_batches_and_missing_or_duplicate_algorithms_are_refused(tree):
    for algs in [[], ["md5", "MD5"], "sha257", ["s3_etag", "s3_etag"]]:
        with pytest.raises(ValueError):
            manifest.Hasher(algs)
    with pytest.raises(TypeError, match="pyarrow"):
        manifest.Hasher()({"path": ["x"]})
    with pytest.raises(TypeError, match="'etag'"):
        manifest.Hasher()(manifest.plan(tree).drop_columns(["etag"]))


def test_no_more_than_32_files_are_open_and_64_kib_of_each_in_memory(tree, monkeypatch):
    before, most, pieces = len(os.listdir("/proc/self/fd")), [], []
    inner = gantry_crypto._core.update_many

    def update_many(messages, given):
        most.append(len(os.listdir("/proc/self/fd")))
        pieces.append(max(map(len, given)))
        inner(messages, given)

    monkeypatch.setattr(hashing._core, "update_many", update_many)
    manifest.Hasher()(manifest.plan(tree))
    assert before < max(most) <= before + 33 and max(pieces) <= 64 << 10
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_unreadable_file_is_a_row_with_an_error(tree):
    rows = manifest.plan(tree)
    names = [pathlib.Path(path) for path in rows["path"].to_pylist()]
    gone, shrunk, folder, fifo, touched, swapped = names[:6]
    gone.unlink()
    os.truncate(shrunk, 10)
    folder.unlink()
    folder.mkdir()
    fifo.unlink()
    os.mkfifo(fifo)
    os.utime(touched, ns=(1, 1))
    swapped.unlink()
    swapped.symlink_to("/dev/zero")
    unreadable = names[6]
    if os.geteuid() == 0:
        unreadable.unlink()
        unreadable.symlink_to(unreadable)
    else:
        unreadable.chmod(0)
    results = manifest.Hasher(["sha256", "md5"])(rows)
    said = errors(results)
    assert set(said) == {path.name for path in names[:7]}
    for path, words in [
        (gone, "No such file"), (shrunk, "changed since it was planned: 10 bytes"), (folder, "not a regular file"), (fifo, "not a regular file"),
        (touched, "changed since"), (swapped, "not a regular file"), (unreadable, str(unreadable)),
    ]:
        assert words in said[path.name]
    assert found(results.filter(pa.compute.is_null(results["error"]))) == {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in names[7:]}
    assert all(row["sha256"] is None and row["md5"] is None for row in results.to_pylist() if row["error"])


def test_a_file_that_changes_while_it_is_read_has_no_digest(tree, monkeypatch):
    rows = manifest.plan(tree)
    shrinks, grows = rows["path"][0].as_py(), rows["path"][1].as_py()
    inner, once = gantry_crypto._core.update_many, []

    def update_many(messages, given):
        if not once:
            once.append(os.truncate(shrinks, 100_000))
            with open(grows, "ab") as file:
                file.write(b"more")
        inner(messages, given)

    monkeypatch.setattr(hashing._core, "update_many", update_many)
    said = errors(manifest.Hasher()(rows))
    assert set(said) == {os.path.basename(shrinks), os.path.basename(grows)}
    assert "100000 bytes, planned 1048576" in said[os.path.basename(shrinks)]


def test_names_with_line_ends_and_without_utf_8_are_hashed_and_printed(tmp_path):
    names = [b"s3:", b"caf\xe9", "café".encode(), b"two\nlines", b"back\\slash", b" 100% "]
    root = tmp_path / "names"
    root.mkdir()
    for name in names:
        (root / os.fsdecode(name)).write_bytes(name)
    # A folder whose name ends like a scheme, and a file in it.
    (root / "s3:").unlink()
    (root / "s3:").mkdir()
    (root / "s3:/file").write_bytes(b"file")
    names[0] = b"s3:/file"
    assert command("hash", root, tmp_path / "out").returncode == 0
    listed = subprocess.run([sys.executable, "-m", "gantry_crypto.manifest", "sums", tmp_path / "out", "--under", root], capture_output=True, check=True)
    expected = subprocess.run([b"sha256sum", b"--", *sorted(names)], cwd=root, capture_output=True, check=True, env=os.environ | {"LC_ALL": "C"})
    assert listed.stdout == expected.stdout
    (tmp_path / "list").write_bytes(listed.stdout)
    assert command("verify", tmp_path / "out", "--sums", tmp_path / "list", "--under", root).stdout == "6 ok\n"


def test_a_restarted_job_hashes_only_missing_files(tree, tmp_path):
    out, rows = str(tmp_path / "out"), manifest.plan(tree)
    assert manifest.read(out).num_rows == 0 and manifest.missing(rows, out) == rows
    for batch in list(manifest.batches(rows, files=10))[:4]:
        manifest.Hasher("sha256", out)(batch)
    assert manifest.missing(rows, out) == rows.slice(40)
    # Another time of change, another size, a new file, a deleted one, and an unreadable one.
    changed, longer, less, failed = (pathlib.Path(path) for path in rows["path"].to_pylist()[:4])
    os.utime(changed, ns=(5, 5))
    longer.write_bytes(b"longer" * 1_000_000)
    (tree / "more").write_bytes(b"more")
    less.unlink()
    failed.unlink()
    failed.symlink_to(failed)
    row = rows.slice(3, 1)
    manifest.Hasher("sha256", out)(manifest.plan(tree).slice(0, 0))
    again = manifest.missing(manifest.plan(tree), out)["path"].to_pylist()
    assert set(again) == {str(changed), str(longer), str(tree / "more"), *rows["path"].to_pylist()[40:]}
    assert manifest.missing(rows, out, ["sha256", "md5"]) == rows
    assert manifest.missing(rows, out, "SHA256") == manifest.missing(rows, out)
    with pytest.raises(ValueError):
        manifest.missing(rows, out, "sha257")
    manifest.Hasher("md5", out)(row)
    assert str(failed) in manifest.missing(row, out, "md5")["path"].to_pylist()
    # The other algorithm failed; the earlier digest is still there.
    [kept] = [each for each in manifest.read(out).to_pylist() if each["path"] == str(failed)]
    assert kept["sha256"] is not None and kept["error"] is None


def test_a_result_replaces_an_error_and_the_newer_file_the_older(tree, tmp_path):
    out, path = str(tmp_path / "out"), tree / "file"
    path.write_bytes(b"old")
    os.utime(path, ns=(10**18, 10**18))
    rows = manifest.plan(tree)
    path.rename(tree / "away")
    manifest.Hasher("sha256", out)(rows)
    assert list(errors(manifest.read(out))) == ["file"]
    (tree / "away").rename(path)
    manifest.Hasher("sha256", out)(manifest.missing(rows, out))
    assert errors(manifest.read(out)) == {} and found(manifest.read(out)) == digests(tree)
    path.write_bytes(b"newer")
    manifest.Hasher("sha256", out)(manifest.missing(manifest.plan(tree), out))
    assert found(manifest.read(out)) == digests(tree)


def test_damaged_and_disagreeing_shards_are_errors_and_partial_ones_are_ignored(tree, tmp_path):
    out = tmp_path / "out"
    results = manifest.Hasher("sha256", str(out))(manifest.plan(tree))
    [shard] = out.iterdir()
    (out / ".half.tmp").write_bytes(shard.read_bytes()[:100])
    assert manifest.read(out).num_rows == 90
    (out / "bad.parquet").write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(ValueError, match="bad.parquet is a damaged shard"):
        manifest.read(out)
    shards.write_file(str(out / "bad.parquet"), manifest.plan(tree))
    with pytest.raises(ValueError, match="bad.parquet has no columns of results"):
        manifest.read(out)
    (out / "bad.parquet").unlink()
    other = results.set_column(results.schema.get_field_index("sha256"), "sha256", pa.array(["0" * 64] * 90))
    shards.write_file(str(out / "other.parquet"), other)
    with pytest.raises(ValueError, match="two values of sha256 for '/"):
        manifest.read(out)


def test_a_full_disk_is_an_error_with_the_path_and_leaves_no_shard(tree, tmp_path):
    out = tmp_path / "full"
    out.mkdir()
    if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no name space of mounts (unshare --map-root-user --mount)")
    program = (
        "mount -t tmpfs -o size=16k tmpfs $1 && head -c 16k /dev/zero > $1/other || exit; "
        "$0 -m gantry_crypto.manifest hash $2 $1 --processes 1; echo status $?; find $1 -type f"
    )
    arguments = ["unshare", "--map-root-user", "--mount", "sh", "-c", program, sys.executable, out, tree]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] == ["status 3", str(out / "other")]
    assert "No space left on device" in done.stderr and f"{out}/" in done.stderr and "Traceback" not in done.stderr


def test_lists_of_other_programs_are_compared(tree, tmp_path):
    out = str(tmp_path / "out")
    manifest.Hasher(["sha256", "md5"], out)(manifest.plan(tree))
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
    for arguments in [["sha256sum"], ["md5sum"], ["sha256sum", "--tag"], ["md5sum", "--binary"]]:
        (tree / "LIST").write_bytes(subprocess.run([*arguments, *names], cwd=tree, capture_output=True, check=True).stdout)
        assert {finding.status for finding in manifest.verify_sums(manifest.read(out), tree / "LIST")} == {"ok"}
    lines = (tree / "LIST").read_text().splitlines()
    lines[0] = "0" * 32 + lines[0][32:]
    lines.append("0" * 32 + "  nowhere")
    lines.append("0" * 40 + "  " + names[1])
    (tree / "LIST").write_text("\n".join(lines))
    problems = [finding for finding in manifest.verify_sums(manifest.read(out), tree / "LIST") if finding.status != "ok"]
    assert [(finding.path, finding.status) for finding in problems] == [
        (str(tree / names[0]), "changed"), (str(tree / "nowhere"), "missing"), (str(tree / names[1]), "unknown"),
    ]
    done = command("verify", out, "--sums", tree / "LIST")
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "1 changed, 1 missing, 89 ok, 1 unknown"
    for line in ["no list", "0" * 31 + "  name", "SHA257 (x) = 00"]:
        (tree / "LIST").write_text(f"{lines[1]}\n{line}\n")
        with pytest.raises(ValueError, match="LIST:2"):
            list(manifest.verify_sums(manifest.read(out), tree / "LIST"))


def test_lists_of_any_bytes_are_read_or_refused(tmp_path):
    source, path = random.Random(7), tmp_path / "manifest-md5.txt"
    parts = [b"0" * 32, b"f" * 64, b"  ", b" *", b"SHA256 (", b") = ", b"\\", b"\\n", b"name", b"%0A", b"%", b"\xff", b"\n", b"\r", b"\0", b"#", b"\t"]
    for _ in range(2000):
        path.write_bytes(b"".join(source.choices(parts, k=source.randrange(12))))
        for lines in [sums.read_list(str(path)), sums.read_bag(str(tmp_path))]:
            try:
                assert all(digits and name and gantry_crypto.new(alg) for alg, digits, name in lines)
            except ValueError as error:
                assert "manifest-md5.txt:" in str(error)


def test_a_bag_is_compared_both_ways(tmp_path):
    data, out = tmp_path / "bag/data", str(tmp_path / "out")
    data.mkdir(parents=True)
    contents = {"one": b"one", "two%lines\n": b"two", "sub three": b"three"}
    lines = []
    for name, content in contents.items():
        (data / name).write_bytes(content)
        encoded = name.replace("%", "%25").replace("\n", "%0A")
        lines.append(f"{hashlib.sha512(content).hexdigest()}  data/{encoded}\n")
    with pytest.raises(ValueError, match="no manifest"):
        list(manifest.verify_bag(manifest.read(out), tmp_path / "bag"))
    (tmp_path / "bag/manifest-sha512.txt").write_text("".join(lines))
    assert command("hash", data, out, "-a", "sha512").returncode == 0
    assert command("verify", out, "--bag", tmp_path / "bag").stdout == "3 ok\n"
    (data / "four").write_bytes(b"four")
    (data / "one").write_bytes(b"other")
    command("hash", data, out, "-a", "sha512")
    done = command("verify", out, "--bag", tmp_path / "bag")
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "1 changed, 1 new, 2 ok"


def test_a_killed_process_only_loses_its_batches(tree, tmp_path):
    out = str(tmp_path / "out")
    big = tree / "big"
    with open(big, "wb") as file:
        file.truncate(1 << 40)
    rows = manifest.plan(tree)

    def end():
        # The file of a TiB comes first and never ends; the other process hashes all others meanwhile.
        while manifest.missing(rows, out).num_rows > 1:
            time.sleep(0.1)
        for each in os.listdir("/proc"):
            try:
                if each.isdigit() and str(big) in map(os.readlink, (f"/proc/{each}/fd/{fd}" for fd in os.listdir(f"/proc/{each}/fd"))):
                    os.kill(int(each), signal.SIGKILL)
            except OSError:
                pass

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    done = command("hash", tree, out, "--processes", 2)
    thread.join()
    assert done.returncode == 3 and "start again" in done.stderr and "Traceback" not in done.stderr
    assert manifest.missing(rows, out)["path"].to_pylist() == [str(big)]
    big.unlink()
    assert "0 files hashed" in command("hash", tree, out).stdout
    names = [os.path.relpath(path, tree) for path in digests(tree)]
    expected = subprocess.run(["sha256sum", *sorted(names)], cwd=tree, capture_output=True, text=True, check=True).stdout
    shown = command("sums", out, "--under", tree).stdout.splitlines(keepends=True)
    assert "".join(shown) == expected


def test_few_files_are_work_for_all_processes(tree):
    parts = list(manifest.batches(manifest.plan(tree), **local._limits(manifest.plan(tree), 4)))
    assert len(parts) >= 16
    assert local._limits(manifest.plan(tree).slice(0, 0), 4) == {"files": 1, "size": 1}


def test_the_command_reports_mistakes(tree, tmp_path):
    for arguments, status, words in [
        (["hash", tmp_path / "nowhere", tmp_path / "out"], 3, "nowhere"),
        (["hash", tree, tmp_path / "out", "-a", "sha257"], 3, "sha257"),
        (["hash", tree, tmp_path / "out", "--processes", "0"], 2, "less than 1"),
        (["verify", tmp_path / "out"], 2, "--sums"),
        (["sums", tmp_path / "out", "-a", "path"], 3, "nothing was hashed"),
        (["hash", "foo://bucket", tmp_path / "out"], 3, "foo"),
        (["hash", tree / "0/000", tmp_path / "out"], 3, "000 is not a plan"),
        ([], 2, "COMMAND"),
    ]:
        done = command(*arguments)
        assert done.returncode == status and words in done.stderr and "Traceback" not in done.stderr, arguments
    assert command("plan", tree, tmp_path / "plan.parquet").stdout == "90 files, {} bytes\n".format(9 * sum(SIZES))
    assert command("hash", tmp_path / "plan.parquet", tmp_path / "out").returncode == 0
    (tree / "0/000").unlink()
    (tree / "0/007").write_bytes(b"other")
    done = command("hash", tmp_path / "plan.parquet", tmp_path / "out2")
    assert done.returncode == 1 and "88 files hashed" in done.stdout and "2 errors" in done.stdout
    done = command("sums", tmp_path / "out2")
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 88 and "000: [Errno 2]" in done.stderr


def test_importing_the_package_does_not_import_the_manifest_or_its_dependencies():
    program = "import gantry_crypto, sys; print([name for name in sys.modules if name.split('.')[0] in ('pyarrow', 'obstore') or 'manifest' in name])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"
    program = "import sys; sys.modules['pyarrow'] = None; import gantry_crypto.manifest"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'gantry-crypto[manifest]'" in done.stderr.splitlines()[-1]
