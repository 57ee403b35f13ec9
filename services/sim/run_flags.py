"""What `baton sim`, `compare` and `tune` are asked alike: a scenario, and what is changed of it. And `sim` alone."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from baton.core.errors import ServingError
from baton.core.sim.fleet_run.in_vain import told_in_vain
from baton.core.sim.fleet_run.named_policies import POLICIES
from baton.core.sim.fleet_run.scenario_file import RunScenario, built_in, read_scenario, set_value
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
    """What a command line says."""

    scenario: str = ""
    topology: str = ""
    profile: str = ""
    trace: str = ""
    synthetic: str = ""
    slo: str = ""
    seed: int | None = None
    seeds: int | None = None
    out: str = ""
    settings: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[str, ...]:
        """KNOB=VALUE of the scenario, in the order in which they are set."""
        return self.settings


class SimAsked(Asked, frozen=True, kw_only=True):
    """What that of `baton sim` says besides."""

    policy: str = ""
    data: str = ""
    steps: bool = False
    list: bool = False

    @property
    def knobs(self) -> dict[str, str]:
        """Of the policy."""
        return POLICIES[self.policy].knobs if self.policy else {}

    @property
    def changes(self) -> tuple[str, ...]:
        return (*(f"{knob}={value}" for knob, value in self.knobs.items()), *self.settings)


AskedT = TypeVar("AskedT", bound=Asked)


class BadCommand(ServingError):
    """Options that make no run together."""


def new_parser(name: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"baton {name}",
        usage=f"baton {name} [--OPTION VALUE …]",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_flags(parser: argparse.ArgumentParser, *, seeds: str, files: str, settings: str) -> None:
    """Of `Asked`, but for the topology. What runs with further seeds are, what `--out` gets, what `--set` may say."""
    parser.add_argument("--scenario", metavar="NAME", help="a built-in scenario, or the path of a file like theirs")
    parser.add_argument("--profile", metavar="NAME", help="step times: a built-in profile, or the path of one")
    parser.add_argument("--trace", metavar="FILE", help="the load: a trace, as `baton bench --trace` reads it")
    parser.add_argument("--synthetic", metavar="SPEC", help="the load: options of `baton bench`, as NAME=VALUE …")
    parser.add_argument(
        "--slo", metavar="ttft=2s,itl=25ms", help="bounds that a good request keeps; without a unit in seconds"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of all chance; the scenario's own if not given")
    parser.add_argument("--seeds", type=int, metavar="N", help=seeds)
    parser.add_argument("--out", metavar="DIR", help=f"folder for {files}")
    parser.add_argument("--set", dest="settings", action="append", metavar="KNOB=VALUE", help=settings)


def parsed(parser: argparse.ArgumentParser, arguments: list[str], asked: type[AskedT]) -> AskedT:
    """Exits where argparse does."""
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    return msgspec.convert(given, asked)


def parse(arguments: list[str]) -> SimAsked:
    """Exits where argparse does."""
    parser = new_parser("sim", DESCRIPTION)
    parser.add_argument("--topology", metavar="6P2D", help="executors: P prefill, D decode, U both")
    add_flags(
        parser,
        seeds="so many runs with seeds from that one on: intervals",
        files="report.json, requests.jsonl, summary.csv, report.html",
        settings="change a field of the scenario or a knob of a table: topology=2U, decode.num_slots=64, load.rate=3",
    )
    parser.add_argument("--policy", choices=list(POLICIES), metavar="NAME", help="a set of knobs: see --list")
    parser.add_argument("--data", metavar="DIR", help="of a scenario with measured figures: the run's files")
    parser.add_argument("--steps", action="store_true", help="with --out: steps.jsonl and trace.json, too")
    parser.add_argument("--list", action="store_true", help="print the built-in scenarios and profiles")
    return parsed(parser, arguments, SimAsked)


def table_of(asked: Asked) -> dict[str, Any]:
    """What makes the scenario, and its arms if it has some. Raises ServingError."""
    if bool(asked.scenario) == bool(asked.topology):
        raise BadCommand("--scenario, or --topology with --profile and a load: one of the two")
    table = _of_flags(asked) if asked.topology else read_scenario(asked.scenario)
    if not asked.topology and (asked.profile or asked.trace or asked.synthetic):
        raise BadCommand("--profile, --trace, --synthetic: a scenario says them; --set changes what it says")
    if asked.slo:
        table["slo"] = asked.slo
    for setting in asked.changes:
        set_value(table, setting)
    if asked.seed is not None:
        table["seed"] = asked.seed
    if asked.seeds is not None:
        if "arms" in table:
            raise BadCommand("--seeds: a scenario with arms compares single runs")
        table["seeds"] = asked.seeds
    return table


def told_settings(asked: SimAsked) -> dict[str, str]:
    """What the command line sets of a scenario: path of a field or knob → as it was said."""
    told = {knob: f"--policy {asked.policy} ({knob}={value})" for knob, value in asked.knobs.items()}
    told |= {setting.partition("=")[0].strip(): f"--set {setting}" for setting in asked.settings}
    if asked.slo:
        told["slo"] = f"--slo {asked.slo}"
    if asked.seed is not None:
        told["seed"] = f"--seed {asked.seed}"
    return told


def check_told(settings: Sequence[str], scenarios: Iterable[RunScenario]) -> None:
    """C12: refuse a setting of `--set` that would have an effect in none of the scenarios. Raises ServingError."""
    vain = [told_in_vain(scenario) for scenario in scenarios] if settings else []
    for setting in settings:
        path = setting.partition("=")[0].strip()
        if vain and all(path in each for each in vain):
            raise BadCommand(f"--set {setting}: it would have no effect: {vain[0][path]}")


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
