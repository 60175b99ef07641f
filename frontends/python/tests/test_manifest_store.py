"""gantry_crypto.manifest over an object store: moto's server on loopback, filled by awscli, and a failing store."""

import hashlib
import http.server
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("obstore")
from gantry_crypto import manifest  # noqa: E402
from gantry_crypto.manifest import etags, places  # noqa: E402

MIB = 1 << 20


def environment(monkeypatch, endpoint):
    """Returns the environment of a store at an address, for this process and its children."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    places.store.cache_clear()


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("moto.server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [sys.executable, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


@pytest.fixture
def bucket(server, monkeypatch, request):
    environment(monkeypatch, server)
    name = "b" + hashlib.md5(request.node.name.encode()).hexdigest()
    aws("s3", "mb", f"s3://{name}")
    return f"s3://{name}"


def aws(*arguments):
    pytest.importorskip("awscli")
    program = "from awscli.clidriver import main; import sys; sys.exit(main())"
    subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, timeout=300)


def command(*arguments):
    arguments = [sys.executable, "-m", "gantry_crypto.manifest", *map(str, arguments)]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300)


def put(bucket, key, content):
    import obstore

    obstore.put(places.store(bucket, 1), key, content)


def test_objects_uploaded_by_awscli_have_the_right_digests_and_etags(bucket, tmp_path, monkeypatch):
    contents = {"empty": b"", "one byte": b"1", "a/b#c%20?d+é": b"name" * 1000, "parts": os.urandom(20 * MIB + 1), "more": os.urandom(33 * MIB)}
    for key, content in contents.items():
        (tmp_path / "file").write_bytes(content)
        if key == "more":
            (tmp_path / "config").write_text("[default]\ns3 =\n  multipart_chunksize = 15MB\n")
            monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        aws("s3", "cp", "--quiet", tmp_path / "file", f"{bucket}/tree/{key}")
    put(bucket, "beside", b"not below the prefix")
    rows = manifest.plan(f"{bucket}/tree")
    assert rows["path"].to_pylist() == [f"{bucket}/tree/{key}" for key in sorted(contents, key=lambda key: (-len(contents[key]), key))]
    assert [etag.count("-") for etag in rows["etag"].to_pylist()] == [1, 1, 0, 0, 0]
    results = manifest.Hasher(["sha256", "s3_etag"])(rows)
    assert results["sha256"].to_pylist() == [hashlib.sha256(contents[path.split("/tree/")[1]]).hexdigest() for path in rows["path"].to_pylist()]
    assert [finding.status for finding in manifest.verify_etags(results)] == ["ok"] * 5


def test_wrong_and_unknown_etags_are_reported(bucket):
    put(bucket, "one", b"one")
    put(bucket, "two", b"two" * MIB * 3)
    results = manifest.Hasher("s3_etag")(manifest.plan(bucket)).to_pylist()
    for row, etag, status in zip(results, ['"' + "0" * 32 + '-2"', '"' + "0" * 32 + '"'], ["changed", "changed"]):
        row["etag"] = etag
        assert [finding.status for finding in manifest.verify_etags(pa.Table.from_pylist([row]))] == [status]
    for etag in ["", '"abc"', '"0x8DC5A"', "W/\"" + "0" * 32 + '"', '"' + "0" * 32 + '-0"', '"' + "0" * 32 + '-99999"', '"' + "g" * 32 + '"']:
        digest = etags.Etag(etag, 9 * MIB)
        for message, piece in digest.take(memoryview(b"x")):
            message.update(piece)
        row = {**results[0], "etag": etag, "s3_etag": digest.hexdigest()}
        assert [finding.status for finding in manifest.verify_etags(pa.Table.from_pylist([row], schema=pa.schema(
            [(name, pa.string()) for name in ["path", "etag", "s3_etag", "error"]]
        )))] == ["unknown"], etag
    with pytest.raises(ValueError, match="s3_etag"):
        list(manifest.verify_etags(manifest.Hasher("md5")(manifest.plan(bucket))))


def test_part_sizes_give_the_number_of_parts():
    for size in [1, MIB, 8 * MIB, 20 * MIB + 1, 5 << 30, (5 << 40) - 1]:
        for part in [5, 8, 15, 16, 64, 512]:
            count = -(-size // (part * MIB))
            tried = etags.part_sizes(count, size)
            assert len(tried) <= 28
            assert count == 1 or part * MIB in tried, (size, part)
            assert all(-(-size // each) == count for each in tried)


def test_results_may_be_in_the_store_and_a_job_continues_there(bucket):
    for index in range(20):
        put(bucket, f"tree/{index}", b"x" * index)
    assert "20 files hashed" in command("hash", f"{bucket}/tree", f"{bucket}/results", "--processes", "2").stdout
    again = command("hash", f"{bucket}/tree", f"{bucket}/results")
    assert "20 have results" in again.stdout and "0 files hashed" in again.stdout
    put(bucket, "tree/3", b"changed")
    assert "1 files hashed" in command("hash", f"{bucket}/tree", f"{bucket}/results").stdout
    lines = command("sums", f"{bucket}/results", "--under", f"{bucket}/tree").stdout.splitlines()
    assert len(lines) == 20 and f"{hashlib.sha256(b'changed').hexdigest()}  3" in lines


def test_objects_that_vanish_or_change_are_rows_with_errors(bucket):
    for key in ["gone", "changed", "stays"]:
        put(bucket, key, key.encode())
    rows = manifest.plan(bucket)
    import obstore

    obstore.delete(places.store(bucket, 1), "gone")
    put(bucket, "changed", b"CHANGED")
    said = {row["path"].rpartition("/")[2]: row["error"] for row in manifest.Hasher()(rows).to_pylist()}
    assert "404" in said["gone"] and said["changed"].startswith("changed since it was planned: 7 bytes and ETag") and said["stays"] is None


class Flaky(http.server.BaseHTTPRequestHandler):
    """A store with one S3 object, which fails as the server's attributes say."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        store = self.server
        store.ranges.append(self.headers.get("Range"))
        if store.refuse > 0:
            store.refuse -= 1
            self.answer(503, b"<Error><Code>SlowDown</Code></Error>")
            return
        begin = int((self.headers.get("Range") or "bytes=0-")[6:].split("-")[0])
        content = store.content[begin:]
        end = f"bytes {begin}-{len(store.content) - 1}/{len(store.content)}"
        self.answer(206 if begin else 200, content, {"Content-Range": end} if begin else {})

    def answer(self, status, content, headers={}):
        self.send_response(status)
        for name, value in {"ETag": '"e"', "Last-Modified": "Thu, 26 Nov 2026 00:00:00 GMT", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        store = self.server
        if status != 503 and store.breaks > 0:
            store.breaks -= 1
            content = content[: len(content) // 2]
            self.close_connection = True
        for begin in range(0, len(content), 100_000):
            self.wfile.write(content[begin : begin + 100_000])
            self.wfile.flush()
            time.sleep(store.pause)

    def log_message(self, *_):
        pass


@pytest.fixture
def flaky(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    server.content, server.refuse, server.breaks, server.pause, server.ranges = os.urandom(1_000_000), 0, 0, 0.0, []
    # A client that gives up closes the connection.
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    environment(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def hashed(server, retries):
    row = {"path": "s3://bucket/key", "size": len(server.content), "etag": '"e"', "mtime": 0}
    [result] = manifest.Hasher(retries=retries)(pa.Table.from_pylist([row], manifest.SCHEMA)).to_pylist()
    return result


def test_a_store_that_answers_503_is_retried_a_limited_number_of_times(flaky):
    flaky.refuse = 2
    assert hashed(flaky, 3)["sha256"] == hashlib.sha256(flaky.content).hexdigest()
    assert len(flaky.ranges) == 3
    flaky.refuse = 1000
    result = hashed(flaky, 2)
    assert result["sha256"] is None and "503" in result["error"] and "\n" not in result["error"]
    assert len(flaky.ranges) == 6


def test_an_interrupted_response_is_continued(flaky):
    flaky.pause, flaky.breaks = 0.05, 2
    assert hashed(flaky, 10)["sha256"] == hashlib.sha256(flaky.content).hexdigest()
    assert flaky.ranges[0] is None and len(flaky.ranges) >= 3 and all(flaky.ranges[1:])


def test_a_response_that_is_always_interrupted_is_an_error(flaky):
    # Each response has half of the rest, down to one byte, half of which is no byte.
    flaky.breaks = 1000
    result = hashed(flaky, 2)
    assert result["sha256"] is None and result["error"]


def test_a_store_that_stops_sending_is_given_up(flaky, monkeypatch):
    monkeypatch.setattr(places, "READ_TIMEOUT", places.timedelta(seconds=0.5))
    places.store.cache_clear()
    flaky.pause = 3
    begin = time.monotonic()
    result = hashed(flaky, 0)
    assert result["sha256"] is None and result["error"]
    assert time.monotonic() - begin < 30


def test_without_obstore_the_error_names_the_package_to_install():
    program = "import sys; sys.modules['obstore'] = None; from gantry_crypto import manifest; manifest.plan('s3://bucket/x')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'gantry-crypto[manifest]'" in done.stderr.splitlines()[-1]


def test_errors_contain_no_secrets_of_the_environment(flaky, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-very-secret-word")
    places.store.cache_clear()
    flaky.refuse = 1000
    assert "a-very-secret-word" not in str(hashed(flaky, 0)) + repr(places.store("s3://bucket", 0))
