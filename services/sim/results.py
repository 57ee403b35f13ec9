"""From a performance run to the load generator's report and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from baton.core.metrics.intervals import Estimate, caution, within_run
from baton.core.metrics.over_time import over_time
from baton.core.metrics.report import Report, Run, encode_facts, encode_report
from baton.core.metrics.summary import summarize
from baton.core.sim.fleet_run.run import FleetRun
from baton.core.sim.fleet_run.scenario_file import RunScenario
from baton.core.sim.fleet_run.spec import FleetSpec
from baton.core.sim.fleet_run.trace import trace_of
from baton.services.loadgen.bench_settings import slo_of
from baton.services.loadgen.build import plan_fingerprint
from baton.services.loadgen.html import render
from baton.services.loadgen.out_folder import write_all
from baton.services.loadgen.plan import Plan
from baton.services.loadgen.results import PAGE, RECORDS, REPORT, TABLE, table_of

STEPS, TRACE = "steps.jsonl", "trace.json"


def make_report(
    scenario: RunScenario,
    fleet: FleetSpec,
    plan: Plan,
    run: FleetRun,
    intervals: dict[str, Estimate] | None = None,
    notes: Sequence[str] = (),
) -> Report:
    """A function of the run alone: it says neither when nor where it was made. `intervals` are over several runs; if
    there are none, those within this one are told. `notes` stand beside those of its own. Raises BadLoad."""
    sources = sorted({group.profile.source for group in fleet.groups})
    return Report(
        run=Run(
            target=f"a simulated {scenario.topology.upper()}",
            model=fleet.groups[0].profile.name,
            seed=scenario.seed,
            plan_fingerprint=plan_fingerprint(plan),
            settings=settings_of(scenario),
            machine={"simulated": ", ".join(sorted({group.profile.name for group in fleet.groups}))},
            versions={"baton": version("baton-serve")},
        ),
        summary=summarize(run.facts, slo_of(scenario.slo)),
        series=over_time(run.facts),
        executors=tuple(run.uses),
        warnings=tuple(_cautions(plan, intervals or {})),
        notes=(*notes, *(f"step times: {source}" for source in sources)),
        intervals=intervals or within_run(run.facts),
    )


def _cautions(plan: Plan, intervals: dict[str, Estimate]) -> list[str]:
    found = [caution(max((each.num_runs for each in intervals.values()), default=1))]
    if any(request.text or request.messages_json for request in plan.requests):
        found.append("prompts of the trace are texts: each four bytes of them count as one token")
    if plan.num_left_out:
        found.append(f"{plan.num_left_out} requests of the trace are left out: they need too many tokens")
    return [text for text in found if text]


def settings_of(scenario: RunScenario) -> dict[str, Any]:
    """In one level: what the scenario says and its defaults do not. Of files only the name."""
    told: dict[str, Any] = {}
    for name in RunScenario.__struct_fields__:
        value = msgspec.to_builtins(getattr(scenario, name))
        if name in ("title", "source", "asks", "seed", "seeds") or not value:
            continue
        if isinstance(value, dict):
            told |= {f"{name}.{knob}": _plain(inner) for knob, inner in value.items()}
        else:
            told[name] = value
    return told


def write_files(folder: Path, report: Report, run: FleetRun, with_steps: bool) -> list[Path]:
    """The load generator's files; each step in a line, and all of the run as a trace, if wanted. All or none of them,
    the report last. Raises OSError."""
    write_all(folder, _files(report, run, with_steps))
    return [folder / name for name in ((PAGE, STEPS, TRACE) if with_steps else (PAGE,))]


def _files(report: Report, run: FleetRun, with_steps: bool) -> Iterator[tuple[str, bytes]]:
    ordered = sorted(run.facts, key=lambda row: row.index)
    yield RECORDS, encode_facts(ordered)
    yield TABLE, table_of(report)
    yield PAGE, render([report], [ordered]).encode()
    if with_steps:
        lines = [msgspec.json.encode(_step_line(step, run.began_s)) + b"\n" for step in run.recorder.steps]
        yield STEPS, b"".join(lines)
        yield TRACE, msgspec.json.encode(trace_of(run))
    yield REPORT, encode_report(report)


def _step_line(step: Any, began_s: float) -> dict[str, Any]:
    return {
        "executor": step.executor,
        "began_s": round(step.began_s - began_s, 9),
        "duration_s": step.duration_s,
        "kind": step.kind,
        **{name: value for name, value in step.features._asdict().items() if name != "one"},
    }


def _plain(value: Any) -> Any:
    return Path(value).name if isinstance(value, str) and "/" in value else value
