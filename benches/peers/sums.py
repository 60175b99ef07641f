"""`gantry sum` against coreutils, uutils and `openssl dgst`: many files, one large file, many small files."""

import os
from pathlib import Path

import measure

# Gantry's name, that of `openssl dgst`, and the program of coreutils.
ALGORITHMS = [
    ("md5", "md5", "md5sum"),
    ("sha1", "sha1", "sha1sum"),
    ("sha256", "sha256", "sha256sum"),
    ("sha512", "sha512", "sha512sum"),
    ("blake2b-512", "blake2b512", "b2sum"),
]
MIB = 1 << 20
# The newest releases, from Debian's unstable release: package, version. Both hash with its OpenSSL, except MD5 and BLAKE2b.
COREUTILS, UUTILS = "coreutils 9.10", "uutils 0.12"
NEWEST = {COREUTILS: ("coreutils", "9.10-"), UUTILS: ("rust-coreutils", "0.12.")}
LIBRARIES = ["libc6", "libcap2", "libgcc-s1", "libpcre2-8-0", "libselinux1", "libssl3t64", "libsystemd0", "libzstd1", "zlib1g"]


def newest():
    """The folder with the newest releases; the versions in it are those that the tables name."""
    fetch = [measure.ROOT / "scripts/debian-packages", "sums", "sid", *(package for package, _ in NEWEST.values()), *LIBRARIES]
    folder = Path(measure.output(fetch).strip())
    measure.remember(*fetch)
    fetched = dict(line.split() for line in (folder / "versions").read_text().splitlines())
    for name, (package, version) in NEWEST.items():
        if not fetched[package].startswith(version):
            raise SystemExit(f"bench: {package} is {fetched[package]}, and benches/peers/sums.py calls it {name}")
    return folder


def write_files(folder, count, size):
    """Writes `count` files of `size` different bytes, so that they are in the page cache."""
    folder.mkdir()
    for number in range(count):
        with open(folder / f"{number:05}", "wb") as file:
            for _ in range(0, size, MIB):
                file.write(os.urandom(min(size, MIB)))
    return sorted(path.name for path in folder.iterdir())


def compare(folder, names, algorithm, count, peers):
    """Rounds of all contenders over the files, after one run of each whose digests must agree."""
    commands = {"gantry": [measure.GANTRY, "sum", "-a", algorithm, *names]} | {name: [*peer, *names] for name, peer in peers.items()}
    digests = {
        name: [line.split()[0].lstrip("\\") for line in measure.output(command, cwd=folder).splitlines()]
        for name, command in commands.items()
    }
    if any(other != digests["gantry"] for other in digests.values()):
        raise SystemExit(f"bench: the {algorithm} digests of {', '.join(commands)} differ")

    contenders = {
        name: lambda command=command: measure.timed(command, cwd=folder) for name, command in commands.items()
    }
    return measure.rounds(count, contenders)


def sums(work):
    """Returns the raw rounds, and a table for each of the three loads."""
    raw, tables = [], {}
    folder_of_newest = newest()
    run, binaries = folder_of_newest / "run", folder_of_newest / "usr/bin"
    loads = [
        # title, files, bytes of each, rounds, whether coreutils of this machine takes part
        ("256 files of 4 MiB", 256, 4 * MIB, 3, True),
        ("one file of 2 GiB", 1, 2048 * MIB, 3, False),
        ("100,000 files of 1 KiB", 100_000, 1024, 3, True),
    ]
    for contender in ("gantry sum -a ALGORITHM FILE...", "openssl dgst -ALGORITHM -r FILE...", "ALGORITHMsum FILE..."):
        measure.remember(contender)
    measure.remember("sums/run sums/usr/bin/ALGORITHMsum FILE...")
    measure.remember("sums/run sums/usr/bin/coreutils ALGORITHMsum FILE...")
    for number, (title, files, size, count, with_coreutils) in enumerate(loads):
        folder = work / f"files{number}"
        names = write_files(folder, files, size)
        table = tables[title] = []
        for algorithm, openssls, program in ALGORITHMS:
            peers = {
                "coreutils": [program],
                COREUTILS: [run, binaries / program],
                UUTILS: [run, binaries / "coreutils", program],
                "openssl": ["openssl", "dgst", f"-{openssls}", "-r"],
            }
            if not with_coreutils:
                del peers["coreutils"]
            results = compare(folder, names, algorithm, count, peers)
            raw.append({"load": title, "algorithm": algorithm, "rounds": results})
            line = [algorithm]
            for name in ("gantry", "coreutils", COREUTILS, UUTILS, "openssl"):
                if name in results[0]:
                    wall, cpu = (measure.median(results, name, key) for key in ("wall_s", "cpu_s"))
                    line.append(f"{wall:.3f} ({cpu:.3f})")
                else:
                    line.append("-")
            for name in ("coreutils", COREUTILS, UUTILS, "openssl"):
                if name in results[0]:
                    wall, cpu = (measure.ratio(results, name, "gantry", key) for key in ("wall_s", "cpu_s"))
                    line.append(f"{wall:.2f} ({cpu:.2f})")
                else:
                    line.append("-")
            table.append(line)
        for name in names:
            (folder / name).unlink()
    return raw, tables
