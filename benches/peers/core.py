"""What core costs, and what its routes and its coalescing are worth: our own programs, whose JSON becomes tables."""

import json

import measure

DISPATCH = measure.TARGET / "release/gantry-bench-dispatch"
COALESCE = measure.TARGET / "release/gantry-bench-coalesce"
REGRETS = measure.TARGET / "release/gantry-bench-regret"
# A route may be this much slower than the best single device.
REGRET = 0.97


def rows(*command):
    measure.remember(*command)
    return json.loads(measure.output(command))


def dispatch(_work):
    raw = rows(*measure.ONE_CORE, DISPATCH, "time")
    return raw, [[row["dispatch"], f"{row['ns']:.1f}", row["goal_ns"] or "-"] for row in raw]


def statistics(_work):
    raw = rows(*measure.ONE_CORE, DISPATCH, "statistics")
    cells = [("without_ns", "{:.1f}"), ("cost_ns", "{:.1f}"), ("cost_percent", "{:.1f} %")]
    return raw, [[row["requests"], *(form.format(row[key]) for key, form in cells)] for row in raw]


def scaling(_work):
    raw = rows(DISPATCH, "scaling")
    return raw, [[row["dispatch"], f"{row['one_session']:.2f}", f"{row['frameworks_apart']:.2f}"] for row in raw]


def coalescing(_work):
    raw = rows(COALESCE)
    keys = ["threads_to_software", "alone_to_software", "queue_to_batch"]
    return raw, [[row["bytes"], *(f"{row[key][time]:.2f}" for key in keys for time in ("wall", "cpu"))] for row in raw]


def beside(_work):
    raw, table = [], []
    for algorithm in ("sha1", "sha256", "sha512"):
        for others in (1, 2):
            found = rows(COALESCE, "--others", str(others), "--algorithm", algorithm, "--seconds", "0.5", "16384", "65536")
            ratios = [f"{row['threads_to_software'][time]:.2f}" for row in found for time in ("wall", "cpu")]
            raw += found
            table.append([algorithm, others, *ratios])
    return raw, table


def regret(_work):
    raw = rows(REGRETS, "--runs", "5")
    table = []
    for algorithm in dict.fromkeys(row["algorithm"] for row in raw["rows"]):
        points = [row for row in raw["rows"] if row["algorithm"] == algorithm]
        worst = min(points, key=lambda row: row["ratio"])
        mean = sum(row["ratio"] for row in points) / len(points)
        where = f"{worst['bytes']} bytes, batch {worst['batch']}, threads {worst['threads']}"
        below = sum(row["ratio"] < REGRET for row in points)
        table.append([algorithm, len(points), f"{mean:.3f}", below, f"{worst['ratio']:.3f}", where])
    return raw, table
