"""gantry_crypto.manifest in Ray Data, on one machine: a job is killed half-way, and a worker of the next one."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("ray")
from gantry_crypto import manifest  # noqa: E402

FILES, BATCH = 20_000, 500

# Each batch logs a line when it begins, and one when its shard is written. The job logs the last line itself, because Ray uses stdout.
JOB = """
import os, sys, time
import ray
from gantry_crypto import manifest

tree, out, log = sys.argv[1:]

class Logged(manifest.Hasher):
    def __call__(self, batch):
        self.say("begin", batch)
        time.sleep(0.1)
        results = super().__call__(batch)
        self.say("end", batch)
        return results

    def say(self, what, batch):
        with open(log, "a") as file:
            file.write(f"{what} {os.getpid()} {batch['path'][0]}\\n")

ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False)
rest = manifest.missing(manifest.plan(tree), out)
tables = ray.data.from_arrow(list(manifest.batches(rest, files=%d)))
pool = ray.data.ActorPoolStrategy(size=2)
options = {"algs": "sha256", "shards": out}
hashed = tables.map_batches(Logged, fn_constructor_kwargs=options, batch_format="pyarrow", batch_size=None, compute=pool)
rows = sum(batch.num_rows for batch in hashed.iter_batches(batch_size=None, batch_format="pyarrow"))
with open(log, "a") as file:
    file.write(f"rows {os.getpid()} {rows}\\n")
""" % BATCH


@pytest.fixture
def folder():
    # Ray's sockets are below this folder; their paths have at most 107 bytes.
    path = pathlib.Path(tempfile.mkdtemp(prefix="ray"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Log:
    def __init__(self, path):
        self.path = path

    def lines(self):
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def ended(self):
        return [name for what, _, name in self.lines() if what == "end"]

    def in_hand(self):
        """Batches that began and did not end, with the process."""
        hands = {}
        for what, process, name in self.lines():
            if what == "begin":
                hands[process] = name
            elif what == "end":
                hands.pop(process, None)
        return hands

    def wait(self, count, job):
        begin = time.monotonic()
        while len(self.ended()) < count:
            assert job.poll() is None and time.monotonic() - begin < 300, "the job goes on"
            time.sleep(0.02)


def test_a_killed_job_or_worker_only_loses_its_batches(folder):
    tree, out = folder / "tree", folder / "out"
    for index in range(FILES):
        path = tree / f"{index % 100}" / f"{index}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % index * (index % 300))
    environment = os.environ | {"RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    arguments = [sys.executable, "-c", JOB, tree, out]

    first = Log(folder / "first")
    job = subprocess.Popen([*arguments, first.path], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first.wait(10, job)
    job.send_signal(signal.SIGINT)
    job.wait(300)
    ended = first.ended()
    rest = manifest.missing(manifest.plan(tree), out).num_rows
    assert len(ended) < FILES // BATCH and 0 < rest <= FILES - BATCH * len(ended)

    second = Log(folder / "second")
    job = subprocess.Popen([*arguments, second.path], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    second.wait(5, job)
    while not (hands := second.in_hand()):
        time.sleep(0.01)
    process, lost = next(iter(hands.items()))
    os.kill(int(process), signal.SIGKILL)
    assert job.wait(600) == 0
    *batches, last = second.lines()
    assert (last[0], last[2]) == ("rows", str(rest))
    begun = [name for what, _, name in batches if what == "begin"]
    assert {name for name in begun if begun.count(name) > 1} <= {lost} and batches[-1][1] != process
    # No file with a result was hashed again.
    assert not set(ended) & set(begun)
    assert manifest.missing(manifest.plan(tree), out).num_rows == 0
    listed = subprocess.run([sys.executable, "-m", "gantry_crypto.manifest", "sums", out, "--under", tree], capture_output=True, check=True)
    assert listed.stdout.count(b"\n") == FILES
    (folder / "SHA256SUMS").write_bytes(listed.stdout)
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", folder / "SHA256SUMS"], cwd=tree, check=True)
