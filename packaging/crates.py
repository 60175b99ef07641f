"""The crates that a program is made of, as `cargo auditable` wrote them into it, and what cargo knows about them."""

import json
import subprocess
import tempfile
import tomllib
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def inside(program):
    """The list in the section .dep-v0: name, version, source, kind ("build", or nothing), and dependencies as places in the list."""
    with tempfile.NamedTemporaryFile() as section:
        command = ["objcopy", "-O", "binary", "--only-section=.dep-v0", "--set-section-flags", ".dep-v0=alloc", program, section.name]
        subprocess.run(command, check=True)
        return json.loads(zlib.decompress(Path(section.name).read_bytes()))["packages"]


def known():
    """What cargo knows, by name and version."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    return {(package["name"], package["version"]): package for package in json.loads(output)["packages"]}


def checksums():
    """SHA-256 of each crate as the registry has it, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
