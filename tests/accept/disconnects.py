"""Clients that leave at random moments leave nothing behind."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.accept.deployment import Deployment, post
from tests.accept.row import Options, Row, judged

NUM_CLIENTS = 8  #: at once
SEED = 20
MAX_PROMPT_TOKENS = 200
LONGEST_STAY = 5.0  #: in typical durations of an answer that is alone; eight at once take longer
#: what every process holds for requests; all of it must be back where it was
LEVELS = {
    "router": ("streams", "legs", "legs_placed"),
    "scheduler": ("queued", "placed"),
    "executor": (
        "attempts",
        "blocks_free",
        "blocks_granted",
        "parked_tokens",
        "receives_early",
        "sequences_held",
        "sequences_running",
        "sequences_waiting",
        "slots_granted",
        "slots_used",
        "steps_in_flight",
        "transfer_bytes_in_flight",
        "transfers_incoming",
        "transfers_outgoing",
        "transfers_quarantined",
    ),
}


def measure(options: Options) -> Row:
    count = 40 if options.quick else 200
    asked = f"after {count} disconnects at random moments all levels are back, the next request works, nobody restarted"
    with Deployment() as up:
        body = {"model": up.model, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
        first = post(f"{up.url}/v1/completions", body)["choices"][0]["text"]
        typical_s = typical_duration_s(up)
        up.wait_until_quiescent()
        before, pids = levels(up), up.pids()
        outcomes = asyncio.run(leave_often(up.url, up.model, count, LONGEST_STAY * typical_s))
        is_quiescent = up.wait_until_quiescent()
        after = settled_levels(up, before)
        again = post(f"{up.url}/v1/completions", body)["choices"][0]["text"]
        is_same = pids == up.pids()
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    gone = outcomes.count("gone")
    measured = f"{gone} left, {len(outcomes) - gone} were answered before; " + (
        f"{len(before)} levels back" if not changed else f"levels changed: {changed}"
    )
    if not is_quiescent:
        measured += "; not quiescent within 60 s"
    is_met = is_quiescent and not changed and again == first and is_same and outcomes.count("failed") == 0
    measured += (
        f"; next answer {'the same' if again == first else 'differs'}, pids {'the same' if is_same else 'differ'}"
    )
    return judged(asked, measured, is_met, outcomes={kind: outcomes.count(kind) for kind in set(outcomes)})


def levels(up: Deployment) -> dict[str, float]:
    found = {}
    for name in sorted(up.records()):
        values = up.metrics(name)
        for level in LEVELS.get(name, LEVELS["executor"]):
            found[f"{name}.{level}"] = values[level]
    return found


def settled_levels(up: Deployment, wanted: dict[str, float], limit_s: float = 10.0) -> dict[str, float]:
    """The levels as soon as they are as wanted, or as they are at the limit: credit is granted a moment later."""
    deadline = time.monotonic() + limit_s
    while (found := levels(up)) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def typical_duration_s(up: Deployment) -> float:
    """How long one answer of middling length takes here, alone: what stays are drawn in proportion to."""
    started_at = time.monotonic()
    prompt = list(range(1000, 1000 + MAX_PROMPT_TOKENS // 2))
    post(f"{up.url}/v1/completions", {"model": up.model, "prompt": prompt, "max_tokens": 30, "ignore_eos": True})
    return time.monotonic() - started_at


async def leave_often(url: str, model: str, count: int, longest_stay_s: float) -> list[str]:
    """Clients come one after the other, NUM_CLIENTS at once, until `count` have left; what became of each."""
    rng = random.Random(SEED)
    outcomes: list[str] = []
    async with ClientSession(timeout=ClientTimeout(total=300)) as session:

        async def client() -> None:
            while outcomes.count("gone") < count:
                body, stay_s = plan(rng, model, longest_stay_s)
                outcomes.append(await ask_and_leave(session, url, body, stay_s))

        await asyncio.gather(*(client() for _ in range(NUM_CLIENTS)))
    return outcomes


def plan(rng: random.Random, model: str, longest_stay_s: float) -> tuple[dict[str, Any], float]:
    """A body and how long its client stays; half of the clients stream."""
    prompt = [rng.randrange(100, 40_000) for _ in range(rng.randint(1, MAX_PROMPT_TOKENS))]
    body = {"model": model, "prompt": prompt, "max_tokens": rng.randint(1, 60), "ignore_eos": True}
    return body | {"stream": rng.random() < 0.5, "n": rng.choice((1, 1, 1, 2))}, rng.random() * longest_stay_s


async def ask_and_leave(session: ClientSession, url: str, body: dict[str, Any], stay_s: float) -> str:
    try:
        async with asyncio.timeout(stay_s), session.post(f"{url}/v1/completions", json=body) as answer:
            await answer.read()
            return "answered" if answer.status == 200 else "failed"
    except TimeoutError:
        return "gone"
    except ClientError:
        return "failed"
