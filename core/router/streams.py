"""A client's stream and the legs that produce it.

A *leg* is what the other processes call a request: one id on the wire, attempts counted from 0. A stream begins as one
leg with all its choices. When an attempt of several choices fails, each unfinished choice goes on as a leg of its own,
since they have different tokens by then.
"""

from __future__ import annotations

import enum
import zlib
from array import array

from baton.core.errors import Reason
from baton.core.events import Note
from baton.core.ids import AttemptId, Life, Peer
from baton.core.router.events import Arrive
from baton.core.wire.messages import Work
from baton.core.wire.tokens import SampledToken

COUNTER_BITS = 31  #: of a leg's id; the rest says which life of which router made it
PART_BIT = 1 << (COUNTER_BITS - 1)  #: tells the ids of parts from those of whole requests


def wire_id(own: Peer, request_id: int) -> int:
    """The id of a router's request in the words and the logs of all processes."""
    return _life_bits(own) | (request_id & (PART_BIT - 1))


def part_id(own: Peer, number: int) -> int:
    """The id of a leg that carries on one choice of a request."""
    return _life_bits(own) | PART_BIT | (number & (PART_BIT - 1))


def _life_bits(own: Peer) -> int:
    return ((own.epoch ^ zlib.crc32(own.name.encode())) & 0xFFFFFFFF) << COUNTER_BITS


class Choice:
    """One answer: its tokens in order, and those that came before their turn."""

    __slots__ = ("early", "finish", "index", "tokens")

    def __init__(self, index: int) -> None:
        self.index = index
        self.tokens: list[int] = []
        self.early: dict[int, tuple[SampledToken, str]] = {}  #: by offset, beyond the next
        self.finish = ""

    def merge(self, offset: int, tokens: tuple[SampledToken, ...], finish: str) -> tuple[SampledToken, ...]:
        """Merge tokens that begin at `offset`; returns the new contiguous ones. Known offsets change nothing."""
        if self.finish:
            return ()
        if offset == len(self.tokens) and tokens and not self.early:  # as nearly all do
            for sampled in tokens:
                self.tokens.append(sampled.token)
            self.finish = finish
            return tokens
        last = offset + len(tokens) - 1
        for position, sampled in enumerate(tokens, offset):
            if position >= len(self.tokens):
                self.early.setdefault(position, (sampled, finish if position == last else ""))
        fresh = []
        while not self.finish and len(self.tokens) in self.early:
            sampled, self.finish = self.early.pop(len(self.tokens))
            self.tokens.append(sampled.token)
            fresh.append(sampled)
        return tuple(fresh)


class LegState(enum.IntEnum):
    """Where a leg's current attempt is."""

    PAUSED = 0  #: waits a little before the next attempt
    SUBMITTED = 1  #: with the scheduler, or to be said to it when its session begins
    PLACED = 2  #: with its executors


class Leg:
    """One wire request of a stream."""

    __slots__ = (
        "attempt",
        "choices",
        "confirmed_at",
        "decode",
        "flows_from",
        "leg_id",
        "num_failures",
        "prefill",
        "request_id",
        "resume_at",
        "state",
        "stream",
        "submitted_at",
        "was_told",
    )

    def __init__(self, leg_id: int, stream: Stream, choices: list[Choice], num_failures: int = 0) -> None:
        self.leg_id = leg_id
        self.stream = stream
        self.request_id = stream.request.request_id  #: the client's
        self.choices = choices
        self.attempt = 0
        self.state = LegState.SUBMITTED
        self.was_told = False  #: the current attempt was submitted in some session with the scheduler
        self.submitted_at = 0.0
        self.num_failures = num_failures
        self.prefill: Life | None = None
        self.decode: Life | None = None  #: reserved when the prompt is computed, or about to be
        self.flows_from: Life | None = None  #: the home of the current attempt, once tokens of it have come from there
        self.confirmed_at = 0.0  #: when something last said that its home holds it
        self.resume_at = 0.0

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.leg_id, self.attempt)

    def choice(self, index: int) -> Choice | None:
        """The choice of this index if it is one of the leg's: they follow each other."""
        at = index - self.choices[0].index
        return self.choices[at] if 0 <= at < len(self.choices) else None

    @property
    def home(self) -> Life | None:
        """The executor without which the attempt cannot go on."""
        return self.decode or self.prefill

    @property
    def is_over(self) -> bool:
        return all(choice.finish for choice in self.choices)

    @property
    def num_prior(self) -> int:
        """Outputs that the next attempt starts with; only a leg of one choice can have any."""
        return len(self.choices[0].tokens) if len(self.choices) == 1 else 0

    def work(self, router: Life) -> Work:
        """What the next attempt asks for: the prompt and what was delivered of its answer."""
        request, prior = self.stream.request, self.num_prior
        prompt = request.prompt
        if prior:
            prompt += array("i", self.choices[0].tokens).tobytes()
        return Work(
            router=router,
            prompt=prompt,
            num_tokens=request.num_tokens + prior,
            num_prior=prior,
            root=request.root,
            hashes=request.hashes,
            sampling=request.sampling,
            num_choices=len(self.choices),
            first_choice=self.choices[0].index,
        )


class Stream:
    """One accepted request."""

    __slots__ = (
        "arrived_at",
        "choices",
        "deadline",
        "first_token_at",
        "handed_over_at",
        "last_token_at",
        "legs",
        "num_attempts",
        "num_cached",
        "placed_at",
        "placement",
        "request",
        "waited_ms",
        "wire_id",
    )

    def __init__(self, request: Arrive, now: float, wire_id: int) -> None:
        self.request = request
        self.wire_id = wire_id  #: of its first leg
        self.arrived_at = now
        self.deadline = now + request.timeout_s
        self.choices = [Choice(index) for index in range(request.num_choices)]
        self.legs: list[Leg] = []
        self.num_attempts = 1
        self.num_cached = 0
        self.placed_at: float | None = None  #: first
        self.placement = ""  #: why the prompt was computed where its first token came from
        self.waited_ms = 0  #: for prefixes, in all attempts: no later one may wait as long again (P10)
        self.first_token_at: float | None = None
        self.handed_over_at: float | None = None  #: the first token came of an executor that did not compute the prompt
        self.last_token_at: float | None = None  #: so far

    @property
    def is_over(self) -> bool:
        return all(choice.finish for choice in self.choices)

    def stages_ms(self, now: float) -> dict[str, float]:
        """How long each stage took that was reached. Without a hand-off there is no transfer."""
        reached = [
            ("queued_ms", self.placed_at),
            ("prefill_ms", self.first_token_at),
            ("transfer_ms", self.handed_over_at),
            ("decode_ms", now if self.first_token_at is not None else None),
        ]
        before, stages = self.arrived_at, {}
        for name, at in reached:
            if at is not None:
                stages[name] = (at - before) * 1e3
                before = at
        return stages

    def closing_line(self, now: float, reason: Reason | None = None) -> Note:
        """When it reached each stage: `arrived_s` on the clock, the others in milliseconds after it."""
        stages = {
            "placed": self.placed_at,
            "first_token": self.first_token_at,
            "handed_over": self.handed_over_at,
            "last_token": self.last_token_at,
            "ended": now,
        }
        numbers = {f"{stage}_ms": (at - self.arrived_at) * 1e3 for stage, at in stages.items() if at is not None}
        numbers["arrived_s"] = self.arrived_at
        numbers["output_tokens"] = sum(len(choice.tokens) for choice in self.choices)
        numbers["attempts"] = self.num_attempts
        return Note("request ended", self.wire_id, 0, reason, numbers, why=self.placement)
