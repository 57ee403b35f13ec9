"""Lets through the grammars that executors can use. The check runs beside the loop and beside the tokenizer's threads,
so that whoever sends hard grammars delays those with grammars at most."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from baton.core.errors import Incompatible, Reason
from baton.services.grammar.errors import BadGrammar, CheckerLost
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, bad_grammar, from_reason, invalid


class GrammarGate:
    """`check` blocks, and raises what `baton.services.grammar.checker` does. One grammar at a time is checked; tenants
    take turns, and none may fill more than half of the places."""

    def __init__(self, check: Callable[[str], None], config: HttpConfig) -> None:
        self._check = check
        self._config = config
        self._is_busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  #: by tenant, whose turn is next first
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar")

    async def pass_through(self, grammar: str, param: str, tenant: str = "") -> None:
        """Raises the answer for a grammar of field `param` that cannot be used."""
        await self._turn_of(tenant)
        try:
            await self._run(grammar)
        except BadGrammar as error:
            raise bad_grammar(str(error), param) from None
        except Incompatible as error:
            raise invalid(f"this model takes no grammars: {error}", param, "unsupported_parameter") from None
        except CheckerLost:
            raise ApiError(
                503,
                "the grammar could not be checked",
                kind="server_error",
                code="grammar_check_lost",
                retry_after_s=self._config.retry_after_s,
            ) from None

    def close(self) -> None:
        """What waits is dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _turn_of(self, tenant: str) -> None:
        self._refuse_if_full(tenant)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        self._give_turn()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn had come
                self._end_turn()
            raise

    def _refuse_if_full(self, tenant: str) -> None:
        limit = self._config.max_waiting_grammars
        num_waiting = sum(map(len, self._waiting.values()))
        mine = len(self._waiting.get(tenant, ()))
        if num_waiting >= limit or (tenant and mine >= (limit + 1) // 2):
            numbers = {"waiting_grammars": float(num_waiting), "limit": float(limit)}
            raise from_reason(Reason.QUEUE_FULL, numbers, self._config.retry_after_s)

    def _give_turn(self) -> None:
        while self._waiting and not self._is_busy:
            tenant, turns = next(iter(self._waiting.items()))
            del self._waiting[tenant]
            turn = turns.popleft()
            if turns:
                self._waiting[tenant] = turns  # behind the others
            if not turn.done():
                self._is_busy = True
                turn.set_result(None)

    def _end_turn(self) -> None:
        self._is_busy = False
        self._give_turn()

    def _on_checked(self, checking: asyncio.Future[None]) -> None:
        if not checking.cancelled():
            checking.exception()  # looked at, also where nobody waits for it any more
        self._end_turn()

    async def _run(self, grammar: str) -> None:
        """The turn lasts as long as the check, whether somebody still waits for it or not."""
        checking = asyncio.get_running_loop().run_in_executor(self._thread, self._check, grammar)
        checking.add_done_callback(self._on_checked)
        await asyncio.shield(checking)
