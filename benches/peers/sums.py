"""Measures `gantry sum` against coreutils and `openssl dgst`: many files, one large file, many small files."""

import os

import measure

ALGORITHMS = ["md5", "sha1", "sha256", "sha512"]
MIB = 1 << 20


def write_files(folder, count, size):
    """Writes `count` files of `size` different bytes, so that they are in the page cache."""
    folder.mkdir()
    for number in range(count):
        with open(folder / f"{number:05}", "wb") as file:
            for _ in range(0, size, MIB):
                file.write(os.urandom(min(size, MIB)))
    return sorted(path.name for path in folder.iterdir())


def compare(folder, names, algorithm, count, with_coreutils):
    """Runs rounds of all contenders over the files, after one run of each whose digests must agree."""
    commands = {
        "gantry": [measure.GANTRY, "sum", "-a", algorithm, *names],
        "openssl": ["openssl", "dgst", f"-{algorithm}", "-r", *names],
    }
    if with_coreutils:
        commands["coreutils"] = [f"{algorithm}sum", *names]
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
    loads = [
        # title, files, bytes of each, rounds, whether coreutils takes part
        ("256 files of 4 MiB", 256, 4 * MIB, 5, True),
        ("one file of 2 GiB", 1, 2048 * MIB, 5, False),
        ("100,000 files of 1 KiB", 100_000, 1024, 5, True),
    ]
    for contender in ("gantry sum -a ALGORITHM FILE...", "openssl dgst -ALGORITHM -r FILE...", "ALGORITHMsum FILE..."):
        measure.remember(contender)
    for number, (title, files, size, count, with_coreutils) in enumerate(loads):
        folder = work / f"files{number}"
        names = write_files(folder, files, size)
        table = tables[title] = []
        for algorithm in ALGORITHMS:
            results = compare(folder, names, algorithm, count, with_coreutils)
            raw.append({"load": title, "algorithm": algorithm, "rounds": results})
            line = [algorithm]
            for name in ("coreutils", "openssl", "gantry"):
                if name in results[0]:
                    wall, cpu = (measure.median(results, name, key) for key in ("wall_s", "cpu_s"))
                    line.append(f"{wall:.3f} ({cpu:.3f})")
                else:
                    line.append("-")
            line.append(f"{measure.ratio(results, 'coreutils', 'gantry', 'wall_s'):.1f}" if with_coreutils else "-")
            line.append(f"{measure.ratio(results, 'openssl', 'gantry', 'wall_s'):.2f}")
            table.append(line)
        for name in names:
            (folder / name).unlink()
    return raw, tables
