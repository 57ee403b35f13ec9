"""Executors whose model is split over ranks, as real processes: the tiny model on the CPU, computed by two of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from baton.core.executor.events import EXIT_UNPROVEN
from baton.services.executor.ranks.processes import EXIT_GROUP_INCOMPLETE
from baton.services.runtime.lifecycle import EXIT_REFUSED
from tests.processes.conftest import NAMES, Stage
from tests.support.loops import until
from tests.support.metrics import samples_of
from tests.support.stack import Stack

ALONE = ("scheduler", "unified", "router")
ONE_RANK = ("--device", "cpu", "--silence-s", "20")
TWO_RANKS = (*ONE_RANK, "--num-ranks", "2", "--rank-timeout-s", "20")
IMPATIENT = (*ONE_RANK, "--num-ranks", "2", "--rank-timeout-s", "5")
SAMPLED = {"temperature": 1.0, "seed": 7}
PROMPTS = ("To be, or not to be", "x" * 90, "One", "A longer one that ends beyond the second block, at least")


def ask_body(prompt: str, **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True, **more}


async def answers(stack: Stack, **more: Any) -> list[str]:
    """To all prompts at once."""

    async def ask(prompt: str) -> str:
        async with stack.session.post(stack.url + "/v1/completions", json=ask_body(prompt, **more)) as response:
            assert response.status == 200, await response.text()
            return str((await response.json())["choices"][0]["text"])

    return list(await asyncio.gather(*map(ask, PROMPTS)))


async def stream(stack: Stack, prompt: str, **more: Any) -> AsyncIterator[str]:
    body = ask_body(prompt, stream=True, **more)
    async with stack.session.post(stack.url + "/v1/completions", json=body) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])["choices"][0]["text"]


def other_ranks(stack: Stack, name: str) -> list[int]:
    """Process ids of the ranks that an executor has started.

    Only of those that run their program by now: until then a child is in its parent's memory, which waits for it
    (vfork), so that stopping the child would stop both.
    """
    pid = stack.running[name].pid
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if b"baton.services.executor.ranks.worker" in command_line(child)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def by_rank(stack: Stack, name: str, metric: str) -> dict[str, float]:
    samples = samples_of(await stack.metrics(name))
    return {s.labels["rank"]: s.value for s in samples if s.name == f"baton_{metric}_total"}


@pytest.fixture(scope="module")
def said_by_one(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> list[list[str]]:
    """What an executor without ranks answers: greedy, and sampled."""
    said: list[list[str]] = []

    async def story(stack: Stack) -> None:
        said.extend([await answers(stack), await answers(stack, **SAMPLED)])

    Stage(tmp_path_factory.mktemp("one"), tiny).run(story, ALONE, unified=ONE_RANK)
    return said


def test_c25_two_ranks_answer_as_one(stage: Stage, said_by_one: list[list[str]]) -> None:
    async def story(stack: Stack) -> None:
        assert [await answers(stack), await answers(stack, **SAMPLED)] == said_by_one
        agreed = await by_rank(stack, "unified", "rank_steps")
        assert set(agreed) == {"0", "1"}
        assert min(agreed.values()) > 0
        await stack.quiescent()
        ranks = other_ranks(stack, "unified")
        assert len(ranks) == 1
        stack.signal("unified", signal.SIGTERM)
        assert await stack.exited("unified") == 0
        assert all(map(is_gone, ranks))

    stage.run(story, ALONE, unified=TWO_RANKS)


def test_w13_c25_each_rank_of_prefill_writes_to_the_same_rank_of_decode(
    stage: Stage, said_by_one: list[list[str]]
) -> None:
    async def story(stack: Stack) -> None:
        assert [await answers(stack), await answers(stack, **SAMPLED)] == said_by_one
        landed = await by_rank(stack, "prefill", "rank_kv_transfer_landed_bytes")
        assert landed["0"] == landed["1"] > 0
        assert (await stack.gauges("prefill"))["kv_transfer_landed_bytes_total"] == landed["0"] + landed["1"]
        await stack.quiescent()

    stage.run(story, prefill=TWO_RANKS, decode=TWO_RANKS)


def test_w13_executors_of_unequal_numbers_of_ranks_are_never_paired(stage: Stage) -> None:
    async def story() -> None:
        flags = {"prefill": TWO_RANKS, "decode": ONE_RANK}
        async with asyncio.timeout(200), stage.open(NAMES, flags) as stack:
            for name in NAMES:
                stack.start(name)
            refusal = "not used: another KV layout than the executors here"
            while refusal not in stack.log("scheduler"):
                await asyncio.sleep(0.1)
            assert (await stack.get((await stack.record("router")).http_port, "/ready"))[0] != 200

    stage.run_bare(story())


async def lose_ranks_in_mid_answer(stack: Stack, names: tuple[str, ...], number: signal.Signals) -> str:
    """The answer to a request during which the second rank of each of these executors is killed, or stopped."""
    pieces = []
    left = list(names)
    async for text in stream(stack, "abc", max_tokens=150):
        pieces.append(text)
        if left and len(pieces) > 15 * (len(names) - len(left) + 1):
            name = left.pop(0)
            os.kill(other_ranks(stack, name)[0], number)
            assert await stack.exited(name) == EXIT_UNPROVEN
            stack.start(name)
    assert not left
    return "".join(pieces)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_c25_o5_a_lost_rank_ends_the_executor_and_its_requests_go_on_afterwards(
    stage: Stage, number: signal.Signals
) -> None:
    async def story(stack: Stack) -> None:
        undisturbed = "".join([text async for text in stream(stack, "abc", max_tokens=150)])
        assert await lose_ranks_in_mid_answer(stack, ("unified",), number) == undisturbed
        await stack.quiescent()

    stage.run(story, ALONE, unified=IMPATIENT)


def test_c25_a_rank_lost_on_either_side_of_a_pair_costs_no_answer_and_no_block(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        undisturbed = "".join([text async for text in stream(stack, "abc", max_tokens=150)])
        assert await lose_ranks_in_mid_answer(stack, ("decode", "prefill"), signal.SIGKILL) == undisturbed
        assert await answers(stack) == await answers(stack)
        await stack.quiescent()
        for name in ("prefill", "decode"):
            gauges = await stack.gauges(name)
            assert gauges["blocks_free"] == gauges["blocks"], name
            assert gauges["transfers_quarantined"] == 0, name

    stage.run(story, prefill=TWO_RANKS, decode=TWO_RANKS)


def test_c25_an_idle_group_notices_that_a_rank_has_stopped(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        rank = other_ranks(stack, "unified")[0]
        os.kill(rank, signal.SIGSTOP)
        assert await stack.exited("unified") == EXIT_UNPROVEN
        assert "rank 1 said nothing for 5 s" in stack.log("unified")
        await until(lambda: is_gone(rank))

    stage.run(story, ALONE, unified=IMPATIENT)


def test_c25_ranks_end_with_the_first_one_however_it_ends(stage: Stage) -> None:
    async def story(stack: Stack) -> None:
        rank = other_ranks(stack, "unified")[0]
        os.kill(rank, signal.SIGSTOP)  # it cannot even see that its stream has ended
        await stack.kill("unified")
        await until(lambda: is_gone(rank))

    stage.run(story, ALONE, unified=TWO_RANKS)


def test_c25_a_missing_rank_is_an_error_of_the_start(stage: Stage) -> None:
    async def story() -> None:
        async with asyncio.timeout(200), stage.open(("scheduler", "unified"), {"unified": IMPATIENT}) as stack:
            stack.start("scheduler")
            stack.start("unified")
            await until(lambda: bool(other_ranks(stack, "unified")))
            os.kill(other_ranks(stack, "unified")[0], signal.SIGSTOP)
            assert await stack.exited("unified") == EXIT_GROUP_INCOMPLETE
            assert "GroupIncomplete" in stack.log("unified")

    stage.run_bare(story())


def test_c25_ranks_that_do_not_divide_the_model_are_refused_with_the_numbers(stage: Stage) -> None:
    async def story() -> None:
        flags = {"unified": (*ONE_RANK, "--num-ranks", "3")}
        async with asyncio.timeout(200), stage.open(("scheduler", "unified"), flags) as stack:
            stack.start("unified")
            assert await stack.exited("unified") == EXIT_REFUSED
            refusal = "device.num_ranks = 3: does not divide the model's 4 attention heads"
            assert refusal in stack.log("unified")

    stage.run_bare(story())
