#!/usr/bin/env python3
"""`gantry sum` and `gantry verity` against bagit.py, `openssl dgst`, veritysetup and fsverity, in CPU time: a bag with two digests, the parts of
one file, and hash trees over it.

    benches/peers/integrity.py [FOLDER]      a folder with 2.1 GB free (/tmp)

Needs a release build. Contenders run in turn over files in the page cache, ours at two CPU levels. CPU time is that of user and system
together. bagit.py must be in PATH (`pip install bagit`).
"""

import os
import platform
import subprocess
import sys
import tempfile

import measure

MIB = 1 << 20
FILES, FILE_SIZE = 256, 4 * MIB
LARGE, PART = 1024 * MIB, 8 * MIB
LEVELS = ["avx512", "avx2"]
ROUNDS = 5


def rows(bag, large, tree):
    """Yields the cases: title, our arguments, and the command of the peer."""
    yield "bag, sha256 and sha512", ["sum", "audit", bag], ["bagit.py", "--validate", bag]
    yield "md5 of parts", ["sum", "--parts", str(PART), "-a", "md5", large], ["openssl", "dgst", "-md5", large]
    for name in ["sha256", "sha512"]:
        yield f"dm-verity, {name}", ["verity", "format", "--hash", name, large, tree], ["veritysetup", "format", "--hash", name, large, tree]
        option = f"--hash-alg={name}"
        yield f"fs-verity, {name}", ["verity", "digest", option, large], ["fsverity", "digest", option, large]


def compare(title, ours, theirs):
    """Measures a case and prints a line of the table: medians of seconds, and of the ratios inside each round."""
    contenders = {level: ["env", f"GANTRY_CPU={level}", measure.GANTRY, *ours] for level in LEVELS} | {"peer": theirs}
    run = lambda command: lambda: measure.timed(command, stderr=subprocess.DEVNULL)
    rounds = measure.rounds(ROUNDS, {name: run(command) for name, command in contenders.items()})
    cell = lambda level: f"{measure.median(rounds, level, 'cpu_s'):.2f} ({measure.ratio(rounds, 'peer', level, 'cpu_s'):.1f})"
    cells = [f"`{' '.join(theirs[:2])}` {measure.median(rounds, 'peer', 'cpu_s'):.2f}", *map(cell, LEVELS)]
    print(f"| {title} | {' | '.join(cells)} |", flush=True)


def main(folder):
    """Runs all comparisons, in a temporary folder."""
    model = next(line for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name"))
    print(f"{model.split(':')[1].strip()}, {os.cpu_count()} processors, Linux {platform.release()}")
    print(f"{FILES} files of {FILE_SIZE // MIB} MiB, and one of {LARGE // MIB} MiB; seconds of CPU time, medians of {ROUNDS} rounds (times as fast)\n")
    print(f"| | peer | {' | '.join(LEVELS)} |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=folder) as work:
        bag, large, tree = (os.path.join(work, name) for name in ["bag", "large", "tree"])
        os.mkdir(bag)
        for number in range(FILES):
            with open(os.path.join(bag, f"{number:03}"), "wb") as file:
                file.write(os.urandom(FILE_SIZE))
        subprocess.run(["bagit.py", "--quiet", "--sha256", "--sha512", bag], check=True)
        with open(large, "wb") as file:
            for _ in range(0, LARGE, FILE_SIZE):
                file.write(os.urandom(FILE_SIZE))
        for row in rows(bag, large, tree):
            compare(*row)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
