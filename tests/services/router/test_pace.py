"""When writers are called: together, soon, and no sooner than the interval after the last time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from baton.core.router.events import Deliver, End
from baton.core.wire.tokens import SampledToken
from baton.services.router.pace import Pace
from baton.services.router.streams import Part, RequestStream
from baton.services.router.text.choice_text import ChoiceText
from baton.services.router.text.token_table import TokenTable
from baton.services.router.text.tokenize import Prompt

TABLE = TokenTable(tuple(bytes([byte]) for byte in range(256)), {}, 1)
PROMPT = Prompt(b"\0\0\0\0", 1, b"", b"")


class Timers:
    """Stands for the loop's: keeps what was asked for, so that a test decides when it is time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.now = 100.0
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)
        self._loop = loop

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[..., None], *arguments: object) -> None:
        self.later.append((self.now + delay_s, lambda: callback(*arguments)))

    def run_soon(self) -> None:
        due, self.soon = self.soon, []
        for callback in due:
            callback()

    def advance_to(self, now: float) -> None:
        self.now = now
        due = [callback for at, callback in self.later if at <= now]
        self.later = [(at, callback) for at, callback in self.later if at > now]
        for callback in due:
            callback()


async def test_what_changes_in_one_round_is_called_in_one_entry_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, called = Timers(monkeypatch), list[str]()
    pace = Pace(0.005, lambda: timers.now)
    pace.call(lambda: called.append("a"))
    pace.call(lambda: called.append("b"), timers.now)
    assert (len(timers.soon), timers.later, called) == (1, [], [])
    timers.run_soon()
    assert called == ["a", "b"]
    pace.call(lambda: called.append("c"))
    timers.run_soon()
    assert called == ["a", "b", "c"]


async def test_nothing_is_called_before_its_time_and_at_most_a_tick_after(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, called = Timers(monkeypatch), list[tuple[str, float]]()
    pace = Pace(0.005, lambda: timers.now)
    for name, at in (("late", 100.0049), ("early", 100.0021), ("beside it", 100.0022)):
        pace.call(lambda name=name: called.append((name, timers.now)), at)
    assert (timers.soon, len(timers.later)) == ([], 2)
    for step in range(1, 80):
        timers.advance_to(100.0 + step / 10_000)
    assert [name for name, _ in called] == ["early", "beside it", "late"]
    assert all(0 < at - due <= 0.0012 for (_, at), due in zip(called, (100.0021, 100.0022, 100.0049), strict=True))
    assert timers.later == []


async def test_a_stream_is_told_again_after_the_interval_and_its_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, told = Timers(monkeypatch), list[tuple[float, int]]()
    choice = ChoiceText(TABLE, (), (), 0, keeps_tokens=False)
    stream = RequestStream({1: Part(PROMPT, [choice])}, pace=Pace(0.005, lambda: timers.now))

    def tell() -> None:
        told.append((timers.now, sum(len(delta.text) for _, delta in stream.take(99))))

    def deliver(now: float, finish: str = "") -> None:
        timers.advance_to(now)
        stream.deliver(Deliver(1, 0, choice.num_tokens, (SampledToken(0, 65),), finish))
        timers.run_soon()

    stream.on_change(tell)
    for now in (100.0, 100.001, 100.002):
        deliver(now)
    timers.advance_to(100.010)
    deliver(100.016)
    deliver(100.017, "length")
    stream.end(End(1, None), None)
    timers.run_soon()
    assert [num_chars for _, num_chars in told] == [1, 2, 1, 1]
    assert [now for now, _ in told] == [100.0, 100.010, 100.016, 100.017]
    timers.advance_to(101.0)
    assert sum(num_chars for _, num_chars in told) == 5
