"""Measures digests of a column of e-mail addresses. benches/python/run starts it, on one core and with one thread for each library."""

import argparse
import hashlib
import hmac
import subprocess
import sys
import time

import duckdb
import gantry_crypto
import gantry_crypto.polars
import polars
import polars_hash
import pyarrow

KEY = b"a key of thirty-two bytes, or so"


def cost(run, rounds):
    """Returns the nanoseconds of CPU time of the fastest round, and its result."""
    best = None
    for _ in range(rounds):
        begin = time.process_time_ns()
        result = run()
        taken = time.process_time_ns() - begin
        best = taken if best is None else min(best, taken)
    return best, result


def import_cost(statement):
    """Returns the milliseconds of CPU time of a statement, in the fastest of some processes."""
    program = f"import time; b = time.process_time_ns(); {statement}; print(time.process_time_ns() - b)"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(9)]
    return min(map(int, runs)) / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    count = options.values
    emails = [f"user{index:07}@example.org" + "x" * (index % 3) for index in range(count)]
    column = pyarrow.array(emails)
    frame = polars.DataFrame({"email": emails})
    connection = duckdb.connect(config={"threads": 1})
    connection.register("given", pyarrow.table({"email": column}))
    connection.sql("create table users as select email from given")
    encoded = [email.encode() for email in emails]

    def of_duckdb(function):
        return pyarrow.table(connection.sql(f"select {function}(email) as id from users"))["id"]

    def of_polars(expression):
        return frame.select(expression)["email"]

    # Name, function that returns a column of hexadecimal digests.
    rows = {
        "sha256": [
            ("digest_many, pyarrow", lambda: gantry_crypto.digest_many("sha256", column, hex=True)),
            ("digest_many, list", lambda: gantry_crypto.digest_many("sha256", emails, hex=True)),
            ("polars, gantry", lambda: of_polars(polars.col("email").gantry.sha256(hex=True))),
            ("polars-hash", lambda: of_polars(polars_hash.col("email").chash.sha2_256())),
            ("DuckDB", lambda: of_duckdb("sha256")),
            ("hashlib in a loop", lambda: [hashlib.sha256(email).hexdigest() for email in encoded]),
        ],
        "hmac-sha256": [
            ("digest_many, pyarrow", lambda: gantry_crypto.digest_many("sha256", column, KEY, hex=True)),
            ("hmac.digest in a loop", lambda: [hmac.digest(KEY, email, "sha256").hex() for email in encoded]),
        ],
        "md5": [
            ("digest_many, pyarrow", lambda: gantry_crypto.digest_many("md5", column, hex=True)),
            ("DuckDB", lambda: of_duckdb("md5")),
            ("hashlib in a loop", lambda: [hashlib.md5(email).hexdigest() for email in encoded]),
        ],
    }
    raw, _ = cost(lambda: gantry_crypto.digest_many("sha256", column), options.rounds)
    print(f"{count} values of {sum(map(len, encoded)) / count:.1f} bytes, nanoseconds a value")
    print(f"sha256, 32 bytes a digest: digest_many, pyarrow {raw / count:.1f}")
    for algorithm, contenders in rows.items():
        ours = expected = None
        for name, run in contenders:
            taken, result = cost(run, options.rounds)
            result = pyarrow.array(result).to_pylist() if not isinstance(result, list) else result
            if ours is None:
                ours, expected = taken, result
            assert result == expected, f"{name} has other digests"
            print(f"{algorithm:12} {name:24} {taken / count:8.1f}  {taken / ours:5.1f}")
    print(f"import and first digest: gantry_crypto {import_cost('import gantry_crypto as g; g.sha256(b' + repr('') + ').digest()'):.1f} ms, ", end="")
    print(f"hashlib {import_cost('import hashlib; hashlib.sha256(b' + repr('') + ').digest()'):.1f} ms")


main()
