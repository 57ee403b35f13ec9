"""The real stack of a question: `baton up` with the small model on the CPU, one core an executor, and a load on it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from baton.core.metrics.report import Report, decode_report
from baton.services.model.fetch import fetch
from bench.planted import environment
from bench.systems import PD, Baton

SPLIT = ("--prefill", "1", "--decode", "1", *PD)
UNIFIED = ("--prefill", "0", "--decode", "0", "--unified", "1")


class Options(NamedTuple):
    """What all questions share."""

    cores: str = "0,1"
    num_rounds: int = 3
    scale: float = 1.0  #: of the number of requests: less is quicker and says less


class Closing(NamedTuple):
    """The closing line of one attempt on one executor: stages in seconds on the host's clock, and its other numbers."""

    service: str
    what: str
    request: str
    at_s: Mapping[str, float]
    numbers: Mapping[str, float]


def start(folder: Path, shape: Sequence[str], cores: str, config: str = "", plant: str = "") -> Baton:
    """Ready when it is returned. `plant` names what `bench/planted` changes in its executors."""
    folder.mkdir(parents=True, exist_ok=True)
    return Baton("baton", folder, [*shape, "--cores", cores], config, environment(plant))


def load(system: Baton, folder: Path, flags: Sequence[str], warm_up: int = 8) -> Report:
    """`baton bench` in a process of its own. Raises RuntimeError without figures, and where a request failed."""
    command = [sys.executable, "-m", "baton.services.loadgen", "--url", f"http://127.0.0.1:{system.port}"]
    command += ["--model", system.model, "--endpoint", "completions"]
    if "tokens" not in flags:
        command += ["--tokenizer", str(fetch() / "tokenizer.json")]
    command += ["--warm-up-requests", str(warm_up), "--workers", "1", "--no-metrics", "--no-live"]
    done = subprocess.run([*command, "--out", str(folder / "load"), *flags], capture_output=True, text=True)
    try:
        report = decode_report((folder / "load" / "report.json").read_bytes())
    except FileNotFoundError as error:
        raise RuntimeError(f"baton bench:\n{done.stdout}{done.stderr}") from error
    if report.summary.counts.failed:
        raise RuntimeError(f"requests failed: {report.summary.counts.failures}")
    return report


def metric_rows(system: Baton) -> dict[str, dict[str, float]]:
    """What each process says of itself: service → sample with its labels → value."""
    found = {}
    for line in system.log().splitlines():
        if " what=serving " in line:
            fields = dict(part.split("=", 1) for part in line.split(" ") if "=" in part)
            port = fields["http_port"] if fields["admin_port"] == "0" else fields["admin_port"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                rows = [row.rsplit(" ", 1) for row in answer.read().decode().splitlines() if row[:1] != "#"]
            found[fields["service"]] = {name: float(value) for name, value in rows}
    return found


def closings(log: str) -> Iterator[Closing]:
    """The closing lines of all executors in what `baton up` said, in order."""
    for line in log.splitlines():
        fields = dict(part.split("=", 1) for part in line.split(" ") if "=" in part)
        if " ended\"" not in line or "admitted_s" not in fields:
            continue
        numbers = {name: float(value) for name, value in fields.items() if _is_number(value)}
        admitted_s = numbers["admitted_s"]
        at_s = {n.removesuffix("_ms"): admitted_s + v / 1e3 for n, v in numbers.items() if n.endswith("_ms")}
        what = line.split('what="', 1)[1].split('"', 1)[0]
        yield Closing(fields["service"], what, fields["request"], {"admitted": admitted_s, **at_s}, numbers)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
