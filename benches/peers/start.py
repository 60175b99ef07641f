"""Measures the time until the program has started, and until it has written its first digest."""

import measure

RUNS = 41


def start(work):
    small = work / "small"
    small.write_bytes(b"gantry\n")
    commands = {
        "gantry --version": [measure.GANTRY, "--version"],
        "gantry sum -a sha256 (7 bytes)": [measure.GANTRY, "sum", "-a", "sha256", small],
        "sha256sum (7 bytes)": ["sha256sum", small],
        "openssl dgst -sha256 (7 bytes)": ["openssl", "dgst", "-sha256", small],
    }
    for command in commands:
        measure.remember(command.replace("(7 bytes)", "FILE"))
    results = measure.rounds(
        RUNS, {name: lambda command=command: measure.timed(command) for name, command in commands.items()}
    )
    raw = [{"rounds": results}]
    table = [
        [name, f"{measure.median(results, name, 'wall_s') * 1e3:.1f}", f"{measure.median(results, name, 'cpu_s') * 1e3:.1f}"]
        for name in commands
    ]
    return raw, table
