"""How long do the native core's hot paths take? Prints one table of medians; `--json FILE` writes them too.

On a shared machine a neighbour on the same core takes up to half of it for seconds at a time. So everything is measured
in rounds, and each path shows the median over all of them and that of its quietest round; the latter is held against
the aim.
"""

import argparse
import array
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.core.kv.block_hash import hash_chain, lane_width
from baton.core.kv.block_pool import BlockPool
from baton.core.kv.prefix_compare import first_difference
from baton.core.kv.ready_queue import ReadyQueue
from bench.board_lines import Line
from bench.table import print_table

KEY, ROOT = bytes(range(16)), bytes(16)
NUM_PROMPT_TOKENS, BLOCK_SIZE = 131_072, 64
NUM_COMPARED_TOKENS = 32_768
NUM_POOL_BLOCKS, NUM_TABLE_BLOCKS = 65_536, 512
NUM_ADMITTED = 16
NUM_ROUNDS = 12
MOST_FOR_DEPTH = 1.5  #: a turn with 100,000 waiting, of one with 256

Admitted = tuple[int, tuple[int, int, int], tuple[int, int]]  #: handle, key, demand


class Timing(NamedTuple):
    """One path in one round."""

    name: str
    median_us: float
    aim_us: float | None


class Row(NamedTuple):
    """One path over all rounds."""

    name: str
    median_us: float
    quietest_us: float
    aim_us: float | None


def measure(
    name: str,
    run: Callable[[], object],
    *,
    aim_us: float | None = None,
    repeats: int = 200,
    prepare: Callable[[], object] = lambda: None,
    divide_by: int = 1,
) -> Timing:
    """Time `run` alone, `repeats` times, each after `prepare`; microseconds for each of `divide_by` parts."""
    times_us = []
    for _ in range(repeats):
        prepare()
        start_ns = time.perf_counter_ns()
        run()
        times_us.append((time.perf_counter_ns() - start_ns) / 1000 / divide_by)
    return Timing(name, statistics.median(times_us), aim_us)


def hash_rows(rng: random.Random) -> Iterator[Timing]:
    tokens = array.array("i", (rng.randrange(50_000) for _ in range(NUM_PROMPT_TOKENS)))
    for lanes, aim_us in ((True, 150.0), (False, 320.0)):
        width = f"{lane_width()} lanes" if lanes else "portable"
        chain = partial(hash_chain, KEY, ROOT, tokens, BLOCK_SIZE, lanes)
        yield measure(f"hash chain, {NUM_PROMPT_TOKENS:,} tokens, block {BLOCK_SIZE}, {width}", chain, aim_us=aim_us)


def compare_rows(rng: random.Random) -> Iterator[Timing]:
    tokens = array.array("i", (rng.randrange(50_000) for _ in range(NUM_COMPARED_TOKENS)))
    equal, other = tokens[:], tokens[:]
    other[0] ^= 1
    yield measure(f"prefix compare, {NUM_COMPARED_TOKENS:,} equal tokens", lambda: first_difference(tokens, equal))
    yield measure("prefix compare, the first token differs", lambda: first_difference(tokens, other))


def pool_rows() -> Iterator[Timing]:
    pool = BlockPool(NUM_POOL_BLOCKS)
    tables: list[bytes] = []
    name = f"per block, {NUM_TABLE_BLOCKS} at once"
    yield measure(
        f"pool allocate {name}",
        lambda: tables.append(pool.allocate(NUM_TABLE_BLOCKS)),
        divide_by=NUM_TABLE_BLOCKS,
        repeats=100,
        aim_us=0.010,
    )
    yield measure(f"pool release {name}", lambda: pool.release(tables.pop()), divide_by=NUM_TABLE_BLOCKS, repeats=100)
    hashes = hash_chain(KEY, ROOT, bytes(4 * NUM_PROMPT_TOKENS), BLOCK_SIZE)
    table = memoryview(pool.allocate(len(hashes) // 16)).cast("i")
    for position, block in enumerate(table):
        pool.publish(block, hashes[16 * position : 16 * position + 16], table[position - 1] if position else -1)
    yield measure(f"pool match of {len(table):,} published hashes", lambda: pool.match(hashes))
    held: list[bytes] = []
    yield measure(
        f"pool acquire per block, {len(table):,} at once",
        lambda: held.append(pool.acquire(hashes, len(table))),
        divide_by=len(table),
        repeats=100,
    )


def filled_queue(rng: random.Random, num_waiting: int) -> ReadyQueue:
    queue = ReadyQueue()
    for handle in range(num_waiting):
        queue.push(handle, rng.randrange(3), rng.randrange(10**6), handle, 8 + int(rng.paretovariate(1.1)), 1)
    return queue


def admit(queue: ReadyQueue, admitted: list[Admitted]) -> None:
    """Take the first sixteen that fit into what is free, as a scheduler's turn does."""
    for _ in range(NUM_ADMITTED):
        handle = queue.first_fit(12, NUM_ADMITTED)
        admitted.append((handle, queue.key(handle), queue.demand(handle)))
        queue.remove(handle)


def turn_name(num_waiting: int) -> str:
    return f"queue turn that admits {NUM_ADMITTED} of {num_waiting:,}"


def queue_rows(rng: random.Random) -> Iterator[Timing]:
    for num_waiting in (256, 10_000, 100_000):
        yield from turns(filled_queue(rng, num_waiting), num_waiting)


def turns(queue: ReadyQueue, num_waiting: int) -> Iterator[Timing]:
    admitted: list[Admitted] = []

    def put_back() -> None:
        while admitted:
            handle, key, demand = admitted.pop()
            queue.push(handle, *key, *demand)

    yield measure(turn_name(num_waiting), lambda: admit(queue, admitted), prepare=put_back)
    put_back()
    yield measure(
        f"queue turn in which none of {num_waiting:,} fits", lambda: queue.first_fit(8, NUM_ADMITTED), aim_us=5.0
    )


def tell(rows: list[Row]) -> None:
    cells = [
        [
            row.name,
            f"{row.median_us:.3f}",
            f"{row.quietest_us:.3f}",
            "" if row.aim_us is None else f"{row.aim_us:.3g}",
        ]
        for row in rows
    ]
    print_table(["path", "median µs", "quietest µs", "aim µs"], cells)


def one_round() -> list[Timing]:
    rng = random.Random(1)
    return [*hash_rows(rng), *compare_rows(rng), *pool_rows(), *queue_rows(rng)]


def over_all_rounds(rounds: list[list[Timing]]) -> Iterator[Row]:
    for timings in zip(*rounds, strict=True):
        medians_us = [timing.median_us for timing in timings]
        yield Row(timings[0].name, statistics.median(medians_us), min(medians_us), timings[0].aim_us)


def with_aim_of_depth(rows: list[Row]) -> list[Row]:
    """How long a turn takes does not depend on how many wait."""
    shallow = next(row for row in rows if row.name == turn_name(256))
    deep = turn_name(100_000)
    return [row._replace(aim_us=MOST_FOR_DEPTH * shallow.quietest_us) if row.name == deep else row for row in rows]


def board_lines(report: list[dict[str, Any]]) -> Iterator[Line]:
    """What the board asks of this script's JSON: each path in its quietest round, beside its aim."""
    for row in report:
        yield Line(row["name"], "µs", False, row["quietest_us"], limit=row["aim_us"], limit_name="aim")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON, too")
    arguments = parser.parse_args()
    rows = with_aim_of_depth(list(over_all_rounds([one_round() for _ in range(NUM_ROUNDS)])))
    tell(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
