"""Whose grammar is checked when: one at a time, tenants by turns, and whoever leaves keeps nobody."""

from __future__ import annotations

import asyncio
import threading

import pytest

from baton.services.grammar.errors import BadGrammar
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.grammar_gate import GrammarGate


class Checks:
    """Holds each check until it is let go; remembers the order."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.may_go = threading.Semaphore(0)

    def check(self, grammar: str) -> None:
        self.order.append(grammar)
        self.may_go.acquire()
        if grammar.startswith("bad"):
            raise BadGrammar("no")


def gate_of(checks: Checks, max_waiting: int = 64) -> GrammarGate:
    return GrammarGate(checks.check, HttpConfig(served_names=("m",), max_waiting_grammars=max_waiting))


async def test_tenants_take_turns() -> None:
    checks = Checks()
    gate = gate_of(checks)
    asked = [("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("c0", "c"), ("b1", "b")]
    passing = [asyncio.ensure_future(gate.pass_through(name, "guided_regex", tenant)) for name, tenant in asked]
    await asyncio.sleep(0)
    for _ in asked:
        checks.may_go.release()
    await asyncio.gather(*passing)
    assert checks.order == ["a0", "a1", "b0", "c0", "a2", "b1"]
    gate.close()


async def test_one_tenant_fills_half_of_the_places_and_all_of_them_fill_all() -> None:
    checks = Checks()
    gate = gate_of(checks, max_waiting=4)
    passing = [asyncio.ensure_future(gate.pass_through(f"a{at}", "p", "a")) for at in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await gate.pass_through("a3", "p", "a")
    assert (refused.value.status, refused.value.code) == (429, "queue_full")
    passing += [asyncio.ensure_future(gate.pass_through(f"b{at}", "p", "b")) for at in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError):
        await gate.pass_through("c0", "p", "c")
    for _ in passing:
        checks.may_go.release()
    await asyncio.gather(*passing)
    gate.close()


async def test_who_leaves_while_waiting_or_while_checked_keeps_nobody() -> None:
    checks = Checks()
    gate = gate_of(checks)
    checked, waiting, last = (asyncio.ensure_future(gate.pass_through(name, "p", name)) for name in ("x", "y", "z"))
    await asyncio.sleep(0)
    checked.cancel()
    waiting.cancel()
    await asyncio.gather(checked, waiting, return_exceptions=True)
    for _ in range(2):
        checks.may_go.release()
    await last
    assert checks.order == ["x", "z"]
    gate.close()


async def test_a_bad_grammar_is_a_422_and_the_next_one_is_checked() -> None:
    checks = Checks()
    gate = gate_of(checks)
    for _ in range(2):
        checks.may_go.release()
    with pytest.raises(ApiError) as refused:
        await gate.pass_through("bad", "guided_json")
    assert (refused.value.status, refused.value.param) == (422, "guided_json")
    await gate.pass_through("good", "guided_json")
    gate.close()
