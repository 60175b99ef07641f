"""Code of scripts/openssl-suite and scripts/client-suite: gantry.so, its section in configurations, and the declared differences."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# This folder has a file for each suite.
DECLARED = ROOT / "frontends/openssl/tests/suite"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gantry"
NAMED = "CIPHERS = ALL\nSIGNATURES = ALL\nKEY_EXCHANGE = ALL\nKDFS = ALL\nDEVICES = lanes=on\n"
# The lines of the provider's section, for each run besides the one without gantry.
KINDS = {"named": NAMED, "pinned": NAMED + "POLICY = pin:software\n"}
# The lines of the section that openssl_conf names, except the one that leads to providers.
LEADS = "alg_section = gantry_algorithms\nrandom = gantry_random\n"
# The section of providers, if a configuration has none.
PROVIDERS = "[gantry_providers]\ndefault = gantry_default\ngantry = gantry_provider\n[gantry_default]\nactivate = 1\n"


def build_module(folder):
    """Builds gantry.so, and copies it to a place that no later build changes."""
    subprocess.run(["cargo", "build", "--locked", "--release", "-p", "gantry-openssl"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    module = folder / "gantry.so"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(target / "release/libgantry_openssl.so", module)
    return module


def sections(module, lines):
    """Returns the provider's section with these lines, and the sections that LEADS names."""
    return (
        f"\n[gantry_provider]\nmodule = {module}\nactivate = 1\n{lines}\n[gantry_algorithms]\n"
        "default_properties = ?provider=gantry,?gantry.serves=yes\n[gantry_random]\nproperties = ?provider=default,-gantry.serves\n"
    )


def read_declared(path):
    """Returns rows of kinds, recipe and test. A file has a line for each recipe, with the reason in the last column."""
    rows = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            kinds, recipe, tests, reason = line.split(maxsplit=3)
            assert reason, line
            rows += [(kinds.split(","), recipe, test) for test in tests.split(",")]
    return rows


def compare(program, kind, differs, expected):
    """Prints pairs of recipe and test that differ without a declaration, and declared pairs that do not differ. Returns their number."""
    for recipe, test in sorted(differs - expected):
        print(f"{program}: {kind}: {recipe} {test}: fails with gantry, but is not declared to")
    for recipe, test in sorted(expected - differs):
        print(f"{program}: {kind}: {recipe} {test}: is declared to fail with gantry, but does not")
    wrong = len(differs ^ expected)
    print(f"{program}: {kind}: {len(differs)} tests differ, {wrong} not as declared", flush=True)
    return wrong
