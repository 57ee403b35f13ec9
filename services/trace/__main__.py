"""`baton trace`: write what all processes of a deployment did in the last seconds as one trace for Perfetto."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from baton.core.trace.chrome import ProcessTrace, chrome_trace
from baton.services.trace.collect import NothingToTrace, collect, newest_run_folder, urls_in

EXIT_NOTHING = 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="baton trace", description=__doc__)
    made.add_argument("--seconds", type=float, default=10.0, help="how far back (10); a process keeps what it can")
    made.add_argument("--out", type=Path, default=Path("trace.json"), help="the file to write (trace.json)")
    where = made.add_mutually_exclusive_group()
    where.add_argument("--run-folder", type=Path, help="where processes wrote their addresses; that of `baton up` here")
    told = "admin endpoint of a process, such as http://127.0.0.1:9000; may be said several times"
    where.add_argument("--url", action="append", metavar="ADMIN", help=told)
    return made


def main(arguments: list[str] | None = None) -> int:
    made = parser()
    asked = made.parse_args(arguments)
    if not 0 < asked.seconds < float("inf"):
        made.error(f"--seconds {asked.seconds}: a positive number")
    try:
        urls = asked.url or urls_in(asked.run_folder or newest_run_folder())
        processes = asyncio.run(collect(urls, asked.seconds, warn))
    except NothingToTrace as error:
        warn(str(error))
        return EXIT_NOTHING
    trace = chrome_trace(processes)
    try:
        asked.out.write_bytes(msgspec.json.encode(trace))
    except OSError as error:
        warn(f"--out {asked.out}: {error.strerror}")
        return EXIT_NOTHING
    for process in processes:
        print(f"{process.name:<12}{summary(process, asked.seconds)}")
    print(f"{asked.out}: {len(trace['traceEvents'])} events of {len(processes)} processes; see https://ui.perfetto.dev")
    return 0


def summary(process: ProcessTrace, seconds: float) -> str:
    """How much there is of it, how far back, and how well its times agree with others'."""
    told = f"{len(process.records)} records"
    if process.num_forgotten and process.records and (kept_s := process.now - process.records[0][1]) < 0.99 * seconds:
        told += f" of the last {kept_s:.1f} s, older ones are forgotten (service.trace_events)"
    return f"{told}; clock {process.offset_s * 1e6:+.0f} µs, known to {process.error_s * 1e6:.0f} µs"


def warn(text: str) -> None:
    print(f"baton trace: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
