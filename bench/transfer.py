"""How fast do KV blocks move between two processes of this machine, over each transport?

    python bench/transfer.py [--json FILE] [--transport cma|tcp] [--pieces 200]

Geometry of SmolLM2-135M in float32: 30 KV layers, 3 heads of 64, blocks of 64 tokens (2.9 MB, one piece). Writer and
receiver are processes of their own. Latencies run from `submit` to the event, in the thread that submits.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.core.config import ExecutorConfig
from baton.core.executor.events import (
    CloseTransport,
    ConnectTransport,
    Drive,
    OpenTransport,
    Piece,
    PieceLanded,
    Post,
    ThreadEvent,
    TransportOpened,
)
from baton.core.layout import KvLayout
from baton.services.executor.transfer.environment import configure_transport_environment
from bench.board_lines import Line
from bench.machine import process_cpu_s
from bench.table import print_table

if TYPE_CHECKING:
    from baton.services.executor.transfer.thread import TransferCommand

LAYOUT = KvLayout(30, 3, 64, "float32", 64, "smollm2-135m", "smollm2")
NUM_BLOCKS = 64
TRANSPORTS = {"cma": "tcp,sm,self", "tcp": "tcp,self"}
NUM_BURSTS = 9
IDLE_S = 2.0


class End:
    """One end in this process: its transfer thread, and its events in a queue."""

    def __init__(self, name: str) -> None:
        configure_transport_environment(loopback=True)
        from baton.services.executor.transfer.region import KvRegion
        from baton.services.executor.transfer.thread import TransferThread

        self.memory = np.ones((NUM_BLOCKS, LAYOUT.block_bytes), np.uint8)
        self.events: queue.SimpleQueue[ThreadEvent] = queue.SimpleQueue()
        region = KvRegion(self.memory.ctypes.data, NUM_BLOCKS, LAYOUT)
        piece_bytes = ExecutorConfig().piece_bytes
        self.thread = TransferThread(region, name, self.events.put, crash, max_piece_bytes=piece_bytes)
        self.thread.start()

    def ask(self, command: TransferCommand) -> ThreadEvent:
        self.thread.submit(command)
        return self.events.get(timeout=30)


def crash(error: BaseException) -> None:
    print(f"the transfer thread ended: {error!r}", file=sys.stderr)
    os._exit(1)


def receive() -> None:
    """The receiver: its address on stdout, then it drives as the lines on stdin say."""
    end = End("decode")
    opened = end.ask(OpenTransport("prefill", 1))
    sys.stdout.buffer.write(msgspec.json.encode(opened) + b"\n")
    sys.stdout.flush()
    for line in sys.stdin:
        end.thread.submit(Drive("prefill", 1, line.strip() == "on"))
    end.thread.stop()


def measure(num_pieces: int) -> dict[str, float]:
    """The writer, with a receiver of its own."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--receive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        return measure_against(child, num_pieces)
    finally:
        pipe(child.stdin).close()
        child.wait(30)


def measure_against(child: subprocess.Popen[str], num_pieces: int) -> dict[str, float]:
    opened = msgspec.json.decode(pipe(child.stdout).readline(), type=TransportOpened)
    drive(child, "on")
    end = End("prefill")
    result = {}
    started_at = time.perf_counter()
    end.ask(OpenTransport("decode", 1))
    result["open_ms"] = (time.perf_counter() - started_at) * 1e3
    started_at = time.perf_counter()
    end.ask(ConnectTransport("decode", 1, opened.metadata, opened.base_address, NUM_BLOCKS))
    result["connect_ms"] = (time.perf_counter() - started_at) * 1e3
    result["first_piece_ms"] = single_pieces(end, 1)[0][0]
    single_pieces(end, 20)
    latencies, posts = single_pieces(end, num_pieces)
    result |= percentiles("block", latencies) | {"post_p50_ms": statistics.median(posts)}
    result |= percentiles("partial_block", single_pieces(end, num_pieces, end_slot=LAYOUT.block_size - 1)[0])
    result |= bursts(end, child.pid) | {"copy_gb_per_s": copy_gb_per_s(end.memory)}
    result["receiver_driven_cpu_percent"] = idle_cpu_percent(child.pid)
    drive(child, "off")
    result["receiver_idle_cpu_percent"] = idle_cpu_percent(child.pid)
    result["writer_idle_cpu_percent"] = idle_cpu_percent(os.getpid())
    end.ask(CloseTransport("decode", 1))
    end.thread.stop()
    return result


def single_pieces(end: End, count: int, end_slot: int = LAYOUT.block_size) -> tuple[list[float], list[float]]:
    """One piece at a time: milliseconds from submit to landed, and inside the post."""
    latencies, posts = [], []
    for i in range(count):
        piece = Piece(i, "decode", 1, i % NUM_BLOCKS, (i + 7) % NUM_BLOCKS, 0, end_slot, 0, LAYOUT.num_planes)
        started_at = time.perf_counter()
        event = end.ask(Post((piece,)))
        latencies.append((time.perf_counter() - started_at) * 1e3)
        assert isinstance(event, PieceLanded), event
        posts.append(event.post_s * 1e3)
    return latencies, posts


def bursts(end: End, receiver_pid: int) -> dict[str, float]:
    """All blocks in one command, several times."""
    pieces = tuple(
        Piece(i, "decode", 1, i, NUM_BLOCKS - 1 - i, 0, LAYOUT.block_size, 0, LAYOUT.num_planes)
        for i in range(NUM_BLOCKS)
    )
    times_s = []
    writer_s, receiver_s = process_cpu_s(os.getpid()), process_cpu_s(receiver_pid)
    for _ in range(NUM_BURSTS):
        started_at = time.perf_counter()
        end.thread.submit(Post(pieces))
        for _ in pieces:
            assert isinstance(end.events.get(timeout=30), PieceLanded)
        times_s.append(time.perf_counter() - started_at)
    num_gb = NUM_BURSTS * NUM_BLOCKS * LAYOUT.block_bytes / 1e9
    median_s = statistics.median(times_s)
    return {
        "burst_ms_per_block": median_s * 1e3 / NUM_BLOCKS,
        "burst_gb_per_s": NUM_BLOCKS * LAYOUT.block_bytes / 1e9 / median_s,
        "writer_cpu_s_per_gb": (process_cpu_s(os.getpid()) - writer_s) / num_gb,
        "receiver_cpu_s_per_gb": (process_cpu_s(receiver_pid) - receiver_s) / num_gb,
    }


def copy_gb_per_s(memory: NDArray[np.uint8]) -> float:
    """Of the same blocks within this process, one thread, the best of several: about what no transport passes."""
    copy = np.zeros_like(memory)
    times_s = []
    for _ in range(NUM_BURSTS):
        started_at = time.perf_counter()
        np.copyto(copy, memory)
        times_s.append(time.perf_counter() - started_at)
    return memory.nbytes / 1e9 / min(times_s)


def idle_cpu_percent(pid: int) -> float:
    """CPU of a process with an open connection on which nothing moves."""
    time.sleep(0.2)
    before_s = process_cpu_s(pid)
    time.sleep(IDLE_S)
    return (process_cpu_s(pid) - before_s) / IDLE_S * 100


def percentiles(name: str, values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return {f"{name}_landed_p50_ms": cuts[9], f"{name}_landed_p95_ms": cuts[18]}


def drive(child: subprocess.Popen[str], word: str) -> None:
    lines = pipe(child.stdin)
    lines.write(word + "\n")
    lines.flush()


def pipe(end: IO[str] | None) -> IO[str]:
    """Of a child that was started with it."""
    assert end is not None
    return end


def measure_in_process(transport: str, num_pieces: int) -> dict[str, float]:
    """Each transport in a process of its own: the library reads its settings once."""
    command = [sys.executable, __file__, "--measure", "--pieces", str(num_pieces)]
    env = {**os.environ, "UCX_TLS": TRANSPORTS[transport]}
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=dict[str, float])


def tell(results: dict[str, dict[str, float]]) -> None:
    names = next(iter(results.values()))
    print_table(["", *results], [[name, *(f"{result[name]:.3f}" for result in results.values())] for name in names])


#: figure → question, unit, whether more is better
QUESTIONS = {
    "block_landed_p50_ms": ("one block, from submit to landed, p50", "ms", False),
    "burst_gb_per_s": ("64 blocks in one command", "GB/s", True),
    "writer_cpu_s_per_gb": ("CPU of the writer", "s/GB", False),
    "receiver_cpu_s_per_gb": ("CPU of the receiver", "s/GB", False),
}


def board_lines(report: dict[str, dict[str, float]]) -> Iterator[Line]:
    """What the board asks of this script's JSON. The limit of a burst is a copy within one process."""
    for transport, found in report.items():
        for name, (question, unit, is_more_better) in QUESTIONS.items():
            limit = found["copy_gb_per_s"] if name == "burst_gb_per_s" else None
            yield Line(
                f"{transport}: {question}", unit, is_more_better, found[name], limit=limit, limit_name="copy of memory"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--transport", choices=list(TRANSPORTS), action="append")
    parser.add_argument("--pieces", type=int, default=200)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.receive:
        receive()
    elif args.measure:
        print(json.dumps(measure(args.pieces)))
    else:
        results = {name: measure_in_process(name, args.pieces) for name in args.transport or TRANSPORTS}
        tell(results)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
