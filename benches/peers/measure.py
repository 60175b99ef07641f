"""Paired measurement: contenders run in turn, so that a disturbance affects all of them.

A ratio is the median of the ratios inside each round, never a ratio of medians taken apart.
"""

import os
import statistics
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
GANTRY = TARGET / "release/gantry"
ONE_CORE = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]

# Every command that was measured, for the report.
commands = []


def remember(*command):
    """Notes a command for the report, once, with our own paths written short."""
    text = " ".join(str(word) for word in command)
    text = text.replace(f"{TARGET}/release/", "").replace(f"{ROOT}/", "").replace(f"{Path.home()}/", "~/")
    if text not in commands:
        commands.append(text)


def output(command, **options):
    """Returns the output of a command. Its failure ends the benchmark."""
    return subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **options
    ).stdout


def program(work, name, *library, suffix=""):
    """Builds a program of this folder against a library, and returns its path."""
    source, built = ROOT / f"benches/peers/{name}.c", work / (name + suffix)
    output(["cc", "-O2", "-o", built, source, *library])
    remember("cc -O2 -o", built.name, source, *library)
    return built


def timed(command, cwd=None, stdout=subprocess.DEVNULL, stderr=None):
    """Returns the wall and CPU seconds of a command, including its children."""
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], cwd=cwd, stdout=stdout, stderr=stderr)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bench: {command[0]} ended with status {process.returncode}")
    return {"wall_s": round(wall, 6), "cpu_s": round(usage.ru_utime + usage.ru_stime, 6)}


def rounds(count, contenders):
    """Runs `count` rounds of every contender (name: function without arguments), in reverse order every other time.
    Returns a list of {name: result}."""
    names = list(contenders)
    results = []
    for number in range(count):
        order = names if number % 2 == 0 else names[::-1]
        measured = {name: contenders[name]() for name in order}
        results.append({name: measured[name] for name in names})
    return results


def median(results, name, key):
    return statistics.median(result[name][key] for result in results)


def ratio(results, above, below, key):
    """Returns the median over the rounds of above / below."""
    return statistics.median(result[above][key] / result[below][key] for result in results)
