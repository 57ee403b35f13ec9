"""What threads say to the loop: each word once, in each thread's order, and one wake-up for what came together."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from baton.core.executor.events import PieceFailed, PieceLanded
from baton.services.executor.reports import Reports
from tests.support.loops import run_on_uvloop, until


def test_words_of_threads_arrive_each_once_and_in_each_threads_order() -> None:
    async def story() -> None:
        posted: list[Any] = []
        reports = Reports(asyncio.get_running_loop(), posted.append)

        def work(number: int) -> None:
            for index in range(500):
                reports.say(PieceLanded(number << 16 | index))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()

        def heard() -> list[int]:
            return [event.piece_id for event in posted]

        await until(lambda: len(heard()) == 2000)
        for thread in threads:
            thread.join()
        for number in range(4):
            assert [i & 0xFFFF for i in heard() if i >> 16 == number] == list(range(500))

    run_on_uvloop(story())


def test_what_was_said_while_the_loop_was_busy_comes_in_one_call_of_the_loop() -> None:
    async def story() -> None:
        posted: list[Any] = []
        loop = asyncio.get_running_loop()
        reports = Reports(loop, posted.append)
        words = [PieceLanded(1), PieceFailed(2), PieceLanded(3)]
        numbers: list[int] = []
        for word in words:
            reports.say(word)
            loop.call_soon(lambda: numbers.append(len(posted)))
        await until(lambda: len(numbers) == 3)
        assert numbers[0] == 3
        reports.say(words[0])
        await until(lambda: len(posted) == 4)
        assert posted == [*words, words[0]]

    run_on_uvloop(story())
