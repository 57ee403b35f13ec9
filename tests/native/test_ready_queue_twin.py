"""The C ready queue against a sorted list: the same order, the same first fit, the same refusals."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.kv.ready_queue import ReadyQueue
from tests.support.outcomes import same_outcome
from tests.support.twins.ready_queue import ReadyQueueTwin

EXTREMES = [-(2**63), -1, 0, 1, 2**63 - 1]


class Pair:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.real, self.twin = ReadyQueue(), ReadyQueueTwin()
        self.next_handle = 0

    def call(self, method: str, *arguments: object) -> object:
        return same_outcome(self.real, self.twin, method, *arguments)

    def value(self) -> int:
        return self.random.choice(EXTREMES) if self.random.random() < 0.05 else self.random.randrange(12)

    def some_handle(self) -> int:
        return self.random.randrange(-1, self.next_handle + 2)

    def push(self) -> None:
        self.next_handle += self.random.randrange(1, 3)
        handle = self.some_handle() if self.random.random() < 0.1 else self.next_handle
        self.call("push", handle, self.value(), self.value(), self.value(), self.value(), self.value())

    def look(self) -> None:
        handle = self.some_handle()
        self.call("first_fit", self.value(), self.value(), handle)
        self.call("first_fit", self.value(), self.value())
        for method in ("key", "demand"):
            if handle in self.twin:
                self.call(method, handle)
        assert (handle in self.real) == (handle in self.twin)

    def change(self) -> None:
        handle = self.some_handle()
        if handle in self.twin:
            self.call("set_demand", handle, self.value(), self.value())

    def step(self, growth: int) -> None:
        action = self.random.choices(["push", "remove", "look", "change"], [growth, 2, 2, 1])[0]
        if action == "remove":
            self.call("remove", self.some_handle())
        else:
            getattr(self, action)()

    def compare(self) -> None:
        self.real.check_invariants()
        for method in ("handles", "first", "__len__"):
            self.call(method)


@pytest.mark.parametrize("seed", range(6))
def test_thousands_of_calls_agree_with_the_sorted_list(seed: int) -> None:
    pair = Pair(seed)
    for step in range(3000):
        pair.step(growth=3 if step % 1000 < 600 else 1)
        if step % 10 == 0:
            pair.compare()
    for handle in pair.twin.handles():
        pair.call("remove", handle)
    pair.compare()


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_any_short_history_agrees_with_the_sorted_list(seed: int, num_steps: int) -> None:
    pair = Pair(seed)
    for _ in range(num_steps):
        pair.step(growth=3)
    pair.compare()
