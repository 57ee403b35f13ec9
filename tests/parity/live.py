"""A stack of real processes that lives for a whole module of tests: its loop runs on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from tests.parity.answers import Question, TokenAnswer, TokenNames, ask
from tests.support.stack import Stack

T = TypeVar("T")
WAIT_LIMIT_S = 240.0  #: bounds a test that hangs; nothing is measured against it
PATIENT_LINK_FLAGS = ("--silence-s", "20")  #: a busy machine is no dead peer


class LiveStack:
    """Called from the test's thread; everything of the stack runs on the loop's thread."""

    def __init__(self, folder: Path, model: Path, names: tuple[str, ...], extra: dict[str, tuple[str, ...]]) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stack")
        self._thread.start()
        self.names = TokenNames(model)
        roles = {name.rstrip("0123456789") for name in names}
        flags = {role: (*PATIENT_LINK_FLAGS, *extra.get(role, ())) for role in roles}
        self.stack = self.run(self._open(folder, model, names, flags))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_LIMIT_S)

    def ask(self, *questions: Question) -> list[TokenAnswer]:
        """All at once; the answers in the order of the questions."""

        async def together() -> list[TokenAnswer]:
            asked = [ask(self.stack.session, self.stack.url, question, self.names) for question in questions]
            return list(await asyncio.gather(*asked))

        try:
            return self.run(together())
        except BaseException:
            self._tell_state()
            raise

    def gauges(self, name: str) -> dict[str, float]:
        return self.run(self.stack.gauges(name))

    def close(self) -> None:
        self.run(self.stack.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _tell_state(self) -> None:
        """Print what every process says of itself, for whoever reads the failure."""
        for name in self.stack.running:
            gauges = {key: value for key, value in self.gauges(name).items() if value}
            print(f"==== {name}: {gauges}\n{self.stack.log(name)[-3000:]}")

    async def _open(
        self, folder: Path, model: Path, names: tuple[str, ...], extra: dict[str, tuple[str, ...]]
    ) -> Stack:
        stack = Stack(folder, model, names=names, extra=extra)
        try:
            for name in names:
                stack.start(name)
            await stack.ready()
        except BaseException:
            await stack.close()
            raise
        return stack
