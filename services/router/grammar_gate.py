"""Lets through the grammars that executors can use. The check runs beside the loop and beside the tokenizer's threads,
so that whoever sends hard grammars delays those with grammars at most."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from baton.core.errors import Incompatible, Reason
from baton.services.grammar.errors import BadGrammar, CheckerLost
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, bad_grammar, from_reason, invalid


class GrammarGate:
    """`check` blocks, and raises what `baton.services.grammar.checker` does."""

    def __init__(self, check: Callable[[str], None], config: HttpConfig) -> None:
        self._check = check
        self._config = config
        self._num_waiting = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar")

    async def pass_through(self, grammar: str, param: str) -> None:
        """Raises the answer for a grammar of field `param` that cannot be used."""
        retry_after_s = self._config.retry_after_s
        if self._num_waiting >= self._config.max_waiting_grammars:
            numbers = {"waiting_grammars": float(self._num_waiting), "limit": float(self._config.max_waiting_grammars)}
            raise from_reason(Reason.QUEUE_FULL, numbers, retry_after_s)
        self._num_waiting += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._check, grammar)
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
                retry_after_s=retry_after_s,
            ) from None
        finally:
            self._num_waiting -= 1

    def close(self) -> None:
        """What waits is dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)
