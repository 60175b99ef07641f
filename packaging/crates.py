"""Reads the list of crates that `cargo auditable` writes into a program, and cargo's metadata about them."""

import json
import subprocess
import tempfile
import tomllib
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def inside(program):
    """Returns the list in the section .dep-v0: name, version, source, kind ("build", or nothing), and dependencies as indices."""
    with tempfile.NamedTemporaryFile() as section:
        command = ["objcopy", "-O", "binary", "--only-section=.dep-v0", "--set-section-flags", ".dep-v0=alloc", program, section.name]
        subprocess.run(command, check=True)
        return json.loads(zlib.decompress(Path(section.name).read_bytes()))["packages"]


def known():
    """Returns cargo's metadata by name and version."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    return {(package["name"], package["version"]): package for package in json.loads(output)["packages"]}


def checksums():
    """Returns the registry's SHA-256 of each crate, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
