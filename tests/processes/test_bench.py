"""`baton bench` against whole deployments: what is counted is what was asked, whatever the endpoint and the load."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from baton.core.metrics.facts import Phase, RequestFacts
from baton.services.loadgen.build import build_plan
from baton.services.loadgen.options import parse_options
from baton.services.loadgen.target import Endpoint
from tests.accept.aiperf import served
from tests.accept.deployment import Deployment
from tests.support.bench import Ran, bench, finished, start_bench
from tests.support.loops import until

KEY = "a-key-of-this-test-alone"
IDS = ("--endpoint", "completions", "--content", "tokens", "--end-token-id", "200")
SMALL = ("--concurrency", "4", "--input-tokens", "150", "--output-tokens", "12")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Deployment]:
    with Deployment("--device", "fake", model=str(tiny)) as deployment:
        yield deployment


def check_all_good(ran: Ran, count: int) -> None:
    assert (ran.code, ran.err) == (0, ""), ran.out + ran.err
    counts = ran.report().summary.counts
    assert (counts.planned, counts.succeeded, counts.failures) == (count, count, {})


@pytest.mark.parametrize(
    "flags",
    [(), ("--whole",), ("--count-tokens",), IDS, (*IDS, "--count-tokens"), ("--endpoint", "completions")],
    ids=["chat", "whole", "counts", "ids", "ids and counts", "completions"],
)
async def test_answers_have_the_lengths_asked_for_and_the_servers_counts_are_the_reports(
    flags: tuple[str, ...], up: Deployment, tmp_path: Path
) -> None:
    path = (Endpoint.COMPLETIONS if "completions" in flags else Endpoint.CHAT).path
    num_before = len(served(up, path))
    ran = await bench(up.url, tmp_path / "out", "--num-requests", "12", *SMALL, *flags)
    check_all_good(ran, 12)
    rows = ran.facts()
    assert {row.num_output_tokens for row in rows} == {12}
    await until(lambda: len(served(up, path)) == num_before + 12)
    told = [(row.status, row.num_input_tokens, row.num_output_tokens) for row in rows]
    assert sorted(served(up, path)[num_before:]) == sorted(told)
    if "--count-tokens" in flags:
        assert all(sum(chunk.num_tokens for chunk in row.chunks) == 12 for row in rows)


async def test_responses_are_served_up_to_their_length(up: Deployment, tmp_path: Path) -> None:
    ran = await bench(up.url, tmp_path / "out", "--num-requests", "12", *SMALL, "--endpoint", "responses")
    check_all_good(ran, 12)
    assert all(1 <= row.num_output_tokens <= 12 for row in ran.facts())


@pytest.mark.parametrize("kind", ["text", "tokens"])
async def test_prompts_have_the_number_of_tokens_that_the_server_counts(
    kind: str, up: Deployment, tiny: Path, tmp_path: Path
) -> None:
    content = IDS if kind == "tokens" else ("--endpoint", "completions", "--tokenizer", str(tiny / "tokenizer.json"))
    lengths = ("--input-tokens", "uniform:20-90", "--output-tokens", "uniform:1-9", "--seed", "3")
    flags = ("--num-requests", "30", "--concurrency", "4", *lengths, *content)
    ran = await bench(up.url, tmp_path / "out", *flags)
    check_all_good(ran, 30)
    rows = ran.facts()
    assert [row.num_output_tokens for row in rows] == [row.wanted_output_tokens for row in rows]
    assert {20 <= row.num_input_tokens <= 90 for row in rows} == {True}
    assert [row.num_input_tokens for row in rows] == planned_inputs(flags)


def planned_inputs(flags: tuple[str, ...]) -> list[int]:
    return [request.num_input_tokens for request in build_plan(parse_options(list(flags)).load).requests]


async def test_chats_repeat_what_was_answered_and_end_one_after_the_other(up: Deployment, tmp_path: Path) -> None:
    flags = ("--num-sessions", "4", "--turns", "3", "--concurrency", "4", "--input-tokens", "30", "--output-tokens")
    ran = await bench(up.url, tmp_path / "out", *flags, "8")
    check_all_good(ran, 12)
    sessions: dict[str, list[RequestFacts]] = {}
    for row in ran.facts():
        sessions.setdefault(row.session, []).append(row)
    assert [len(rows) for rows in sessions.values()] == [3] * 4
    for rows in sessions.values():
        for early, late in pairwise(rows):
            assert late.num_input_tokens > early.num_input_tokens
            assert early.done_s is not None
            assert late.scheduled_s >= early.done_s


async def test_the_queue_and_the_kv_use_are_sampled_where_they_are_told(up: Deployment, tmp_path: Path) -> None:
    ports = [record.admin_port for record in up.records().values() if not record.http_port]
    flags = [flag for port in ports for flag in ("--metrics", f"http://127.0.0.1:{port}/metrics")]
    ran = await bench(up.url, tmp_path / "out", "--num-requests", "12", *SMALL, *flags)
    check_all_good(ran, 12)
    series = ran.report().server_series
    assert series.keys() == {"num_queued", "num_running", "kv_use"}
    assert all(0 <= share <= 1 for _, share in series["kv_use"])


async def test_a_repeatable_load_is_found_in_the_cache_and_any_other_is_not(up: Deployment, tmp_path: Path) -> None:
    load = ("--num-requests", "8", *SMALL, *IDS, "--seed", "11")
    hits = []
    for number, flags in enumerate([(), (), ("--repeatable",), ("--repeatable",)]):
        ran = await bench(up.url, tmp_path / str(number), *load, *flags)
        check_all_good(ran, 8)
        hits.append(ran.report().summary.prefix_hit_rate)
    assert hits[:3] == [0.0, 0.0, 0.0]
    assert hits[3] is not None
    assert hits[3] > 0.5


async def test_a_share_is_cancelled_as_planned_and_leaves_nothing_at_the_server(up: Deployment, tmp_path: Path) -> None:
    flags = ("--num-requests", "40", "--cancel-share", "0.5", "--cancel-after-s", "0.0001", *SMALL, *IDS)
    ran = await bench(up.url, tmp_path / "out", *flags)
    counts = ran.report().summary.counts
    assert (ran.code, counts.planned, counts.failed) == (0, 40, 0)
    assert counts.cancelled == sum(row.is_cancelled for row in ran.facts()) > 0
    assert counts.succeeded == 40 - counts.cancelled >= 20
    assert up.wait_until_quiescent()


async def test_a_sweep_and_a_warm_up_are_measured_apart(up: Deployment, tmp_path: Path) -> None:
    flags = ("--num-requests", "6", "--sweep", "rate:40,80", "--warm-up-requests", "3", *IDS)
    ran = await bench(up.url, tmp_path / "out", *flags, "--input-tokens", "20", "--output-tokens", "4")
    assert (ran.code, ran.err) == (0, "")
    for point in ("rate=40", "rate=80"):
        assert ran.report(point).summary.counts.succeeded == 6
        assert [row.phase for row in ran.facts(point)] == [Phase.WARM_UP] * 3 + [Phase.MEASURED] * 6
    assert ran.report("rate=40").run.plan_fingerprint != ran.report("rate=80").run.plan_fingerprint


async def test_a_ctrl_c_in_mid_run_leaves_a_report_and_nothing_at_the_server(up: Deployment, tmp_path: Path) -> None:
    """It comes when the first records are there."""
    folder = tmp_path / "out"
    flags = ("--url", up.url, "--out", str(folder), "--num-requests", "100000", *SMALL, *IDS)
    process = await start_bench(*flags, has_own_group=True)
    records = folder / "requests.jsonl"
    await until(lambda: process.returncode is not None or (records.exists() and records.stat().st_size > 0))
    os.killpg(process.pid, signal.SIGINT)
    ran = await finished(process, folder)
    counts = ran.report().summary.counts
    assert (ran.code, ran.err) == (130, "")
    assert counts.succeeded >= 1
    assert counts.succeeded + counts.failed + counts.cancelled == 100000
    assert len(ran.facts()) == 100000
    assert set(counts.failures) == {"unsent"}
    assert up.wait_until_quiescent()


async def test_a_key_is_needed_where_keys_are_told(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{KEY}\n")
    (tmp_path / "keys").chmod(0o600)
    (tmp_path / "up.toml").write_text(f'[http]\napi_keys_file = "{tmp_path / "keys"}"\n')
    up = Deployment("--device", "fake", "--unified", "1", "--config", str(tmp_path / "up.toml"), model=str(tiny))
    with up:
        refused = await bench(up.url, tmp_path / "a", "--num-requests", "4", *SMALL, key="another-key-of-no-use")
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "refuses the API key: 401" in refused.err
        check_all_good(await bench(up.url, tmp_path / "b", "--num-requests", "4", *SMALL, key=KEY), 4)
    assert KEY.encode() not in b"".join(path.read_bytes() for path in (tmp_path / "b").iterdir())
