"""Rows that are benchmarks with aims of their own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.accept.commands import RAN_PAST_LIMIT, ROOT, run
from tests.accept.row import Options, Row, cannot_run, judged
from tests.support.environment import DYNAMO
from tests.support.namespaces import can_unshare

LIMIT_S = 1200.0
AIM_RATIO = 1.0
KINDS = ("chat text", "token ids")
BATON, PEER = "baton unified", "dynamo unified"
SIMULATOR_AIM_S, SIMULATOR_AIM_MIB = 60.0, 1024.0
SIMULATOR_REQUESTS, SIMULATOR_REQUESTS_QUICK = 12_031, 1_200  #: of the trace; a part has its share of the time
STALL_MS = 40.0  #: what Nagle's algorithm costs a request where it is not switched off


class TooBusy(Exception):
    """The machine is too busy, or too small, for this measurement."""


def report(script: str, *arguments: str) -> Any:
    """The JSON of one script in `bench/`; raises TooBusy at its limit, RuntimeError if it fails."""
    with TemporaryDirectory(prefix="accept-") as name:
        path = Path(name) / "report.json"
        done = run([sys.executable, str(ROOT / "bench" / script), "--json", str(path), *arguments], LIMIT_S)
        if done.code == RAN_PAST_LIMIT:
            raise TooBusy(f"bench/{script} did not end within {LIMIT_S:.0f} s")
        if done.code != 0:
            raise RuntimeError(f"bench/{script}: {done.output[-2000:]}")
        return json.loads(path.read_text())


def bench_executor(options: Options) -> Row:
    asked = f"each row at least {AIM_RATIO} × the best float32 engine found (here: transformers, same threads)"
    try:
        found = report("executor.py", "--repeats", "2" if options.quick else "5")
    except TooBusy as error:
        return cannot_run(asked, str(error))
    ratios = {row["name"]: row["transformers_s"] / row["baton_s"] for row in found["rows"]}
    measured = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return judged(asked, measured, min(ratios.values()) >= AIM_RATIO, ratios=ratios)


def bench_router(options: Options) -> Row:
    asked = (
        "router CPU for 512 in, 64 out, concurrency 64: at most that of Dynamo's front end, measured in turns; at "
        f"concurrency 1 a first token within {STALL_MS:.0f} ms"
    )
    why_not = DYNAMO.install() if can_unshare() else "no network namespaces here"
    if why_not:
        return cannot_run(asked, why_not)
    flags = ["--requests", "256" if options.quick else "1024", "--streams", "1,64"]
    flags += ["--only", BATON, "--only", PEER]
    try:
        rows = report("control_plane.py", *flags, "--dynamo-python", DYNAMO.program("python"))
    except TooBusy as error:
        return cannot_run(asked, str(error))
    found = {(row["system"], row["prompts"], row["streams"]): row for row in rows}
    pairs = {kind: [found[name, kind, 64]["front_cpu_ms_per_request"] for name in (BATON, PEER)] for kind in KINDS}
    first_ms = {kind: found[BATON, kind, 1]["ttft_p50_ms"] for kind in KINDS}
    measured = ", ".join(
        f"{kind} {ours:.2f} ms (Dynamo {theirs:.2f}), first token {first_ms[kind]:.1f} ms"
        for kind, (ours, theirs) in pairs.items()
    )
    is_met = all(ours <= theirs for ours, theirs in pairs.values()) and max(first_ms.values()) < STALL_MS
    return judged(asked, measured, is_met, rows=rows)


def simulator(options: Options) -> Row:
    limits = f"{SIMULATOR_AIM_S:.0f} s of one core and {SIMULATOR_AIM_MIB:.0f} MiB"
    asked = f"Mooncake's conversation trace, 59 minutes, on 8 simulated executors in {limits}"
    trace = Path(os.environ.get("BATON_DATA", "")) / "mooncake_conversation_trace.jsonl"
    if not trace.is_file():
        return cannot_run(asked, f"$BATON_DATA holds no {trace.name}")
    flags = ["--requests", str(SIMULATOR_REQUESTS_QUICK)] if options.quick else []
    try:
        (row,) = report("simulator.py", "--only", "trace", "--trace", str(trace), *flags)
    except TooBusy as error:
        return cannot_run(asked, str(error))
    share = SIMULATOR_REQUESTS_QUICK / SIMULATOR_REQUESTS if options.quick else 1.0
    measured = f"{row['requests']:,} requests in {row['cpu_s']:.0f} s and {row['rss_mib']} MiB"
    is_whole = row["succeeded"] == row["requests"]
    is_met = is_whole and row["cpu_s"] <= share * SIMULATOR_AIM_S and row["rss_mib"] <= SIMULATOR_AIM_MIB
    return judged(asked, measured, is_met, rows=[row])


def hot_paths(_: Options) -> Row:
    rows = [row for row in report("hot_paths.py") if row["aim_us"] is not None]
    missed = [f"{row['name']}: {row['quietest_us']:.3g} of {row['aim_us']:.3g} µs" for row in rows]
    missed = [text for text, row in zip(missed, rows, strict=True) if row["quietest_us"] > row["aim_us"]]
    return judged(
        "the hot paths of the native core reach their aims in the quietest of the rounds",
        f"{len(rows) - len(missed)} of {len(rows)} reached" + (f"; missed: {'; '.join(missed)}" if missed else ""),
        not missed,
        rows=rows,
    )
