"""The driver: order is the inbox's, what came together is one turn, its commands follow at once, a failure ends all."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from baton.core.errors import InvariantViolated
from baton.core.events import Several, Wake, each_of
from baton.core.trace import recorder as tracing
from baton.services.runtime.driver import EVENTS_PER_TURN, Driver
from tests.support.loops import run_on_uvloop, until


class Echo:
    """Answers every event with two commands; asks to be woken at the times it was given."""

    def __init__(self, wakes: list[float] | None = None) -> None:
        self.wakes = wakes or []
        self.seen: list[Any] = []
        self.num_turns = 0

    @property
    def next_wake(self) -> float | None:
        return self.wakes[0] if self.wakes else None

    def handle(self, event: Any, now: float) -> list[Any]:
        self.num_turns += 1
        return [command for one in each_of(event) for command in self._answers(one, now)]

    def _answers(self, event: Any, now: float) -> list[Any]:
        self.seen.append(event)
        if isinstance(event, Wake):
            self.wakes = [at for at in self.wakes if at > now]
            return []
        return [f"{event}a", f"{event}b"]


class Recorder:
    def __init__(self) -> None:
        self.records: list[tuple[Any, list[Any]]] = []
        self.num_flushed = 0

    def record(self, now: float, event: Any, commands: Any) -> None:
        self.records.append((event, list(commands)))

    def flush(self) -> None:
        self.num_flushed = len(self.records)


def test_commands_are_performed_right_after_their_turn_and_before_the_next_one() -> None:
    async def story() -> None:
        order: list[Any] = []
        node = Echo()
        journal = Recorder()
        driver = Driver(node, asyncio.get_running_loop(), order.append, journal)

        def performer(command: str) -> None:
            order.append((len(node.seen), command))

        driver.perform(str, performer)
        for number in (1, 2, 3):
            driver.post(number)
            await until(lambda number=number: driver.num_events == number)  # type: ignore[misc]
        assert order == [(1, "1a"), (1, "1b"), (2, "2a"), (2, "2b"), (3, "3a"), (3, "3b")]
        assert journal.records == [(n, [f"{n}a", f"{n}b"]) for n in (1, 2, 3)]
        assert journal.num_flushed == 3

    run_on_uvloop(story())


def test_what_came_while_the_loop_was_busy_is_one_turn() -> None:
    async def story() -> None:
        order: list[Any] = []
        node = Echo()
        journal = Recorder()
        driver = Driver(node, asyncio.get_running_loop(), order.append, journal)
        driver.perform(str, order.append)
        for event in (1, 2, 3):
            driver.post(event)
        await until(lambda: driver.num_events == 3)
        assert node.num_turns == 1
        assert order == ["1a", "1b", "2a", "2b", "3a", "3b"]
        assert journal.records == [(Several((1, 2, 3)), order)]

    run_on_uvloop(story())


def test_what_a_performer_posts_comes_after_what_was_posted_before() -> None:
    async def story() -> None:
        node = Echo()
        driver = Driver(node, asyncio.get_running_loop(), lambda error: None)
        driver.perform(str, lambda command: driver.post(10) if command == "1a" else None)
        driver.post(1)
        driver.post(2)
        await until(lambda: driver.num_events == 3)
        assert node.seen == [1, 2, 10]

    run_on_uvloop(story())


def test_a_flood_of_events_leaves_the_loop_to_others_in_between() -> None:
    async def story() -> None:
        node = Echo()
        loop = asyncio.get_running_loop()
        driver = Driver(node, loop, lambda error: None)
        driver.perform(str, lambda command: None)
        seen_between: list[int] = []
        for event in range(3 * EVENTS_PER_TURN):
            driver.post(event)
        loop.call_soon(lambda: seen_between.append(driver.num_events))
        await until(lambda: driver.num_events == 3 * EVENTS_PER_TURN)
        assert seen_between == [EVENTS_PER_TURN]

    run_on_uvloop(story())


def test_a_node_is_woken_when_it_wants_also_if_the_time_has_passed() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        now = time.monotonic()
        node = Echo([now - 1, now + 0.01, now + 0.02])
        driver = Driver(node, loop, lambda error: None)
        driver.perform(str, lambda command: None)
        driver.post(1)
        await until(lambda: not node.wakes)
        assert node.seen[0] == 1
        assert all(isinstance(event, Wake) for event in node.seen[1:])

    run_on_uvloop(story())


def test_after_a_failure_no_event_is_handled() -> None:
    async def story() -> None:
        node = Echo()
        failures: list[Exception] = []
        driver = Driver(node, asyncio.get_running_loop(), failures.append)
        driver.post(1)
        await until(lambda: bool(failures))
        driver.post(2)
        await asyncio.sleep(0)
        assert isinstance(failures[0], InvariantViolated)
        assert len(failures) == 1
        assert node.seen == [1]

    run_on_uvloop(story())


def test_every_turn_is_timed_by_its_event_and_recorded_after_its_commands() -> None:
    async def story() -> None:
        order: list[Any] = []

        class Recording(tracing.Recorder):
            def turn(self, event: Any, commands: Any, now: float, ended_at: float) -> None:
                assert ended_at >= now
                order.append((event, list(commands)))

        driver = Driver(Echo(), asyncio.get_running_loop(), order.append, recorder=Recording(10))
        driver.perform(str, order.append)
        for number, events in ((1, [1]), (2, [2]), (4, [3, "x"])):
            for event in events:
                driver.post(event)
            await until(lambda number=number: driver.num_events == number)  # type: ignore[misc]
        assert order[:6] == ["1a", "1b", (1, ["1a", "1b"]), "2a", "2b", (2, ["2a", "2b"])]
        assert order[-1] == (Several((3, "x")), ["3a", "3b", "xa", "xb"])
        assert {name: times.num for name, times in driver.turns.items()} == {"int": 2, "Several": 1}

    run_on_uvloop(story())
