"""Measures throughput on one core: lanes against ipsec-mb, lanes and software against OpenSSL, and XTS against an OpenSSL that also
sets a tweak for each unit.

Figures are bytes per second of CPU time. One thread is always busy, so CPU time is wall time without
the time of other programs on the core.
"""

import itertools
import json
import os
from pathlib import Path

import measure

LANES = [
    "sha1", "sha256", "sha512", "hmac-md5", "hmac-sha1", "hmac-sha256", "aes-128-cmac", "aes-128-cbc", "aes-256-cbc",
    "aes-128-ctr", "aes-128-gcm", "aes-256-gcm", "aes-128-ccm", "aes-128-cbc-hmac-sha1", "aes-128-cbc-hmac-sha256",
    "aes-128-ctr-hmac-sha256",
]  # fmt: skip
# algorithm, device, requests handed over together
OPENSSL = [
    ("aes-256-xts", "lanes", 1),
    ("aes-256-xts", "lanes", 32),
    ("aes-256-xts", "software", 1),
    ("aes-256-xts", "software", 32),
    ("aes-128-xts", "lanes", 1),
    ("aes-128-xts", "lanes", 32),
    ("aes-128-gcm", "lanes", 1),
    ("aes-256-gcm", "lanes", 1),
    ("aes-128-gcm", "software", 1),
    ("aes-256-gcm", "software", 1),
]
# device, batch size
XTS = [("software", 1), ("software", 32), ("lanes", 1), ("lanes", 32)]
SIZES = [1024, 16384]
# Batch size, and alignment of the data in bytes: a cache line or a page.
LAYOUTS = [(16, 64), (32, 64), (64, 64), (32, 4096)]
ROUNDS = 7
SECONDS = "0.2"
# Fewer and shorter rounds for the lanes: they have many cells, each with about three contenders.
LANES_ROUNDS = 3
LANES_SECONDS = "0.1"


def only_row(rows, **wanted):
    """Returns the only row that has these values."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if len(found) != 1:
        raise SystemExit(f"bench: {len(found)} rows for {wanted}")
    return found[0]


def with_rate(row):
    """Returns the row with its MB per second of CPU time."""
    return row | {"mb_per_cpu_s": row["requests"] * row["bytes"] / row["cpu_s"] / 1e6}


def speed(algorithm, device, size, batch, seconds, *more, **options):
    """Returns the rows of `gantry speed` in the compared direction."""
    command = [
        *measure.ONE_CORE, measure.GANTRY, "speed", algorithm, "--device", device, "--bytes", size,
        "--batch", batch, "--seconds", seconds, *more, "--json",
    ]  # fmt: skip
    rows = json.loads(measure.output(command, **options))
    return [with_rate(row) for row in rows if row["operation"] in ("encrypt", "seal", "digest", "mac")]


def levels():
    """Returns the levels at which lanes are compared: the value of the key `cpu`, and ipsec-mb's name for it."""
    flags = Path("/proc/cpuinfo").read_text()
    found = [("avx512", "best")] if " avx512bw" in flags else []
    if " avx2" in flags:
        found.append(("vaes" if " vaes" in flags else "avx2", "avx2"))
    return found or [("base", "best")]


def ipsec_mb(work):
    """Programs with the installed library, and with the newest that Debian has."""
    fetch = [measure.ROOT / "scripts/debian-packages", "ipsec-mb", "sid", "libipsec-mb2", "libipsec-mb-dev", "libc6"]
    folder = Path(measure.output(fetch).strip())
    measure.remember(*fetch)
    newest = [f"-I{folder}/usr/include", next(folder.rglob("libIPSec_MB.a"))]
    return [measure.program(work, "ipsec_mb", "-lIPSec_MB"), measure.program(work, "ipsec_mb", *newest, suffix="_newest")]


def lanes(work):
    """Returns every round of every cell, and the lines of a table for each level and each release of ipsec-mb."""
    programs = ipsec_mb(work)
    measure.remember("taskset -c N ipsec_mb ALGORITHM BYTES BATCH", LANES_SECONDS, "ALIGNMENT LEVEL")
    measure.remember(
        "taskset -c N gantry speed ALGORITHM --device lanes --bytes BYTES --batch BATCH --alignment ALIGNMENT --set cpu=LEVEL --seconds", LANES_SECONDS, "--json"
    )
    raw, tables = [], {}
    for (level, peer_level), algorithm, size in itertools.product(levels(), LANES, SIZES):
        ratios, rates = {}, {}
        for batch, alignment in LAYOUTS:
            contenders = {
                str(program): lambda program=program: with_rate(
                    json.loads(
                        measure.output([*measure.ONE_CORE, program, algorithm, size, batch, LANES_SECONDS, alignment, peer_level])
                    )[0]
                )
                for program in programs
            }
            contenders["lanes"] = lambda: only_row(
                speed(algorithm, "lanes", size, batch, LANES_SECONDS, "--alignment", alignment, "--set", f"cpu={level}"), device="lanes"
            )
            results = measure.rounds(LANES_ROUNDS, contenders)
            raw += [row | {"alignment": alignment, "level": level} for result in results for row in result.values()]
            rates[batch, alignment] = measure.median(results, "lanes", "mb_per_cpu_s")
            for program in programs:
                peer = results[0][str(program)]["device"]
                ratio = measure.ratio(results, "lanes", str(program), "mb_per_cpu_s")
                ratios.setdefault(peer, []).append(f"{ratio:.2f}")
        for peer, cells in ratios.items():
            tables.setdefault(f"Level {level}, {peer}", []).append([algorithm, size, round(rates[32, 64]), *cells])
    return raw, tables


def openssl(_work):
    measure.remember(
        "taskset -c N gantry speed ALGORITHM --device DEVICE --bytes BYTES --batch BATCH --seconds 1",
        "--compare openssl --json",
    )
    raw, table = [], []
    for algorithm, device, batch in OPENSSL:
        for size in SIZES:
            results = []
            for _ in range(ROUNDS // 2 + 1):
                rows = speed(algorithm, device, size, batch, 1, "--compare", "openssl")
                results.append({name: only_row(rows, device=name) for name in ("openssl", device)})
            raw += [row for result in results for row in result.values()]
            table.append(
                [
                    algorithm,
                    size,
                    device,
                    batch,
                    round(measure.median(results, "openssl", "mb_per_cpu_s")),
                    round(measure.median(results, device, "mb_per_cpu_s")),
                    f"{measure.ratio(results, device, 'openssl', 'mb_per_cpu_s'):.2f}",
                ]
            )
    return raw, table


def releases(_work):
    """Returns this machine's OpenSSL, and later releases from Debian, each with the `PATH` that finds it first."""
    paths = {measure.output(["openssl", "version"]).split()[1]: os.environ["PATH"]}
    for series in ("3.5", "4.0"):
        program = Path(measure.output([measure.ROOT / "scripts/openssl-command", series]).strip())
        measure.remember("scripts/openssl-command", series)
        paths[measure.output([program, "version"]).split()[1]] = f"{program.parent}:{os.environ['PATH']}"
    measure.remember(
        "PATH=FOLDER:$PATH taskset -c N gantry speed ALGORITHM --device DEVICE --bytes BYTES --batch BATCH --seconds", SECONDS, "--compare openssl --json"
    )
    raw, tables = [], {release: [] for release in paths}
    for algorithm, device, batch in OPENSSL:
        for size in SIZES:
            contenders = {
                release: lambda path=path: {
                    name: row
                    for row in speed(
                        algorithm, device, size, batch, SECONDS, "--compare", "openssl", env=os.environ | {"PATH": path}
                    )
                    for name in [row["device"]]
                }
                for release, path in paths.items()
            }
            results = measure.rounds(ROUNDS, contenders)
            for release, table in tables.items():
                rounds = [result[release] for result in results]
                raw += [row | {"release": release} for rows in rounds for row in rows.values()]
                rates = [round(measure.median(rounds, name, "mb_per_cpu_s")) for name in ("openssl", device)]
                table.append([algorithm, size, device, batch, *rates, f"{measure.ratio(rounds, device, 'openssl', 'mb_per_cpu_s'):.2f}"])
    return raw, {f"OpenSSL {release}": table for release, table in tables.items()}


def xts(work):
    program = measure.program(work, "openssl_xts", "-lcrypto")
    measure.remember("taskset -c N openssl_xts BYTES", SECONDS)
    measure.remember(
        "taskset -c N gantry speed aes-256-xts --device DEVICE --bytes BYTES --batch BATCH --seconds", SECONDS, "--json"
    )

    raw, table = [], []
    for size in SIZES:
        peer = [*measure.ONE_CORE, program, size, SECONDS]
        contenders = {"openssl": lambda: with_rate(json.loads(measure.output(peer))[0])}
        for device, batch in XTS:
            contenders[device, batch] = lambda device=device, batch=batch: only_row(
                speed("aes-256-xts", device, size, batch, SECONDS), device=device
            )
        results = measure.rounds(ROUNDS, contenders)
        raw += [row for result in results for row in result.values()]
        for device, batch in XTS:
            table.append(
                [
                    size,
                    device,
                    batch,
                    round(measure.median(results, "openssl", "mb_per_cpu_s")),
                    round(measure.median(results, (device, batch), "mb_per_cpu_s")),
                    f"{measure.ratio(results, (device, batch), 'openssl', 'mb_per_cpu_s'):.2f}",
                ]
            )
    return raw, table
