"""Measures OpenSSL's programs with gantry.so and without it."""

import contextlib
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import measure

MODULE = measure.TARGET / "release/libgantry_openssl.so"
# Configuration of an engine that is much slower than this machine. On the real board, the software was as slow.
ENGINE = """CIPHERS = AES-128-CBC
DEVICES = model:kirkwood=on
POLICY = size-threshold:1024,host,model:kirkwood
"""


def configuration(path, section):
    """Writes an openssl.cnf with gantry in it, and these lines in its section."""
    path.write_text(
        "openssl_conf = init\nnginx = init\n[init]\nproviders = providers\nalg_section = algorithms\nrandom = random\n"
        "[providers]\ndefault = default_provider\ngantry = gantry_provider\n[default_provider]\nactivate = 1\n"
        f"[gantry_provider]\nmodule = {MODULE}\nactivate = 1\n{section}"
        "[algorithms]\ndefault_properties = ?provider=gantry,?gantry.serves=yes\n[random]\nproperties = ?provider=default,-gantry.serves\n"
    )
    return path


SPEED = ["openssl", "speed", "-elapsed", "-mr", "-seconds", "1"]


def speed(cipher, size, *options):
    """Returns a command of `openssl speed` for one size."""
    return [*SPEED, *options, "-evp", cipher, "-bytes", size]


def said(work, conf, command, place=3):
    """Runs such a command with an openssl.cnf. Returns the figure at this place of its result line, and its wall and CPU time."""
    with open(work / "said", "w+") as lines:
        used = measure.timed(["env", f"OPENSSL_CONF={conf}", *command], stdout=lines, stderr=subprocess.DEVNULL)
        lines.seek(0)
        return float(next(line for line in lines if line.startswith("+F")).split(":")[place]), used


def rate(work, conf, command):
    """Returns the MB per second of such a command, the CPUs that it kept busy, and the MB per second of CPU time."""
    rate, used = said(work, conf, command)
    cpus = used["cpu_s"] / used["wall_s"]
    return used | {"mb_per_s": rate / 1e6, "cpus": cpus, "mb_per_cpu_s": rate / 1e6 / cpus}


NEWEST = "4.0"
LISTS = "CIPHERS = AES-128-GCM,AES-256-GCM,AES-256-XTS\nSIGNATURES = ED25519\nKEY_EXCHANGE = X25519\n"
# Rows with a goal: arguments of `openssl speed`, column of its output, unit and its scale, goal.
NAMED = {
    "Ed25519, signatures": (["ed25519"], -2, "1/s", 1, 4),
    "Ed25519, verifications": (["ed25519"], -1, "1/s", 1, ""),
    "X25519, secrets": (["ecdhx25519"], 3, "1/s", 1, 1.3),
    "AES-128-GCM, 16 KiB": (["-evp", "aes-128-gcm", "-bytes", 16384], 3, "MB/s", 1e6, 2.3),
    "AES-256-GCM, 16 KiB": (["-evp", "aes-256-gcm", "-bytes", 16384], 3, "MB/s", 1e6, ""),
    "AES-256-XTS, 16 KiB": (["-evp", "aes-256-xts", "-bytes", 16384], 3, "MB/s", 1e6, 1.9),
}


def named(work):
    """The rows with a goal, without gantry and with a section that names them: this machine's OpenSSL, and the newest."""
    sides = {"without": "/dev/null", "gantry": configuration(work / "named.cnf", LISTS)}
    newest = measure.output([measure.ROOT / "scripts/openssl-command", NEWEST]).strip()
    measure.remember("scripts/openssl-command", NEWEST)
    raw, tables = [], {}
    for program in ("openssl", newest):
        release = measure.output([program, "version"]).split()[1]
        table = tables[f"OpenSSL {release}"] = []
        # It keeps the costs of this release, as `gantry openssl config` does.
        path = os.environ["PATH"] if program == "openssl" else f"{Path(program).parent}:{os.environ['PATH']}"
        measure.output([measure.GANTRY, "advise"], env=os.environ | {"PATH": path, "OPENSSL_CONF": str(sides["gantry"])})
        for what, (asked, place, unit, scale, goal) in NAMED.items():
            command = [*measure.ONE_CORE, program, *SPEED[1:], *asked]
            measure.remember("OPENSSL_CONF=FILE taskset -c N", *SPEED, *asked)

            def run(conf, what=what, command=command, place=place):
                rate, used = said(work, conf, command, place)
                return used | {"what": what, "per_s": rate, "per_cpu_s": rate * used["wall_s"] / used["cpu_s"]}

            results = measure.rounds(5, {side: lambda conf=conf: run(conf) for side, conf in sides.items()})
            raw += [result | {"release": release} for result in results]
            cells = [f"{measure.median(results, side, 'per_cpu_s') / scale:.0f}" for side in sides]
            table.append([what, unit, *cells, f"{measure.ratio(results, 'gantry', 'without', 'per_cpu_s'):.2f}", goal])
    return raw, tables


def engine(work):
    """Measures bytes per second and the share of a CPU, without gantry and with a modelled engine."""
    sides = {"without": "/dev/null", "engine": configuration(work / "engine.cnf", ENGINE)}
    measure.remember("OPENSSL_CONF=FILE", *speed("aes-128-cbc", "BYTES"))

    def run(conf, size):
        return rate(work, conf, speed("aes-128-cbc", size)) | {"bytes": size}

    raw, table = [], []
    for size in [16, 64, 256, 1024, 8192, 16384]:
        results = measure.rounds(3, {name: lambda conf=conf: run(conf, size) for name, conf in sides.items()})
        raw += results
        cells = [("mb_per_s", "{:.1f}"), ("cpus", "{:.2f}")]
        row = [form.format(measure.median(results, side, key)) for side in sides for key, form in cells]
        table.append([size, *row, f"{measure.ratio(results, 'engine', 'without', 'cpus'):.2f}"])
    return raw, table


# Load on nginx: (bytes, requests) over one connection, and new connections for SHAKING_SECONDS.
RESPONSES = {"16 KiB": (16 << 10, 4000), "1 MB": (1_000_000, 300)}
SHAKING_SECONDS = 3
NGINX_ROUNDS = 9


def worker_cpu_s(master):
    """Returns the CPU seconds of nginx's only worker so far."""
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    user, system = Path(f"/proc/{children[0]}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(work, name, conf):
    """Starts nginx with one worker and this openssl.cnf. Yields its process and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    temporary = "".join(
        f"{kind}_temp_path {work}/{name}.{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    text = (
        f"{user} daemon off; worker_processes 1; pid {work}/{name}.pid; error_log {work}/{name}.errors; events {{}}\n"
        f"http {{ access_log off; {temporary} keepalive_requests 1000000; ssl_session_tickets off;\n"
        f"server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem;\n"
        f"ssl_protocols TLSv1.3; root {work}; }} }}\n"
    )
    path = work / f"{name}.nginx"
    path.write_text(text)
    with open(work / f"{name}.errors", "w") as errors:
        nginx = subprocess.Popen(
            ["nginx", "-e", errors.name, "-c", path], env=os.environ | {"OPENSSL_CONF": str(conf)}, stderr=errors
        )
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if nginx.poll() is not None:
                    raise SystemExit(f"bench: nginx does not start: {Path(errors.name).read_text()}")
                time.sleep(0.05)
            yield nginx.pid, port
        finally:
            nginx.terminate()
            nginx.wait()


def nginx(work):
    """Measures responses and new connections of TLS 1.3 under a certificate of Ed25519. The nginx of each side runs all the
    time, and one at a time has requests. The client is the same, and without gantry."""
    plain = os.environ | {"OPENSSL_CONF": "/dev/null"}
    certificate = "openssl req -x509 -newkey ed25519 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost".split()
    subprocess.run(certificate, check=True, cwd=work, env=plain, stderr=subprocess.DEVNULL)
    for name, (size, _) in RESPONSES.items():
        (work / name.replace(" ", "")).write_bytes(os.urandom(size))
    curl = "curl -sS --tlsv1.3 --cacert cert.pem -o /dev/null"
    shake = ["openssl", "s_time", "-new", "-tls1_3", "-time", SHAKING_SECONDS, "-CAfile", "cert.pem", "-connect"]
    measure.remember(curl, "https://localhost:PORT/FILE?[1-COUNT]")
    measure.remember(*shake, "localhost:PORT")

    def run(what, master, port):
        before, begun = worker_cpu_s(master), time.perf_counter()
        if what in RESPONSES:
            count = RESPONSES[what][1]
            url = f"https://localhost:{port}/{what.replace(' ', '')}?[1-{count}]"
            measure.output([*curl.split(), url], cwd=work, env=plain)
        else:
            said = measure.output([*shake, f"localhost:{port}"], cwd=work, env=plain)
            count = int(re.search(r"^(\d+) connections in \d+ real seconds", said, re.MULTILINE).group(1))
        wall = time.perf_counter() - begun
        cpu = worker_cpu_s(master) - before
        return {"what": what, "count": count, "per_s": count / wall, "per_cpu_s": count / cpu}

    raw, table = [], []
    with (
        served(work, "without", "/dev/null") as without,
        served(work, "gantry", configuration(work / "nginx.cnf", "")) as gantry,
    ):
        for what in [*RESPONSES, "new connections"]:
            results = measure.rounds(
                NGINX_ROUNDS, {"without": lambda: run(what, *without), "gantry": lambda: run(what, *gantry)}
            )
            raw += results
            cells = [f"{measure.median(results, side, 'per_s'):.0f}" for side in ("without", "gantry")]
            cells += [f"{measure.ratio(results, 'gantry', 'without', key):.2f}" for key in ("per_s", "per_cpu_s")]
            table.append([what, *cells])
    return raw, table
