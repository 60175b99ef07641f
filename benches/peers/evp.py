"""OpenSSL's EVP with and without gantry.so, in one process: threads that ask for one digest at a time."""

import json

import measure
import provider

SIZES = [64, 1024, 4096, 16384, 65536]
ROUNDS = 9
SECONDS = "0.2"


def program(work, name):
    """A program of this folder, built against the machine's libcrypto."""
    measure.output(["cc", "-O2", "-o", work / name, measure.ROOT / f"benches/peers/{name}.c", "-lcrypto", "-lpthread"])
    measure.remember(f"cc -O2 -o {name} benches/peers/{name}.c -lcrypto -lpthread")
    return work / name


def rate(slice_, time):
    return slice_["messages"] / slice_[time]


def threads(work):
    configuration = provider.configuration(work / "gantry.cnf", "DIGESTS = SHA2-256\n")
    binary = program(work, "evp_threads")
    raw, table = [], {}
    for count in (16, 1):
        command = [binary, configuration, "SHA256", count, SECONDS, ROUNDS, *SIZES]
        measure.remember("evp_threads gantry.cnf SHA256", *command[3:])
        rounds = json.loads(measure.output(command))
        raw += [row | {"threads": count} for row in rounds]
        for size in SIZES:
            here = [row for row in rounds if row["bytes"] == size]
            for time in ("wall_s", "cpu_s"):
                ratios = [rate(row["gantry"], time) / rate(row["default"], time) for row in here]
                table.setdefault(size, []).append(f"{sorted(ratios)[len(ratios) // 2]:.2f}")
    return raw, [[size, *cells] for size, cells in table.items()]
