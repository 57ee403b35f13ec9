"""The command line of `baton sim`."""

from __future__ import annotations

import argparse
import re
from typing import Any

import msgspec

from baton.core.errors import ServingError
from baton.core.sim.fleet_run.named_policies import POLICIES
from baton.core.sim.fleet_run.scenario_file import built_in, read_scenario, set_value
from baton.core.sim.step_time.profile import built_in as built_in_profiles
from baton.services.loadgen.traces.reading import samples

DESCRIPTION = """\
Run the scheduler, the routers and the executors that would serve, on a virtual clock and on executors of which only the
time is modelled, and report as `baton bench` does.

  baton sim --scenario small --seeds 5
  baton sim --scenario small --set topology=2U --out run
  baton sim --topology 2P1D --profile a100-opt13b-tp1 --synthetic "rate=2 num_requests=500 input_tokens=normal:512,100"
  baton sim --topology 4U --profile h100-llama70b-tp8 --trace conversations.jsonl --set load.speed=2
  baton sim --topology 2P2D --profile a100-opt13b-tp1 --trace sample --policy plain
  baton sim --list
"""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says."""

    scenario: str = ""
    topology: str = ""
    profile: str = ""
    trace: str = ""
    synthetic: str = ""
    policy: str = ""
    slo: str = ""
    seed: int | None = None
    seeds: int | None = None
    data: str = ""
    out: str = ""
    settings: tuple[str, ...] = ()
    steps: bool = False
    list: bool = False


class BadCommand(ServingError):
    """Options that make no run together."""


def parse(arguments: list[str]) -> Asked:
    """Exits where argparse does."""
    parser = argparse.ArgumentParser(
        prog="baton sim",
        usage="baton sim [--OPTION VALUE …]",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--scenario", metavar="NAME", help="a built-in scenario, or the path of a file like theirs")
    parser.add_argument("--topology", metavar="6P2D", help="executors: P prefill, D decode, U both")
    parser.add_argument("--profile", metavar="NAME", help="step times: a built-in profile, or the path of one")
    parser.add_argument("--trace", metavar="FILE", help="the load: a trace, as `baton bench --trace` reads it")
    parser.add_argument("--synthetic", metavar="SPEC", help="the load: options of `baton bench`, as NAME=VALUE …")
    parser.add_argument("--policy", choices=list(POLICIES), metavar="NAME", help="a set of knobs: see --list")
    parser.add_argument("--slo", metavar="ttft=2s,itl=25ms", help="bounds that a request keeps or not")
    parser.add_argument("--seed", type=int, metavar="N", help="of all chance; the scenario's own if not given")
    parser.add_argument("--seeds", type=int, metavar="N", help="so many runs with seeds from that one on: intervals")
    parser.add_argument("--data", metavar="DIR", help="of a scenario with measured figures: the run's files")
    parser.add_argument("--out", metavar="DIR", help="folder for report.json, requests.jsonl, summary.csv, report.html")
    parser.add_argument(
        "--set", dest="settings", action="append", metavar="KNOB=VALUE",
        help="change a field of the scenario or a knob of a table: topology=2U, decode.num_slots=64, load.rate=3",
    )  # fmt: skip
    parser.add_argument("--steps", action="store_true", help="with --out: steps.jsonl and trace.json, too")
    parser.add_argument("--list", action="store_true", help="print the built-in scenarios and profiles")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    return msgspec.convert(given, Asked)


def table_of(asked: Asked) -> dict[str, Any]:
    """What makes the scenario, and its arms if it has some. Raises ServingError."""
    if bool(asked.scenario) == bool(asked.topology):
        raise BadCommand("--scenario, or --topology with --profile and a load: one of the two")
    if asked.steps and not asked.out:
        raise BadCommand("--steps: they are written to the folder of --out")
    table = _of_flags(asked) if asked.topology else read_scenario(asked.scenario)
    if not asked.topology and (asked.profile or asked.trace or asked.synthetic):
        raise BadCommand("--profile, --trace, --synthetic: a scenario says them; --set changes what it says")
    if asked.slo:
        table["slo"] = asked.slo
    knobs = POLICIES[asked.policy].knobs if asked.policy else {}
    for setting in (*(f"{knob}={value}" for knob, value in knobs.items()), *asked.settings):
        set_value(table, setting)
    if asked.seed is not None:
        table["seed"] = asked.seed
    if asked.seeds is not None:
        if "arms" in table:
            raise BadCommand("--seeds: a scenario with arms compares single runs")
        table["seeds"] = asked.seeds
    return table


def told_settings(asked: Asked) -> dict[str, str]:
    """What the command line sets of a scenario: path of a field or knob → as it was said."""
    knobs = POLICIES[asked.policy].knobs if asked.policy else {}
    told = {knob: f"--policy {asked.policy} ({knob}={value})" for knob, value in knobs.items()}
    told |= {setting.partition("=")[0].strip(): f"--set {setting}" for setting in asked.settings}
    if asked.slo:
        told["slo"] = f"--slo {asked.slo}"
    if asked.seed is not None:
        told["seed"] = f"--seed {asked.seed}"
    return told


def _of_flags(asked: Asked) -> dict[str, Any]:
    if not asked.profile or bool(asked.trace) == bool(asked.synthetic):
        raise BadCommand("--topology needs --profile, and --trace or --synthetic")
    load: dict[str, Any] = {"trace": asked.trace} if asked.trace else {}
    for part in asked.synthetic.split():
        name, equals, value = part.partition("=")
        if not equals:
            raise BadCommand(f"--synthetic: {part!r} is not NAME=VALUE, such as rate=2")
        if "=" in value:
            raise BadCommand(f"--synthetic: {part!r}: options are separated by blanks: {_apart(part)!r}")
        load[name.replace("-", "_")] = value
    return {"name": "command line", "topology": asked.topology, "profile": asked.profile, "load": load}


def _apart(part: str) -> str:
    """`rate=1,num_requests=3` with blanks; commas within a value stay."""
    return re.sub(r"[,;]+(?=[A-Za-z_-]+=)", " ", part)


def list_known() -> str:
    """For the terminal."""
    lines = ["scenarios:"]
    for name in built_in():
        table = read_scenario(name)
        lines.append(f"  {name:<28}{table.get('title', '')}")
    lines += ["profiles:", *[f"  {name}" for name in built_in_profiles()]]
    lines += ["traces:", *[f"  {name}" for name in samples()]]
    lines += ["policies:", *[f"  {name:<28}{policy.what}" for name, policy in POLICIES.items()]]
    return "\n".join(lines)
