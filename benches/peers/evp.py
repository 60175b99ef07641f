"""OpenSSL's EVP with and without gantry.so: pipelines."""

import json
from pathlib import Path

import measure
import provider

SIZES = [64, 1024, 4096, 16384, 65536]
ROUNDS = 9
SECONDS = "0.2"


def rate(slice_, time):
    return slice_["messages"] / slice_[time]


def pipelines(work):
    folder = Path(measure.output([measure.ROOT / "scripts/evp-test", "4.0"]).strip())
    measure.remember("scripts/evp-test 4.0")
    configuration = provider.configuration(work / "pipelines.cnf", "CIPHERS = AES-128-CBC\n")
    binary = measure.program(work, "evp_pipelines", f"-I{folder}/include", folder / "libcrypto.so", f"-Wl,-rpath,{folder}")
    raw, table = [], []
    for pipes in (8, 16, 32):
        command = [*measure.ONE_CORE, binary, configuration, "AES-128-CBC", pipes, SECONDS, ROUNDS, *SIZES]
        measure.remember("taskset -c N evp_pipelines pipelines.cnf", *command[5:])
        rounds = json.loads(measure.output(command))
        raw += [row | {"pipes": pipes} for row in rounds]
        for size in SIZES:
            ratios = [
                rate(row["gantry"], "cpu_s") / rate(row["default"], "cpu_s") for row in rounds if row["bytes"] == size
            ]
            table.append([pipes, size, f"{sorted(ratios)[len(ratios) // 2]:.2f}"])
    return raw, table
