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
ROUNDS = 5
MINUTE = 60
NEWER = "3.5"


def contenders(work):
    """Name: how to start a program with this libssl, its openssl.cnf, and the group."""
    newer = measure.output([measure.ROOT / "scripts/openssl-command", NEWER]).strip().removesuffix("openssl") + "run"
    measure.remember("scripts/openssl-command", NEWER)
    gantry = provider.configuration(work / "handshakes.cnf", "")
    older = measure.output(["openssl", "version"]).split()[1].rpartition(".")[0]
    sides = {
        f"OpenSSL {older}, X25519": ([], "/dev/null", "X25519"),
        f"OpenSSL {older} with gantry, X25519": ([], gantry, "X25519"),
        f"OpenSSL {older} with gantry, X25519MLKEM768": ([], gantry, "X25519MLKEM768"),
        f"OpenSSL {NEWER}, X25519": ([newer], "/dev/null", "X25519"),
        f"OpenSSL {NEWER}, X25519MLKEM768": ([newer], "/dev/null", "X25519MLKEM768"),
    }
    # Debian does not package oqs-provider. An installed one is measured, too.
    modules = pathlib.Path(measure.output(["openssl", "version", "-m"]).split('"')[1])
    if (modules / "oqsprovider.so").exists():
        conf = work / "oqs.cnf"
        conf.write_text(
            "openssl_conf = init\n[init]\nproviders = providers\n[providers]\ndefault = on\noqsprovider = on\n[on]\nactivate = 1\n"
        )
        sides[f"OpenSSL {older} with oqs-provider, X25519MLKEM768"] = ([], conf, "X25519MLKEM768")
    return newer, sides


def served(program, work, newer, contender, clients):
    """The figures of a server, after clients of the newer release: `clients(run)` calls `run(count)`, which connects so often."""
    loader, conf, group = contender
    path, certificate, key = work / "handshakes.socket", work / "ecdsa.pem", work / "ecdsa.key"
    path.unlink(missing_ok=True)
    server = subprocess.Popen(
        [*loader, program, "server", path, group, certificate, key], env=os.environ | {"OPENSSL_CONF": str(conf)}, stdout=subprocess.PIPE, text=True
    )

    def run(count):
        client = [newer, program, "client", path, group, certificate, str(count)]
        subprocess.run(client, check=True, env=os.environ | {"OPENSSL_CONF": "/dev/null"})

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
    program = measure.program(work, "handshakes", "-lssl", "-lcrypto")
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ecdsa.key -out ecdsa.pem -days 2 -subj /CN=localhost"
    subprocess.run(request.split(), check=True, cwd=work, env=os.environ | {"OPENSSL_CONF": "/dev/null"}, stderr=subprocess.DEVNULL)
    newer, sides = contenders(work)
    measure.remember("OPENSSL_CONF=FILE handshakes server SOCKET GROUP CERTIFICATE KEY")
    measure.remember("handshakes client SOCKET GROUP CERTIFICATE", COUNT)

    def rounds_of(contender):
        return served(program, work, newer, contender, lambda run: run(COUNT))

    def minute(run):
        end = time.monotonic() + MINUTE
        while time.monotonic() < end:
            run(COUNT)

    results = measure.rounds(ROUNDS, {name: lambda contender=contender: rounds_of(contender) for name, contender in sides.items()})
    minutes = {name: served(program, work, newer, contender, minute) for name, contender in sides.items() if contender[2] != "X25519"}
    first = next(iter(sides))
    table = []
    for name in sides:
        rate = measure.median(results, name, "per_cpu_s")
        line = [name, f"{1e6 / rate:.0f}", f"{rate:.0f}", f"{measure.ratio(results, name, first, 'per_cpu_s'):.2f}"]
        if long := minutes.get(name):
            line += [f"{long['per_s']:.0f}", *(f"{long[key] / 1024:.1f}" for key in ("first_kib", "last_kib"))]
        table.append(line + ["-"] * (7 - len(line)))
    return {"rounds": results, "minutes": minutes}, table
