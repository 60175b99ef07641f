"""Writes the page of benchmarks: one chart and one table by CPU, from the latest recorded run on each CPU. Measures nothing."""

import json
import statistics
from html import escape

import measure
import sums

PAGE = measure.ROOT / "docs/src/benchmarks.md"
CHART = measure.ROOT / "docs/src/plots/benchmarks.svg"
RESULTS = measure.ROOT / "benches/results"
# The release in `software` of the runs that do not record it.
AWS_LC = "5.12.0"


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


def files(peer):
    def ratio(sections):
        row = next(row for row in sections["sums"] if row["load"] == "256 files of 4 MiB" and row["algorithm"] == "sha256")
        turns = [turn for turn in row["rounds"] if peer in turn]
        return statistics.median(turn[peer]["cpu_s"] / turn["gantry"]["cpu_s"] for turn in turns) if turns else None

    return ratio


def against_openssl(algorithm, series=None):
    """Over this machine's OpenSSL, or over that of a series."""

    def ratio(sections):
        rows = sections["openssl"] if series is None else [row for row in sections.get("releases", []) if row["release"].startswith(series)]
        found = [pairs(rows, "openssl", device, "mb_per_cpu_s", algorithm=algorithm, bytes=16384, batch=1) for device in ("lanes", "software")]
        return max((ratio for ratio in found if ratio), default=None)

    return ratio


def against_ipsec_mb(algorithm, series):
    """Each row of the lanes stands behind those of its peers."""

    def ratio(sections):
        ratios, peer = [], None
        for row in sections["lanes"]:
            if (row["algorithm"], row["bytes"], row["batch"], row.get("alignment", 64), row.get("level", "avx512")) != (algorithm, 16384, 32, 64, "avx512"):
                continue
            # The first results do not name the release, which was 1.3.
            release = "1.3" if row["device"] == "ipsec-mb" else row["device"].removeprefix("ipsec-mb ")
            if row["device"] == "lanes" and peer:
                ratios.append(row["mb_per_cpu_s"] / peer["mb_per_cpu_s"])
                peer = None
            elif release.startswith(series):
                peer = row
        return statistics.median(ratios) if ratios else None

    return ratio


def named(what, series):
    def ratio(sections):
        rows = [row for row in sections.get("named", []) if row.get("release", "3.0").startswith(series)]
        # Rates by `openssl speed` are by wall time.
        rows = [{side: row[side] | {"rate": row[side]["per_s"] * row[side]["wall_s"] / row[side]["cpu_s"]} for side in ("without", "gantry")} for row in rows]
        return sides(rows, "without", "gantry", "rate", what=what)

    return ratio


def nginx(sections):
    return sides(sections["nginx"], "without", "gantry", "per_cpu_s", what="1 MB")


def pipelines(sections):
    def rate(side):
        return side["messages"] / side["cpu_s"]

    rows = [row for row in sections["pipelines"] if row["bytes"] == 16384 and row["pipes"] == 32]
    return statistics.median(rate(row["gantry"]) / rate(row["default"]) for row in rows)


def handshakes(release, peer):
    def ratio(sections):
        turns = sections.get("handshakes", {"rounds": []})["rounds"]
        ours, theirs = f"OpenSSL {release} with gantry, X25519MLKEM768", f"OpenSSL {peer}, X25519MLKEM768"
        ratios = [turn[ours]["per_cpu_s"] / turn[theirs]["per_cpu_s"] for turn in turns if ours in turn and theirs in turn]
        return statistics.median(ratios) if ratios else None

    return ratio


# Title; peers, each in the chart or not, with the ratio; command.
ROWS = [
    ("SHA-256 of 256 files of 4 MiB", [("sha256sum 9.1", True, files("coreutils")), ("9.10", True, files(sums.COREUTILS)), (sums.UUTILS, True, files(sums.UUTILS))], "gantry sum -a sha256 FILE..."),
    ("AES-128-GCM, messages of 16 KiB", [("openssl speed 3.0", True, against_openssl("aes-128-gcm")), ("4.0", True, against_openssl("aes-128-gcm", "4.0"))], "gantry speed aes-128-gcm --bytes 16384 --batch 1 --compare openssl"),
    ("AES-256-XTS, messages of 16 KiB", [("openssl speed 3.0", True, against_openssl("aes-256-xts")), ("4.0", False, against_openssl("aes-256-xts", "4.0"))], "gantry speed aes-256-xts --bytes 16384 --batch 1 --compare openssl"),
    ("SHA-256, 32 messages of 16 KiB side by side", [("ipsec-mb 1.3", True, against_ipsec_mb("sha256", "1.3")), ("2.0", True, against_ipsec_mb("sha256", "2.0"))], "gantry speed sha256 --device lanes --bytes 16384 --batch 32"),
    ("AES-128-CBC, 32 messages of 16 KiB side by side", [("ipsec-mb 1.3", True, against_ipsec_mb("aes-128-cbc", "1.3")), ("2.0", True, against_ipsec_mb("aes-128-cbc", "2.0"))], "gantry speed aes-128-cbc --device lanes --bytes 16384 --batch 32"),
    ("Ed25519 signatures through the provider", [("OpenSSL 3.0", True, named("Ed25519, signatures", "3.0"))], "openssl speed ed25519"),
    ("X25519 secrets through the provider", [("OpenSSL 3.0", True, named("X25519, secrets", "3.0")), ("4.0", True, named("X25519, secrets", "4.0"))], "openssl speed ecdhx25519"),
    ("nginx, TLS 1.3, responses of 1 MB", [("nginx alone", True, nginx)], "benches/peers/run nginx"),
    ("handshakes with X25519MLKEM768 in OpenSSL 3.0", [("OpenSSL 3.5", True, handshakes("3.0", "3.5"))], "benches/peers/run handshakes"),
    ("the same in the newer OpenSSL", [("OpenSSL 3.5", True, handshakes("3.5", "3.5")), ("4.0", True, handshakes("4.0", "4.0"))], "benches/peers/run handshakes"),
    ("pipeline of 32 messages of AES-128-CBC, 16 KiB", [("OpenSSL 4.0, one at a time", True, pipelines)], "benches/peers/run pipelines"),
]  # fmt: skip

INTRODUCTION = """# Benchmarks

Ratios over another program, by CPU time: 2 is twice as fast.

![Gantry against coreutils, OpenSSL and ipsec-mb](plots/benchmarks.svg)

"""
METHOD = """
Ratios are medians of rounds in turn. A dash: not measured on this CPU.

## Cost of Gantry itself

"""
REPEAT = """
## Repeat it

<!-- not run: an hour -->
```console
$ make bench
```

It writes rounds to `benches/results/`, tables to `lab/notebook/benchmarks.md`, and this page from the latest run on each CPU.
`benches/peers/run sums` prints one part; `--record sums` keeps it.
"""
LIMITS = """
## Where nothing is gained

* One short message at a time: a device is as fast as OpenSSL, or the request stays with OpenSSL.
* AES-GCM, AES-XTS and AES-CTR on CPUs without VAES.
* TLS handshakes with ECDSA or RSA certificates.

`lab/notebook/goals.md` has the goals and the missed ones.
"""


def cpu(facts):
    """Returns the name of a CPU for people."""
    return facts.get("core") or facts["cpu"]


def latest():
    """The sections of each CPU, each from the last run that has it, and the runs that they are from; the newest CPU first."""
    cpus = {}
    for path in sorted(RESULTS.glob("*.json")):
        run = json.loads(path.read_text())
        known = cpus.setdefault(cpu(run["machine"]), {"sections": {}, "runs": {}})
        known["machine"] = run["machine"]
        known["sections"].update(run["sections"])
        known["runs"].update(dict.fromkeys(run["sections"], (path.name, run["machine"])))
    enough = [known for known in cpus.values() if {"sums", "openssl", "pipelines"} <= known["sections"].keys()]
    return sorted(enough, key=lambda known: known["machine"]["date"], reverse=True)


def number(ratio):
    return "-" if ratio is None else f"{ratio:.1f}" if ratio >= 9.95 else f"{ratio:.2f}"


def markdown(columns, rows, numbers_from):
    """Returns a table whose columns from this one on are numbers, except commands."""
    kinds = ["---:" if place >= numbers_from and name != "command" else "---" for place, name in enumerate(columns)]
    lines = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in [columns, *rows]]
    return "\n".join([lines[0], "|" + "|".join(kinds) + "|", *lines[1:]]) + "\n"


def page(runs):
    names = [cpu(run["machine"]) for run in runs]
    table = []
    for what, peers, command in ROWS:
        ratios = [[ratio(run["sections"]) for _, _, ratio in peers] for run in runs]
        cells = [", ".join(map(number, each)) if any(each) else "-" for each in ratios]
        table.append([what, ", ".join(peer for peer, _, _ in peers), *cells, f"`{command}`"])
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
    text += REPEAT + "\nVirtual machines of two cores:\n\n"
    machines = [
        [cpu(machine), machine["date"], machine["commit"], machine.get("aws_lc", AWS_LC), f"`benches/results/{file}`"]
        for run in runs
        for file, machine in sorted(dict(run["runs"].values()).items(), reverse=True)
    ]
    return text + markdown(["CPU", "date", "commit", "AWS-LC", "rounds"], machines, 5) + LIMITS


# Colours that people with any colour vision can tell apart (Okabe and Ito).
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"]


def chart(runs):
    """Horizontal bars: a group for each row of the chart, a bar for each CPU."""
    rows = []
    for what, peers, _ in ROWS:
        first = peers[0][0].rpartition(" ")[0]
        for place, (peer, shown, ratio) in enumerate(peers):
            ratios = [ratio(run["sections"]) for run in runs]
            if shown and any(ratios):
                # A further release of the first peer is named by its number alone.
                rows.append((what, f"{first} {peer}" if place and peer[0].isdigit() else peer, ratios))
    bar, gap, left, width, top = 11, 14, 330, 880, 46
    most = max(ratio for _, _, ratios in rows for ratio in ratios if ratio)
    scale = (width - left - 50) / most
    body, y = [], top
    for what, peer, ratios in rows:
        middle = y + len(runs) * bar / 2
        body.append(f'<text x="{left - 10}" y="{middle - 1:.1f}" text-anchor="end">{escape(what)}</text>')
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
