"""What `baton up` starts: which processes, on which cores, with which flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.core.ids import Role
from baton.services.runtime.cores import CoresInvalid, parse_cores, split_cores
from baton.services.runtime.flags import flags_layer, service_parser
from baton.services.runtime.lifecycle import EXIT_REFUSED
from baton.services.runtime.settings import load_settings
from baton.services.up.__main__ import main as up
from baton.services.up.plan import UpOptions, check_counts, plan_children

RUN = Path("/run/baton")


def test_executors_start_after_what_they_need_and_the_router_last() -> None:
    children = plan_children(UpOptions(Path("/m/tiny"), num_prefill=2, num_unified=1, cores=(0,)), RUN, 7)
    assert [child.name for child in children] == [
        "scheduler",
        "prefill0",
        "prefill1",
        "decode0",
        "unified0",
        "router",
    ]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--prefill", "0", "--strict-pd"], "--prefill 0: with strict_pd"),
        (["--decode", "0"], "--decode 0: without a decode executor"),
        (["--prefill", "-1"], "--prefill -1"),
        (["--unified", "-1"], "--unified -1"),
        (["--unified", "99999"], "--unified 99999"),
        (["--prefill", "0", "--decode", "0"], "--decode 0"),
    ],
)
def test_executors_that_could_answer_nothing_are_refused(
    capsys: pytest.CaptureFixture[str], flags: list[str], named: str
) -> None:
    assert up(["--device", "fake", *flags]) == EXIT_REFUSED
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counts", "names"),
    [
        ((0, 0, 1), ["unified0"]),
        ((1, 0, 1), ["prefill0", "unified0"]),
        ((0, 2, 1), ["decode0", "decode1", "unified0"]),
        ((0, 1, 0), ["decode0"]),
    ],
)
def test_r2_decode_executors_are_enough_and_so_are_others_of_one_kind_beside_unified_ones(
    counts: tuple[int, int, int], names: list[str]
) -> None:
    check_counts(*counts)
    children = plan_children(UpOptions(Path("/m/tiny"), *counts, cores=(0,)), RUN, 7)
    assert [child.name for child in children] == ["scheduler", *names, "router"]


def test_every_command_line_is_one_that_its_service_takes() -> None:
    options = UpOptions(Path("/m/tiny"), num_unified=1, cores=(0, 1), device="fake", port=0)
    options = options._replace(placement="always_pd", strict_pd=True)
    for child in plan_children(options, RUN, 7):
        parsed = service_parser(child.role).parse_args([*child.flags, "--epoch", "9"])
        settings = load_settings(child.role, None, {}, flags_layer(child.role, parsed))
        assert (settings.service.name, settings.service.epoch, settings.service.parent_pid) == (child.name, 9, 7)
        if child.role is Role.SCHEDULER:
            assert (settings.knobs.placement, settings.knobs.strict_pd) == ("always_pd", True)
        else:
            assert settings.link.scheduler == "ipc:///run/baton/scheduler"
        if child.role is not Role.ROUTER:
            assert settings.link.listen == f"ipc:///run/baton/{child.name}"


@pytest.mark.parametrize(
    ("cores", "parts", "split"),
    [
        ((0, 1), 2, [(0,), (1,)]),
        ((0, 1, 2, 3, 4), 2, [(0, 1), (2, 3, 4)]),
        ((0,), 3, [(0,), (0,), (0,)]),
        ((4, 5), 3, [(4,), (5,), (4,)]),
    ],
)
def test_cores_are_split_evenly_and_shared_where_they_are_few(
    cores: tuple[int, ...], parts: int, split: list[tuple[int, ...]]
) -> None:
    assert split_cores(cores, parts) == split


@pytest.mark.parametrize("text", ["x", "0-", "-1", "1-0", "100000", "0,,1"])
def test_a_list_of_cores_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(CoresInvalid):
        parse_cores(text)


def test_cores_come_from_ranges_and_numbers() -> None:
    allowed = parse_cores("")
    assert parse_cores(f"{allowed[0]}-{allowed[0]}") == allowed[:1]
