"""A client that costs little: so many connections, each sends its next request when the last one is answered.

It runs in a process of its own (`offer`), reads answers as bytes and parses nothing but the count of tokens at each
answer's end. `baton bench` (`services/loadgen`) says more of each request; this one is for servers that answer at
once, beside which it must not be what is measured.

    python -m bench.load PORT KIND MODEL STREAMS COUNT
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

NUM_PROMPT_TOKENS, NUM_OUTPUT_TOKENS = 512, 64
KINDS = ("chat text", "token ids")
END_OF_BODY = b"0\r\n\r\n"
NUM_TAIL_BYTES = 2048  #: of an answer: its last event, which tells the usage, is there
USAGE = re.compile(rb'"completion_tokens":\s*(\d+)')

#: one token each to most tokenizers
WORDS = [
    "the", "of", "and", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with", "his",
    "they", "at", "be", "this", "have", "from", "or", "one", "had", "by",
]  # fmt: skip


class Offered(NamedTuple):
    """One load as its client saw it."""

    elapsed_s: float
    num_requests: int
    num_tokens: int  #: as the server counts them
    num_chunks: int  #: events of the streams
    ttft_p50_s: float  #: until the first bytes of the answer's body
    e2e_p50_s: float
    client_cpu_s: float


class Streams:
    """The connections of one client, and what they saw."""

    def __init__(self, port: int, requests: list[bytes]) -> None:
        self._port = port
        self._requests = iter(requests)
        self.ttft_s: list[float] = []
        self.e2e_s: list[float] = []
        self.num_chunks = 0
        self.num_tokens = 0

    async def connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        for request in self._requests:
            started_at = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError((head + await reader.read(2000)).decode(errors="replace"))
            tail, is_first = b"", True
            while not tail.endswith(END_OF_BODY):
                data = await reader.read(1 << 16)
                if not data:
                    raise RuntimeError("the server closed in the middle of an answer")
                if is_first:
                    self.ttft_s.append(time.perf_counter() - started_at)
                    is_first = False
                self.num_chunks += data.count(b"data: ")
                tail = (tail + data)[-NUM_TAIL_BYTES:]
            self.e2e_s.append(time.perf_counter() - started_at)
            self._count_tokens(tail)
        writer.close()

    def _count_tokens(self, tail: bytes) -> None:
        counts = USAGE.findall(tail)
        if not counts or int(counts[-1]) != NUM_OUTPUT_TOKENS:
            raise RuntimeError(f"an answer is not {NUM_OUTPUT_TOKENS} tokens long: {tail[-500:]!r}")
        self.num_tokens += int(counts[-1])


def bodies(kind: str, model: str, count: int) -> list[bytes]:
    """Requests as bytes, each with a prompt of its own."""
    rng = random.Random(1)
    requests = []
    for _ in range(count):
        fields = {"model": model, "max_tokens": NUM_OUTPUT_TOKENS, "ignore_eos": True, "stream": True}
        fields["stream_options"] = {"include_usage": True}
        if kind == "token ids":
            path = "/v1/completions"
            fields["prompt"] = [rng.randrange(256) for _ in range(NUM_PROMPT_TOKENS)]
        else:
            path = "/v1/chat/completions"
            words = [rng.choice(WORDS) for _ in range(NUM_PROMPT_TOKENS - 20)]
            fields["messages"] = [{"role": "user", "content": " ".join(words)}]
        body = json.dumps(fields).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        requests.append(head.encode() + b"\r\n\r\n" + body)
    return requests


def offer(port: int, kind: str, model: str, streams: int, count: int) -> Offered:
    """One load from a process of its own. Raises CalledProcessError if the server fails a request."""
    command = [sys.executable, "-m", "bench.load", str(port), kind, model, str(streams), str(count)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root)
    return Offered(*json.loads(done.stdout))


async def _run(port: int, kind: str, model: str, streams: int, count: int) -> Offered:
    load = Streams(port, bodies(kind, model, count))
    cpu_before_s, started_at = time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(streams, count)):
            group.create_task(load.connection())
    elapsed_s, cpu_s = time.perf_counter() - started_at, time.process_time() - cpu_before_s
    ttft_p50_s, e2e_p50_s = statistics.median(load.ttft_s), statistics.median(load.e2e_s)
    return Offered(elapsed_s, len(load.e2e_s), load.num_tokens, load.num_chunks, ttft_p50_s, e2e_p50_s, cpu_s)


def main() -> None:
    port, kind, model, streams, count = sys.argv[1:]
    print(json.dumps(asyncio.run(_run(int(port), kind, model, int(streams), int(count)))))


if __name__ == "__main__":
    main()
