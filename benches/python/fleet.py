"""Simulates the time that a fleet of workers takes to hash many files, by how the work is shared, and prints a table.

    python3 benches/python/fleet.py

Needs only Python. All workers are equally fast, but a straggler has a quarter of their speed, and a lost worker ends at a random time and
loses its unfinished files. With a static split, another job hashes the missing files afterwards, on the remaining workers. Times are
multiples of the time of the same workers without stragglers, losses and idle moments.
"""

import heapq
import math
import random

WORKERS, FILES, STRAGGLERS, LOST, SEED, RUNS = 32, 200_000, 2, 2, 25, 5
# Files and bytes of a batch, as `manifest.batches` has them.
BATCH_FILES, BATCH_BYTES = 1024, 8 << 30
# Bytes a second of a worker, and the seconds of a file besides its bytes.
RATE, COST = 1e9, 0.0005


def sizes(random):
    """Returns sizes of files in the listed order: their logarithms are normal, half are below 1 MiB, and none is above 16 GiB."""
    return [min(16 << 30, int(random.lognormvariate(math.log(1 << 20), 2.5))) for _ in range(FILES)]


def batches(files):
    """Returns the seconds of each batch on a worker that is no straggler."""
    found, count, held = [], 0, 0
    for size in files:
        count, held = count + 1, held + size
        if count == BATCH_FILES or held >= BATCH_BYTES:
            found.append(held / RATE + count * COST)
            count, held = 0, 0
    return [*found, held / RATE + count * COST] if count else found


def static(parts, speeds, ends):
    """Returns the end of a job with a static split, including the job that hashes the lost files afterwards."""
    shares = [parts[begin :: len(speeds)] for begin in range(len(speeds))]
    times, rest = [], []
    for share, speed, end in zip(shares, speeds, ends):
        now = 0.0
        for index, part in enumerate(share):
            if now + part / speed > end:
                rest += share[index:]
                now = end
                break
            now += part / speed
        times.append(now)
    end = max(times)
    left = [speed for speed, lost in zip(speeds, ends) if lost == float("inf")]
    return end + (static(rest, left, [float("inf")] * len(left)) if rest else 0)


def dynamic(parts, speeds, ends):
    """Returns the end of a job whose free workers take the next batch. The batch of a lost worker goes to the next one."""
    free = [(0.0, worker) for worker in range(len(speeds))]
    # A lost batch is dealt again when its worker ends.
    waiting, lost, last = list(reversed(parts)), [], 0.0
    while waiting or lost:
        now, worker = heapq.heappop(free)
        if lost and (lost[0][0] <= now or not waiting):
            back, part = heapq.heappop(lost)
            now = max(now, back)
        else:
            part = waiting.pop()
        if now + part / speeds[worker] > ends[worker]:
            heapq.heappush(lost, (max(now, ends[worker]), part))
            continue
        now += part / speeds[worker]
        last = max(last, now)
        heapq.heappush(free, (now, worker))
    return last


def run(seed):
    """Returns multiples of the ideal time of one fleet, by trouble and split."""
    source = random.Random(seed)
    files = sizes(source)
    largest = sorted(files, reverse=True)
    ideal = (sum(files) / RATE + FILES * COST) / WORKERS
    never = float("inf")
    slow = [0.25] * STRAGGLERS + [1.0] * (WORKERS - STRAGGLERS)
    gone = [never] * (WORKERS - LOST) + [ideal * source.uniform(0.2, 0.8) for _ in range(LOST)]
    troubles = {
        "none": ([1.0] * WORKERS, [never] * WORKERS),
        f"{STRAGGLERS} stragglers": (slow, [never] * WORKERS),
        f"{LOST} lost workers": ([1.0] * WORKERS, gone),
        "both": (slow, gone),
    }
    ways = {
        "static, as listed": lambda speeds, ends: static(batches(files), speeds, ends),
        "dynamic, as listed": lambda speeds, ends: dynamic(batches(files), speeds, ends),
        "dynamic, largest first": lambda speeds, ends: dynamic(batches(largest), speeds, ends),
    }
    return {(trouble, way): share(*fleet) / ideal for trouble, fleet in troubles.items() for way, share in ways.items()}


def table():
    """Returns the rows, each the median of some fleets."""
    runs = [run(SEED + index) for index in range(RUNS)]
    troubles, ways = ([*dict.fromkeys(key[place] for key in runs[0])] for place in (0, 1))
    rows = [f"| {WORKERS} workers, {FILES:,} files | " + " | ".join(ways) + " |", "|---" * (len(ways) + 1) + "|"]
    for trouble in troubles:
        medians = [sorted(each[trouble, way] for each in runs)[RUNS // 2] for way in ways]
        rows.append(f"| {trouble} | " + " | ".join(f"{median:.2f}" for median in medians) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
