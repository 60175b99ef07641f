"""The cost of core, and the gain of its routes: our own programs, whose JSON becomes tables."""

import json

import measure

DISPATCH = measure.TARGET / "release/gantry-bench-dispatch"
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
