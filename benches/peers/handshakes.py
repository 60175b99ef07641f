"""Full handshakes of TLS 1.3: a server's CPU time with each release of OpenSSL and each group, and its memory over a minute."""

import json
import os
import pathlib
import subprocess
import time

import measure
import provider

# More than the server's own WARM.
WARM = 1200
COUNT = 2000
ROUNDS = 9
MINUTE = 60
# Releases with groups of their own. The client is the first one's.
NEWER = ("3.5", "4.0")


def command(work, series):
    """The command of the program with the libraries of a newer release."""
    run = pathlib.Path(measure.output([measure.ROOT / "scripts/openssl-command", series]).strip()).with_name("run")
    measure.remember("scripts/openssl-command", series)
    libraries = [next(run.parent.glob(f"usr/lib/*/lib{name}.so.*")) for name in ("ssl", "crypto")]
    return [run, measure.program(work, "handshakes", *libraries, "-Wl,--allow-shlib-undefined", suffix=f"-{series}")]


def contenders(work):
    """The command of clients, and the servers. Name: command, openssl.cnf, and group."""
    older = measure.output(["openssl", "version"]).split()[1].rpartition(".")[0]
    commands = {older: [measure.program(work, "handshakes", "-lssl", "-lcrypto")], **{series: command(work, series) for series in NEWER}}
    gantry, post_quantum = provider.configuration(work / "handshakes.cnf", ""), "X25519MLKEM768"
    sides = {}
    for series, program in commands.items():
        sides[f"OpenSSL {series}, X25519"] = (program, "/dev/null", "X25519")
        sides[f"OpenSSL {series} with gantry, X25519"] = (program, gantry, "X25519")
        if series != older:
            sides[f"OpenSSL {series}, {post_quantum}"] = (program, "/dev/null", post_quantum)
        sides[f"OpenSSL {series} with gantry, {post_quantum}"] = (program, gantry, post_quantum)
    # Debian does not package oqs-provider. An installed one is measured, too.
    modules = pathlib.Path(measure.output(["openssl", "version", "-m"]).split('"')[1])
    if (modules / "oqsprovider.so").exists():
        conf = work / "oqs.cnf"
        conf.write_text(
            "openssl_conf = init\n[init]\nproviders = providers\n[providers]\ndefault = on\noqsprovider = on\n[on]\nactivate = 1\n"
        )
        sides[f"OpenSSL {older} with oqs-provider, {post_quantum}"] = (commands[older], conf, post_quantum)
    return commands[NEWER[0]], sides


def served(work, client, contender, clients, prefix=()):
    """The figures of a server. `clients(run)` calls `run(count)`, which makes that number of connections. Both programs start with `prefix`."""
    program, conf, group = contender
    path, certificate, key = work / "handshakes.socket", work / "ecdsa.pem", work / "ecdsa.key"
    path.unlink(missing_ok=True)
    server = subprocess.Popen(
        [*prefix, *program, "server", path, group, certificate, key], env=os.environ | {"OPENSSL_CONF": str(conf)}, stdout=subprocess.PIPE, text=True
    )

    def run(count):
        subprocess.run([*prefix, *client, "client", path, group, certificate, str(count)], check=True, env=os.environ | {"OPENSSL_CONF": "/dev/null"})

    try:
        server.stdout.readline()
        run(WARM)
        clients(run)
    finally:
        server.terminate()
        printed = server.communicate()[0]
    figures = json.loads(printed)
    return figures | {"per_s": figures["count"] / figures["wall_s"], "per_cpu_s": figures["count"] / figures["cpu_s"]}


def handshakes(work):
    """Rounds of all servers, and a minute of those with ML-KEM."""
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ecdsa.key -out ecdsa.pem -days 2 -subj /CN=localhost"
    subprocess.run(request.split(), check=True, cwd=work, env=os.environ | {"OPENSSL_CONF": "/dev/null"}, stderr=subprocess.DEVNULL)
    client, sides = contenders(work)
    measure.remember("OPENSSL_CONF=FILE taskset -c N handshakes server SOCKET GROUP CERTIFICATE KEY")
    measure.remember("taskset -c N handshakes client SOCKET GROUP CERTIFICATE", COUNT)

    def rounds_of(contender):
        # The ends take turns, and a client on another thread of the same core would slow the server down.
        return served(work, client, contender, lambda run: run(COUNT), measure.ONE_CORE)

    def minute(run):
        end = time.monotonic() + MINUTE
        while time.monotonic() < end:
            run(COUNT)

    results = measure.rounds(ROUNDS, {name: lambda contender=contender: rounds_of(contender) for name, contender in sides.items()})
    minutes = {name: served(work, client, contender, minute) for name, contender in sides.items() if contender[2] != "X25519"}
    first = next(iter(sides))
    table = []
    for name in sides:
        rate = measure.median(results, name, "per_cpu_s")
        line = [name, f"{1e6 / rate:.0f}", f"{rate:.0f}", f"{measure.ratio(results, name, first, 'per_cpu_s'):.2f}"]
        if long := minutes.get(name):
            line += [f"{long['per_s']:.0f}", *(f"{long[key] / 1024:.1f}" for key in ("first_kib", "last_kib"))]
        table.append(line + ["-"] * (7 - len(line)))
    return {"rounds": results, "minutes": minutes}, table
