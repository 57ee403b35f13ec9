"""What does keeping a trace cost, and what does asking for it cost those who are served meanwhile?

    python bench/tracing.py [--json FILE] [--model NAME|FOLDER] [--requests 256] [--streams 64] [--pairs 12] [--control]

Two deployments as in bench/control_plane.py (P/D, a fake device that takes no time), one with `service.trace_events` at
its default and one with 0, both warmed and idle while the other is asked. Loads go to them in turns, first one or the
other by turns, so that each pair of loads meets the same machine. Told is CPU per request of all threads of each
process, and the median of the pairs' ratios with its quartiles. Where other work shares the cores these scatter, so
the same is told of a third deployment's journals, turn by turn: time in the recorder beside time in the deciding node.
Then how long the page /trace takes with what a process remembers of all this.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.core.journal import decode_event, read_journal
from baton.core.trace.recorder import Recorder
from baton.services.runtime.settings import ServiceSettings
from baton.services.sim.replay import make_node, read_hash_key
from bench.control_plane import CONFIG, cpu_of
from bench.load import offer
from bench.systems import Baton
from bench.table import print_table


class Share(NamedTuple):
    """What the turns of one process took, replayed from its journal."""

    process: str
    num_turns: int
    decide_us: float  #: the node, per turn
    record_us: float  #: the recorder, per turn

    @property
    def share(self) -> float:
        return self.record_us / self.decide_us


class Cost(NamedTuple):
    """CPU per request of one process (or of all), with and without a trace."""

    process: str
    off_ms: float
    on_ms: float
    ratio: float  #: median of the pairs'
    low: float  #: their quartiles
    high: float


def start(folder: Path, name: str, model: str, num_events: int) -> Baton:
    config = CONFIG + f"[service]\ntrace_events = {num_events}\n"
    place = folder / name
    place.mkdir()
    return Baton(name, place, ["--device", "fake", "--model", model], config)


def load(system: Baton, streams: int, num_requests: int) -> dict[str, float]:
    """CPU milliseconds per request, by process."""
    before = cpu_of(system)
    seen = offer(system.port, "token ids", system.model, streams, num_requests)
    after = cpu_of(system)
    each = {name: (after[name] - before[name]) * 1e3 / seen.num_requests for name in before}
    return each | {"all": sum(each.values())}


def compare(off: Baton, on: Baton, streams: int, num_requests: int, num_pairs: int) -> list[Cost]:
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(num_pairs):
        first, second = (off, on) if number % 2 else (on, off)
        seen = {system.name: load(system, streams, num_requests) for system in (first, second)}
        pairs.append((seen[off.name], seen[on.name]))
    return [cost_of(name, [(before[name], after[name]) for before, after in pairs]) for name in pairs[0][0]]


def cost_of(process: str, pairs: list[tuple[float, float]]) -> Cost:
    ratios = [on / off for off, on in pairs if off > 0]
    low, middle, high = statistics.quantiles(ratios, n=4)
    offs, ons = zip(*pairs, strict=True)
    return Cost(process, statistics.median(offs), statistics.median(ons), middle, low, high)


def shares(folder: Path, model: str, streams: int, num_requests: int) -> list[Share]:
    """Of each process of a deployment that keeps journals."""
    journals = folder / "journals"
    place = folder / "journaled"
    place.mkdir()
    flags = ["--device", "fake", "--model", model, "--journal", str(journals)]
    system = Baton("journaled", place, flags, CONFIG)
    try:
        load(system, streams, num_requests)
    finally:
        system.close()
    key = read_hash_key(journals / "hash.key")
    return [replayed(path, key) for path in sorted(journals.glob("*.journal"))]


def replayed(path: Path, hash_key: bytes) -> Share:
    with path.open("rb") as stream:
        header, turns = read_journal(stream)
        node = make_node(header, hash_key)
        slot_bytes = 0 if header.layout is None else header.layout.slot_bytes
        recorder, timer = Recorder(ServiceSettings().trace_events, slot_bytes), time.thread_time
        num_turns, decide_s, record_s = 0, 0.0, 0.0
        for turn in turns:
            event = decode_event(turn.event)
            begin = timer()
            commands = node.handle(event, turn.now)
            decided = timer()
            recorder.turn(event, commands, turn.now, turn.now)
            record_s += timer() - decided
            decide_s += decided - begin
            num_turns += 1
    return Share(header.own.name, num_turns, decide_s / num_turns * 1e6, record_s / num_turns * 1e6)


def page_ms(admin_port: int) -> tuple[float, int]:
    """How long the loop makes others wait at most, and the bytes of the answer."""
    begin = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/trace?seconds=3600", timeout=60) as answer:
        body = answer.read()
    return (time.perf_counter() - begin) * 1e3, len(body)


def admin_ports(system: Baton) -> dict[str, int]:
    records = [json.loads(path.read_text()) for path in sorted(system.run_folder().glob("*.json"))]
    return {record["name"]: record["admin_port"] for record in records}


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        systems: list[Baton] = []
        try:
            kept = 0 if asked.control else ServiceSettings().trace_events
            for name, num_events in (("off", 0), ("on", kept)):
                systems.append(start(Path(folder), name, asked.model, num_events))
                load(systems[-1], 16, 64)
            off, on = systems
            costs = compare(off, on, asked.streams, asked.requests, asked.pairs)
            pages = {} if asked.control else {name: page_ms(port) for name, port in admin_ports(on).items()}
        finally:
            for system in systems:
                system.close()
        found = shares(Path(folder), asked.model, asked.streams, asked.requests)
    return {
        "shares": [share._asdict() | {"share": share.share} for share in found],
        "costs": [cost._asdict() for cost in costs],
        "pages": {name: {"ms": ms, "bytes": size} for name, (ms, size) in pages.items()},
        "streams": asked.streams,
        "requests": asked.requests,
        "pairs": asked.pairs,
    }


def tell(report: dict[str, Any]) -> None:
    heads = ["process", "off ms/req", "on ms/req", "on / off", "quartiles"]
    rows = [Cost(**cost) for cost in report["costs"]]
    print_table(
        heads,
        [
            [c.process, f"{c.off_ms:.3f}", f"{c.on_ms:.3f}", f"{c.ratio:.3f}", f"{c.low:.3f}-{c.high:.3f}"]
            for c in rows
        ],
    )
    heads = ["process", "turns", "decide µs/turn", "record µs/turn", "share"]
    found = report["shares"]
    print_table(
        heads,
        [
            [s["process"], str(s["num_turns"]), f"{s['decide_us']:.1f}", f"{s['record_us']:.2f}", f"{s['share']:.3f}"]
            for s in found
        ],
    )
    for name, page in report["pages"].items():
        print(f"/trace of {name}: {page['ms']:.1f} ms, {page['bytes'] / 1e6:.2f} MB")
    print("Not covered: other loads than this one, real devices, traces across hosts, a reader of /trace while asked.")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--requests", type=int, default=256, help="of one load")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--control", action="store_true", help="neither keeps a trace: the error of the comparison")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    asked = parse_arguments()
    report = measure(asked)
    tell(report)
    if asked.json:
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
