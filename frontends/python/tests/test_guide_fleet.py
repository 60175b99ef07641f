"""Every command and example of the guide about fleets prints the output in the guide."""

import doctest
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

for module in ["pyarrow", "obstore", "moto.server", "awscli", "ray"]:
    pytest.importorskip(module)
from test_manifest_store import aws, environment, server  # noqa: E402, F401

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/src/guide-fleet.md").read_text()


def shell(commands, special):
    """Runs the commands of a block and compares their output."""
    commands = commands.replace("head -c 1G", "head -c 32M")
    for command, expected in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", commands, re.MULTILINE):
        done = subprocess.run(["bash", "-c", f"{command} 2>&1" if "numbers vary" in special else command], capture_output=True, text=True)
        said = done.stdout
        if "numbers vary" in special:
            said, expected = (re.sub(r"\d+(\.\d+)?", "N", text) for text in (said, expected))
        assert (said, done.returncode) == (expected, 0), command + "\n" + done.stderr


@pytest.fixture
def ray():
    import ray

    # Ray's sockets are below this folder; their paths have at most 107 bytes.
    folder = tempfile.mkdtemp(prefix="ray")
    yield lambda: ray.init(
        num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False, logging_level="error", _temp_dir=folder
    )
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def test_commands_and_examples_of_the_guide_print_the_output_in_it(tmp_path, monkeypatch, server, ray):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    environment(monkeypatch, server)
    for name, value in {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}.items():
        monkeypatch.setenv(name, value)
    aws("s3", "mb", "s3://archive")
    # `python3` and `aws` are those of the test environment.
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "aws").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from awscli.clidriver import main; import sys; sys.exit(main())" "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    ray()
    names, count = {}, 0
    for match in re.finditer(r"^(?:<!-- ([^\n]*) -->\n)?```(console|pycon)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        special, language, text = match.groups("")
        line = PAGE[: match.start()].count("\n") + 1
        if special == "not run: needs wheels":
            continue
        if language == "console":
            shell(text, special)
        else:
            test = doctest.DocTestParser().get_doctest(text, names, f"guide-fleet.md:{line}", None, line)
            report = []
            doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
            assert report == [], "".join(report)
            names = test.globs
        count += 1
    assert count == 9


def test_the_simulation_prints_the_costs_in_the_guide():
    said = subprocess.run([sys.executable, ROOT / "benches/python/fleet.py"], capture_output=True, text=True, check=True).stdout
    last = said.splitlines()[-1].strip("| ").split(" | ")
    assert last[0] == "both", said
    static, largest_first = (round(100 * (float(ratio) - 1)) for ratio in (last[1], last[3]))
    page = " ".join(PAGE.split())
    assert f"{largest_first} % longer than the ideal; with a static split, {static} % longer" in page
