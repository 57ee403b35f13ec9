"""Is the simulator right about ourselves? The real stack on the CPU, and the simulator with a profile of it.

    python bench/simulated.py [--requests 1000] [--rounds 10] [--cores 0,1] [--json FILE] [--profile FILE]

One prefill and one decode executor with the small model, a core each. Before each round a part of a profile: what steps
take alone and what they cost each other, and what a request takes that meets no queue beyond what the simulator knows.
The rounds are of one load each, with seeds of their own, on the real stack; then the same rounds in the simulator, with
a profile of all parts: a machine that is faster in one minute than in the next is so for both sides. Figures are means
of the rounds with 95 % intervals. Exit code 1 if one that is judged is further off than its limit (10 % at p50, 15 % at
p95). `--profile` writes the profile, `--json` all figures. Wants a quiet machine, of which 1,000 requests take about
ten minutes, and never more than twenty.

What the simulator is told, and whence: steps, their noise and what P and D cost each other, from the executors' own
pages of steps; KV's way from a prompt's end to its landing, the median of the stack's closing lines; the intake (HTTP,
tokenization, control messages), the median by which the first token of a request that meets nobody comes later than in
the simulator. Nothing is fitted to the rounds that are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baton.core.metrics.facts import RequestFacts
from baton.core.sim.fleet_run.scenario_file import make_scenario, read_scenario
from baton.core.sim.step_time.contention import alone_s, shares_beside
from baton.core.sim.step_time.fit import Fit, fit
from baton.core.sim.step_time.model import KindModel, StepModel
from baton.core.sim.step_time.observed import ObservedStep
from baton.core.sim.step_time.profile import Profile, encode_profile
from baton.services.loadgen.comparing import read_run
from baton.services.loadgen.results import describe_machine
from baton.services.model.fetch import DEFAULT_MODEL
from baton.services.profile.__main__ import observe
from baton.services.profile.drive import read_steps
from baton.services.sim.load import load_of
from baton.services.sim.run import simulate
from bench.policy.stack import SPLIT, Closing, closings, load, start
from bench.simulated_figures import Compared, compare, figures_of
from bench.systems import Baton
from bench.table import print_table

MAX_LOAD_S = 60.0  #: of each load of the profile
MAX_ROUND_S = 180.0  #: of each round; one that is not over by then is an error
NAME = "cpu-smollm2"
SCENARIO = "ourselves"  #: says the load of the rounds, too
#: what a request takes that meets nobody
ALONE = {"concurrency": "1", "input_tokens": "uniform:16-96", "output_tokens": "1", "warm_up_requests": "4"}
NUM_ALONE = 30
#: of the profile: kinds of steps, also longer than those of the rounds, then both executors at once
PROFILED = {
    "prompts alone": (50, "--concurrency 1 --input-tokens uniform:4-160 --output-tokens 1"),
    "prompts together": (60, "--concurrency 6 --input-tokens uniform:4-128 --output-tokens 1"),
    "long prompts": (14, "--concurrency 1 --input-tokens uniform:160-900 --output-tokens 1"),
    "decodes": (40, "--concurrency 8 --input-tokens uniform:4-24 --output-tokens uniform:32-80"),
    "long contexts": (12, "--concurrency 4 --input-tokens uniform:200-800 --output-tokens 24"),
    "both": (300, "--concurrency 6 --input-tokens uniform:16-96 --output-tokens uniform:8-32"),
}


class Calibration(NamedTuple):
    """What the simulator is told of the stack."""

    profile: Profile
    wires: dict[str, float]


class Seen:
    """What the stack showed of itself between the rounds, part after part."""

    def __init__(self, system: Baton, folder: Path, num_parts: int) -> None:
        self._system, self._folder, self._num_parts = system, folder, num_parts
        self._pages = [f"http://127.0.0.1:{port}" for port in admin_ports(system)]
        self._limits = [read_steps(page) for page in self._pages]
        self._prefill: list[ObservedStep] = []
        self._decode: list[ObservedStep] = []
        self._closings: list[Closing] = []
        self._alone: list[list[RequestFacts]] = []
        self._in_rounds: tuple[list[ObservedStep], list[ObservedStep]] = ([], [])

    def see_part(self) -> None:
        """All kinds of load in turn, for less time than a round takes."""
        number, told = len(self._alone), len(self._system.log())
        loads = {
            name: f"{load} --num-requests {self._part_of(num_requests)} --seed {number}"
            for name, (num_requests, load) in PROFILED.items()
        }
        url = f"http://127.0.0.1:{self._system.port}"
        (_, prefill), (_, decode) = observe(self._pages, url, MAX_LOAD_S, loads)
        self._prefill += prefill
        self._decode += decode
        self._closings += closings(self._system.log()[told:])
        self._alone.append(run_real(self._system, self._folder / f"alone{number}", self._asked_alone(), number))

    def round(self, asked: Mapping[str, str], number: int) -> list[RequestFacts]:
        """One that is compared. Of its steps it is only told how they differ from the profile's."""
        last = [max(step.step_id for step in read_steps(page).steps) for page in self._pages]
        facts = run_real(self._system, self._folder / f"round{number}", asked, number)
        for steps, page, after in zip(self._in_rounds, self._pages, last, strict=True):
            steps += read_steps(page, after).steps
        return facts

    def drift(self, steps: StepModel) -> dict[str, float]:
        """How long steps of the rounds would have taken alone, over what the profile says of them."""
        prefill, decode = self._in_rounds
        return {"prefill": _drift(steps.prefill, prefill, decode), "decode": _drift(steps.decode, decode, prefill)}

    def calibration(self) -> Calibration:
        """Of all parts."""
        prefill, decode = fit(self._prefill, self._decode), fit(self._decode, self._prefill)
        kv_tokens = min(page.kv_tokens for page in self._limits)
        found = Calibration(merge(prefill, decode, self._limits[0].kv, kv_tokens), wires_of(self._closings))
        real, model = [], []
        for number, facts in enumerate(self._alone):
            real += ttfts(facts)
            model += ttfts(run_simulated(found, self._asked_alone(), number))
        beyond_s = statistics.median(real) - statistics.median(model)
        return Calibration(found.profile, found.wires | {"intake_s": round(max(beyond_s, 0.0), 6)})

    def _part_of(self, num_requests: int) -> int:
        return ceil(num_requests / self._num_parts)

    def _asked_alone(self) -> dict[str, str]:
        return ALONE | {"num_requests": str(self._part_of(NUM_ALONE))}


def _drift(model: KindModel | None, steps: Sequence[ObservedStep], beside: Sequence[ObservedStep]) -> float:
    assert model is not None
    seconds = np.array([step.duration_s for step in steps])
    alone = alone_s(seconds, shares_beside(steps, beside), model.neighbour_slowdown)
    return float(alone.sum()) / sum(model.seconds(step.features) for step in steps)


def merge(prefill: Fit, decode: Fit, kv: Any, kv_tokens: int) -> Profile:
    """One profile of both roles: prompts as P computes them, decodes as D does."""
    errors = {"prefill": prefill.errors["prefill"], "decode": decode.errors["decode"]}
    steps = msgspec.structs.replace(decode.model, prefill=prefill.model.prefill, mixed=None)
    counts = ", ".join(f"{error.num_steps} {kind}" for kind, error in errors.items())
    source = f"bench/simulated.py: {DEFAULT_MODEL} in float32, prefill and decode executor with one core each of two; "
    machine = describe_machine()
    return Profile(
        name=NAME,
        source=source + f"{counts} steps; mixed steps are joined here of both kinds",
        kv=kv,
        kv_tokens=kv_tokens,
        steps=steps,
        fit_errors=errors,
        machine={"processor": str(machine["processor"]), "cores": "1 of 2"},
    )


def wires_of(lines: Sequence[Closing]) -> dict[str, float]:
    """KV's way from the end of its prompt to its landing, with everything in it, whatever its size: these transfers
    are small. Control messages are fast beside it."""
    computed = {line.request: line.at_s["computed"] for line in lines if "computed" in line.at_s}
    landed = [
        line.at_s["landed"] - computed[line.request]
        for line in lines
        if line.what == "decode ended" and "landed" in line.at_s and line.request in computed
    ]
    return {"kv_setup_s": round(max(statistics.median(landed), 1e-4), 6)}


def admin_ports(system: Baton) -> tuple[int, int]:
    """Of the prefill and of the decode executor."""
    found = {}
    for line in system.log().splitlines():
        if " what=serving " in line:
            fields = dict(part.split("=", 1) for part in line.split(" ") if "=" in part)
            found[fields["service"]] = int(fields["admin_port"])
    return found["prefill0"], found["decode0"]


def run_real(system: Baton, folder: Path, asked: Mapping[str, str], seed: int) -> list[RequestFacts]:
    folder.mkdir(parents=True)
    told = {name: value for name, value in asked.items() if name != "warm_up_requests"}
    flags = [part for name, value in told.items() for part in (f"--{name.replace('_', '-')}", value)]
    flags += ["--seed", str(seed), "--count-tokens", "--max-time-s", str(MAX_ROUND_S)]
    load(system, folder, flags, int(asked["warm_up_requests"]))
    return list(read_run(folder / "load").facts)


def run_simulated(calibration: Calibration, asked: Mapping[str, str], seed: int) -> list[RequestFacts]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        path.write_bytes(encode_profile(calibration.profile))
        table = read_scenario(SCENARIO)
        table |= {"profile": str(path), "wires": calibration.wires, "load": dict(asked), "seed": seed}
        scenario = make_scenario(table)
        return simulate(scenario, load_of(scenario)).facts


def ttfts(facts: Sequence[RequestFacts]) -> list[float]:
    return [row.chunks[0].time_s - row.sent_s for row in facts if row.chunks and row.sent_s is not None]


def tell(found: Measured, rows: Sequence[Compared]) -> None:
    calibration = found.calibration
    steps = calibration.profile.steps
    for name, error in calibration.profile.fit_errors.items():
        model = steps.prefill if name == "prefill" else steps.decode
        assert model is not None
        text = (
            f"mean error {error.mape:.1%}, noise {model.noise:.1%}, beside the other × {model.neighbour_slowdown:.3f}"
        )
        print(f"{name} steps: {error.num_steps}, {text}; in the rounds × {found.drift[name]:.3f}")
    wires = calibration.wires
    print(f"intake {wires['intake_s'] * 1e3:.1f} ms, KV's way {wires['kv_setup_s'] * 1e3:.1f} ms, "
          f"host {steps.host_s * 1e3:.2f} ms a step")  # fmt: skip
    heads = ["figure", "real", "interval", "simulated", "interval", "off", "ratio's interval", "limit", ""]
    print_table(heads, [_cells(row) for row in rows])


def _cells(row: Compared) -> list[str]:
    scale = 1e3 if "_s." in row.figure and not row.figure.startswith("output") else 1.0

    def interval(found: Any, factor: float = scale) -> str:
        return "" if found.low is None else f"{found.low * factor:.4g} – {found.high * factor:.4g}"

    verdict = "" if row.limit is None else "holds" if row.holds else "OFF"
    limit = "" if row.limit is None else f"{row.limit:.0%}"
    return [
        row.figure.replace("_s.", " ms ") if scale > 1 else row.figure,
        f"{row.real.value * scale:.4g}", interval(row.real),
        f"{row.simulated.value * scale:.4g}", interval(row.simulated),
        f"{row.off:+.1%}", interval(row.ratio, 1.0), limit, verdict,
    ]  # fmt: skip


class Measured(NamedTuple):
    """Rounds at the same place are of one load."""

    calibration: Calibration
    drift: dict[str, float]
    asked: dict[str, str]
    real: list[dict[str, float]]
    simulated: list[dict[str, float]]


def measure(num_requests: int, num_rounds: int, cores: str, folder: Path) -> Measured:
    """The rounds of both sides."""
    asked = {name: str(value) for name, value in read_scenario(SCENARIO)["load"].items()}
    asked["num_requests"] = str(max(1, num_requests // num_rounds))
    began_at = time.monotonic()
    system = start(folder / "stack", SPLIT, cores, '[scheduler]\nplacement = "always_pd"\n')
    try:
        seen = Seen(system, folder, num_rounds)
        real = []
        for number in range(num_rounds):
            seen.see_part()
            real.append(figures_of(seen.round(asked, number + 1)))
            print(f"round {number + 1} after {time.monotonic() - began_at:.0f} s", file=sys.stderr)
    finally:
        system.close()
    calibration = seen.calibration()
    simulated = [figures_of(run_simulated(calibration, asked, number + 1)) for number in range(num_rounds)]
    print(f"simulated after {time.monotonic() - began_at:.0f} s", file=sys.stderr)
    return Measured(calibration, seen.drift(calibration.profile.steps), asked, real, simulated)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000, help="of all rounds together")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cores", default="0,1", help="two, by commas")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write the profile there")
    return parser.parse_args()


def main() -> int:
    asked = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        found = measure(asked.requests, asked.rounds, asked.cores, Path(folder))
    calibration, rows = found.calibration, compare(found.real, found.simulated)
    tell(found, rows)
    if asked.profile:
        asked.profile.write_bytes(encode_profile(calibration.profile))
    if asked.json:
        report = {
            "model": DEFAULT_MODEL,
            "machine": describe_machine(),
            "wires": calibration.wires,
            "steps_in_rounds_over_profile": found.drift,
            "profile": msgspec.to_builtins(calibration.profile),
            "figures": [msgspec.to_builtins(row._asdict()) | {"off": row.off, "holds": row.holds} for row in rows],
            "load": found.asked,
            "real": found.real,
            "simulated": found.simulated,
        }
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
