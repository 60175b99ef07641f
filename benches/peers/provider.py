"""OpenSSL's programs with gantry.so and without it."""

import subprocess

import measure

MODULE = measure.TARGET / "release/libgantry_openssl.so"
# Configuration of an engine that is much slower than this machine, as the board's own software was not.
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
        "[algorithms]\ndefault_properties = ?gantry.serves=yes\n[random]\nproperties = provider=default\n"
    )
    return path


def engine(work):
    """Bytes per second and the share of a CPU, without gantry and with a modelled engine."""
    sides = {"without": "/dev/null", "engine": configuration(work / "engine.cnf", ENGINE)}
    speed = ["openssl", "speed", "-elapsed", "-mr", "-seconds", "1", "-evp", "aes-128-cbc", "-bytes"]
    measure.remember("OPENSSL_CONF=FILE", *speed, "BYTES")

    def run(conf, size):
        with open(work / "said", "w+") as said:
            used = measure.timed(["env", f"OPENSSL_CONF={conf}", *speed, size], stdout=said, stderr=subprocess.DEVNULL)
            said.seek(0)
            rate = float(next(line for line in said if line.startswith("+F:")).split(":")[3])
        return used | {"bytes": size, "mb_per_s": rate / 1e6, "cpus": used["cpu_s"] / used["wall_s"]}

    raw, table = [], []
    for size in [16, 64, 256, 1024, 8192, 16384]:
        results = measure.rounds(3, {name: lambda conf=conf: run(conf, size) for name, conf in sides.items()})
        raw += results
        cells = [("mb_per_s", "{:.1f}"), ("cpus", "{:.2f}")]
        row = [form.format(measure.median(results, side, key)) for side in sides for key, form in cells]
        table.append([size, *row, f"{measure.ratio(results, 'engine', 'without', 'cpus'):.2f}"])
    return raw, table
