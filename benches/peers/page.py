"""Writes the page of benchmarks: one chart and one table by CPU, from the latest recorded run on each CPU. Measures nothing."""

import json
import statistics
from html import escape

import measure

PAGE = measure.ROOT / "docs/src/benchmarks.md"
CHART = measure.ROOT / "docs/src/plots/benchmarks.svg"
RESULTS = measure.ROOT / "benches/results"


def pairs(rows, below, above, key, **wanted):
    """Returns the median of above / below over neighbouring rows of the two devices that have these values; None if there are none."""
    ratios = []
    for first, second in zip(rows, rows[1:]):
        fits = all(row.get(name) == value for row in (first, second) for name, value in wanted.items() if name != "batch")
        if fits and first["device"] == below and second["device"] == above and second["batch"] == wanted.get("batch", second["batch"]):
            ratios.append(second[key] / first[key])
    return statistics.median(ratios) if ratios else None


def sides(rows, below, above, key, **wanted):
    """Returns the same median for rows that hold both sides."""
    ratios = [row[above][key] / row[below][key] for row in rows if all((row | row[above]).get(name) == value for name, value in wanted.items())]
    return statistics.median(ratios) if ratios else None


def files(key):
    def ratio(sections):
        row = next(row for row in sections["sums"] if row["load"] == "256 files of 4 MiB" and row["algorithm"] == "sha256")
        return statistics.median(turn["coreutils"][key] / turn["gantry"][key] for turn in row["rounds"])

    return ratio


def against_openssl(algorithm):
    def ratio(sections):
        found = [
            pairs(sections["openssl"], "openssl", device, "mb_per_cpu_s", algorithm=algorithm, bytes=16384, batch=1)
            for device in ("lanes", "software")
        ]
        return max((ratio for ratio in found if ratio), default=None)

    return ratio


def against_ipsec_mb(algorithm):
    def ratio(sections):
        rows = [row for row in sections["lanes"] if row.get("alignment", 64) == 64 and row.get("level", "avx512") == "avx512"]
        return pairs(rows, "ipsec-mb", "lanes", "mb_per_cpu_s", algorithm=algorithm, bytes=16384, batch=32)

    return ratio


def named(what):
    return lambda sections: sides(sections.get("named", []), "without", "gantry", "per_s", what=what)


def pipelines(sections):
    def rate(side):
        return side["messages"] / side["cpu_s"]

    rows = [row for row in sections["pipelines"] if row["bytes"] == 16384 and row["pipes"] == 32]
    return statistics.median(rate(row["gantry"]) / rate(row["default"]) for row in rows)


# Title, peer, whether the chart has the row, command, ratio.
ROWS = [
    ("SHA-256 of 256 files of 4 MiB, two cores, wall time", "sha256sum, one core", True, "gantry sum -a sha256 FILE...", files("wall_s")),
    ("the same, CPU time", "sha256sum", False, "gantry sum -a sha256 FILE...", files("cpu_s")),
    ("AES-128-GCM, messages of 16 KiB", "openssl speed", True, "gantry speed aes-128-gcm --bytes 16384 --batch 1 --compare openssl", against_openssl("aes-128-gcm")),
    ("AES-256-XTS, messages of 16 KiB", "openssl speed", True, "gantry speed aes-256-xts --bytes 16384 --batch 1 --compare openssl", against_openssl("aes-256-xts")),
    ("SHA-256, 32 messages of 16 KiB side by side", "ipsec-mb 1.3", True, "gantry speed sha256 --device lanes --bytes 16384 --batch 32", against_ipsec_mb("sha256")),
    ("AES-128-CBC, 32 messages of 16 KiB side by side", "ipsec-mb 1.3", True, "gantry speed aes-128-cbc --device lanes --bytes 16384 --batch 32", against_ipsec_mb("aes-128-cbc")),
    ("Ed25519 signatures through the provider", "OpenSSL 3.0", True, "openssl speed ed25519", named("Ed25519, signatures")),
    ("X25519 secrets through the provider", "OpenSSL 3.0", True, "openssl speed ecdhx25519", named("X25519, secrets")),
    ("AES-128-GCM, 16 KiB, through the provider", "OpenSSL 3.0", False, "openssl speed -evp aes-128-gcm -bytes 16384", named("AES-128-GCM, 16 KiB")),
    ("nginx, TLS 1.3, responses of 1 MB, CPU time", "nginx alone", True, "benches/peers/run nginx", lambda sections: sides(sections["nginx"], "without", "gantry", "per_cpu_s", what="1 MB")),
    ("pipeline of 32 messages of AES-128-CBC, 16 KiB", "OpenSSL 4.0, one at a time", True, "benches/peers/run pipelines", pipelines),
]  # fmt: skip

INTRODUCTION = """# Benchmarks

Ratios over another program: 2 is twice as fast. The last column has the command that measures the row.

![Gantry against coreutils, OpenSSL and ipsec-mb](plots/benchmarks.svg)

"""
METHOD = """
A ratio is the median of rounds, in which the programs run in turn. It compares CPU time on one core, or wall time where the row says so and for
`openssl speed` through the provider. A dash: not measured on this CPU.

## Cost of Gantry itself

"""
REPEAT = """
## Repeat it

<!-- not run: half an hour -->
```console
$ make bench
```

It writes every round to `benches/results/`, all tables to `lab/notebook/benchmarks.md`, and this page from the latest run on each CPU.
`benches/peers/run sums` prints one part without recording it.
"""
LIMITS = """
## Where nothing is gained

* One short message at a time: a device is as fast as OpenSSL, or the request stays with OpenSSL.
* AES-GCM, AES-XTS and AES-CTR on CPUs without VAES.
* TLS handshakes with ECDSA or RSA certificates: only the key exchange gains.

`lab/notebook/goals.md` has the goals and the missed ones.
"""


def cpu(facts):
    """Returns the name of a CPU for people."""
    return facts.get("core") or facts["cpu"]


def latest():
    """Returns the last run of each CPU, the newest first."""
    runs = {}
    for path in sorted(RESULTS.glob("*.json")):
        run = json.loads(path.read_text())
        if {"sums", "openssl", "pipelines"} <= run["sections"].keys():
            runs[cpu(run["machine"])] = run | {"file": path.name}
    return sorted(runs.values(), key=lambda run: run["machine"]["date"], reverse=True)


def number(ratio):
    return "-" if ratio is None else f"{ratio:.1f}" if ratio >= 9.95 else f"{ratio:.2f}"


def markdown(columns, rows, numbers_from):
    """Returns a table whose columns from this one on are numbers, except commands."""
    kinds = ["---:" if place >= numbers_from and name != "command" else "---" for place, name in enumerate(columns)]
    lines = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in [columns, *rows]]
    return "\n".join([lines[0], "|" + "|".join(kinds) + "|", *lines[1:]]) + "\n"


def page(runs):
    names = [cpu(run["machine"]) for run in runs]
    table = [[what, peer, *(number(ratio(run["sections"])) for run in runs), f"`{command}`"] for what, peer, _, command, ratio in ROWS]
    text = INTRODUCTION + markdown(["work", "compared with", *names, "command"], table, 2) + METHOD

    def dispatch(run, name):
        return f"{next(row['ns'] for row in run['sections']['dispatch'] if row['dispatch'] == name):.1f}"

    def start(run):
        rounds = run["sections"]["start"][0]["rounds"]
        return f"{statistics.median(turn['gantry sum -a sha256 (7 bytes)']['cpu_s'] for turn in rounds) * 1000:.1f}"

    text += markdown(["", *names], [
        ["a direct request to the null device, ns", *(dispatch(run, "direct") for run in runs)],
        ["a request in a batch of 32, ns", *(dispatch(run, "batch-32") for run in runs)],
        ["`gantry sum` of a file of 7 bytes, ms of CPU", *(start(run) for run in runs)],
    ], 1)  # fmt: skip
    text += REPEAT + "\nThe machines are virtual, with two cores each:\n\n"
    machines = [[cpu(run["machine"]), run["machine"]["date"], run["machine"]["commit"], f"`benches/results/{run['file']}`"] for run in runs]
    return text + markdown(["CPU", "date", "commit", "rounds"], machines, 4) + LIMITS


# Colours that people with any colour vision can tell apart (Okabe and Ito).
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"]


def chart(runs):
    """Returns a chart of horizontal bars: a group for each row of the chart, a bar for each CPU."""
    rows = [(what, peer, [ratio(run["sections"]) for run in runs]) for what, peer, shown, _, ratio in ROWS if shown]
    bar, gap, left, width, top = 11, 14, 330, 880, 46
    most = max(ratio for _, _, ratios in rows for ratio in ratios if ratio)
    scale = (width - left - 50) / most
    body, y = [], top
    for what, peer, ratios in rows:
        middle = y + len(runs) * bar / 2
        body.append(f'<text x="{left - 10}" y="{middle - 1:.1f}" text-anchor="end">{escape(what.removesuffix(", wall time"))}</text>')
        body.append(f'<text x="{left - 10}" y="{middle + 12:.1f}" text-anchor="end" class="peer">beside {escape(peer)}</text>')
        for place, ratio in enumerate(ratios):
            if ratio:
                across = ratio * scale
                body.append(f'<rect x="{left}" y="{y + place * bar}" width="{across:.1f}" height="{bar - 2}" fill="{COLOURS[place % len(COLOURS)]}"/>')
                body.append(f'<text x="{left + across + 5:.1f}" y="{y + place * bar + 9}" class="value">{number(ratio)}</text>')
        y += len(runs) * bar + gap
    one = left + scale
    body.append(f'<line x1="{one:.1f}" y1="{top - 6}" x2="{one:.1f}" y2="{y - gap + 4}" stroke="#666" stroke-dasharray="3 3"/>')
    body.append(f'<text x="{one:.1f}" y="{y + 8}" text-anchor="middle" class="peer">1 = the program beside it</text>')
    legend = left
    for place, run in enumerate(runs):
        name = cpu(run["machine"])
        body.append(f'<rect x="{legend}" y="14" width="11" height="11" fill="{COLOURS[place % len(COLOURS)]}"/>')
        body.append(f'<text x="{legend + 16}" y="24">{escape(name)}</text>')
        legend += 16 + 8 * len(name) + 24
    height = y + 20
    style = "text{font:12px sans-serif;fill:#222}.peer{font-size:10px;fill:#666}.value{font-size:10px}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    title = "<title>How many times as fast Gantry is as coreutils, OpenSSL and ipsec-mb</title>"
    return "\n".join([head, title, f"<style>{style}</style>", f'<rect width="{width}" height="{height}" fill="#fff"/>', *body, "</svg>"]) + "\n"


def files_of_the_book():
    runs = latest()
    return {PAGE: page(runs), CHART: chart(runs)}


def write():
    for path, text in files_of_the_book().items():
        path.write_text(text)
        print(f"bench: wrote {path.relative_to(measure.ROOT)}")


def check():
    """Fails if the page differs from the recorded runs."""
    stale = [str(path.relative_to(measure.ROOT)) for path, text in files_of_the_book().items() if not path.exists() or path.read_text() != text]
    if stale:
        raise SystemExit(f"bench: {', '.join(stale)}: not what benches/results says; benches/peers/run --page writes it")
    print("bench: the page is what benches/results says")
