"""The command line: a flag for each setting, each explained, and errors that name it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest

from baton.core.metrics.compat import Tool
from baton.services.loadgen.arrivals import ArrivalKind
from baton.services.loadgen.bench_settings import slo_of
from baton.services.loadgen.build import build_plan
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.load_settings import LoadSettings
from baton.services.loadgen.options import KINDS, Options, bench_parser, flag_of, in_flags, parse_options
from baton.services.loadgen.sweep import parse_sweep, sweep_plans
from baton.services.loadgen.target import Endpoint
from baton.services.runtime.setting_texts import comments_of

ROOT = Path(__file__).parents[3]
FIELDS = [(kind, field.name) for kind in KINDS for field in msgspec.structs.fields(kind)]


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_every_flag_is_explained(kind: type[msgspec.Struct], name: str) -> None:
    assert comments_of(kind)[name]
    assert f"  {flag_of(name)}" in bench_parser().format_help()


def test_no_two_settings_share_a_flag() -> None:
    names = [name for _, name in FIELDS]
    assert len(set(names)) == len(names)


def test_the_help_shows_words_units_and_defaults_and_no_names_of_the_source() -> None:
    text = bench_parser().format_help()
    assert "--endpoint chat|completions|responses" in text
    assert "--compat vllm|aiperf|guidellm" in text
    assert "--duration-s SECONDS" in text
    assert re.search(r"--url TEXT .*\n.*http://127.0.0.1:8000\)", text)
    assert not re.search(r"parse_spread|Settings|`", text)


def test_nothing_said_is_every_default() -> None:
    assert parse_options([]) == Options(*(kind() for kind in KINDS))  # type: ignore[arg-type]


def test_values_get_their_types() -> None:
    line = "--endpoint completions --rate 2.5 --arrivals gamma --repeatable --compat vllm --compat aiperf --header a:b"
    target, load, run = parse_options(line.split())
    assert (target.endpoint, target.header) == (Endpoint.COMPLETIONS, ("a:b",))
    assert load == LoadSettings(rate=2.5, arrivals=ArrivalKind.GAMMA, repeatable=True)
    assert run.compat == (Tool.VLLM, Tool.AIPERF)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("--num-requests many", "--num-requests: 'many': Expected `int`"),
        ("--max-failed 2", "--max-failed: '2': Expected `float` <= 1"),
        ("--endpoint x", "--endpoint: 'x': Invalid enum value 'x'"),
        ("--compat x", "--compat: .*'x'"),
        ("--stall-timeout-s 0", "--stall-timeout-s: '0': Expected `float` > 0"),
        ("--connect-timeout-s inf", "--connect-timeout-s: 'inf': Expected `float` <= 1000000000"),
        ("--max-time-s inf", "--max-time-s: 'inf': Expected `float` <= 1000000000"),
    ],
)
def test_a_wrong_value_is_said_with_its_flag(line: str, cause: str) -> None:
    with pytest.raises(BadLoad) as told:
        parse_options(line.split())
    assert re.match(cause, in_flags(str(told.value)))


def test_every_command_of_the_guide_and_the_readme_asks_for_a_load(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "One"}\n')
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("docs/bench.md", "README.md")]
    lines = [line for text in texts for line in re.findall(r"^baton bench (--[^#\n]*)", text, re.MULTILINE)]
    assert len(lines) > 18
    for line in lines:
        asked = parse_options(shlex.split(line.replace("prompts.jsonl", str(tmp_path / "prompts.jsonl"))))
        slo_of(asked.run.slo)
        points = sweep_plans(asked.load, parse_sweep(asked.run.sweep)) if asked.run.sweep else None
        assert build_plan(asked.load).requests if points is None else points


def test_only_names_at_the_beginning_become_flags() -> None:
    assert in_flags("num_requests, window: only rate") == "--num-requests, window: only rate"
    assert in_flags("input_tokens '7x' is none of N") == "--input-tokens '7x' is none of N"
    assert in_flags("t.jsonl:3: trace is broken") == "t.jsonl:3: trace is broken"
    assert in_flags("the rate is wrong: rate") == "the rate is wrong: rate"
