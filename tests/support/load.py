"""A steady load of random questions, each answer judged by the parity oracle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from aiohttp import ClientError

from tests.support.completions import Question, ask, check_answer, random_question
from tests.support.stack import Stack


class Load:
    """`num_clients` clients that ask one question after the other. A wrong token fails the test at once; what failed in
    a way that a client may see is counted by its code."""

    def __init__(self, stack: Stack, num_clients: int = 8, seed: int = 0, max_tokens: int = 40) -> None:
        self.num_good = 0
        self.failures: Counter[str] = Counter()
        self._stack = stack
        self._max_tokens = max_tokens
        self._is_stopping = False
        self._clients = [asyncio.ensure_future(self._client(random.Random(seed + i))) for i in range(num_clients)]

    async def good_answers(self, count: int) -> None:
        """Wait for so many more good answers."""
        target = self.num_good + count
        while self.num_good < target:
            for client in self._clients:
                if client.done():
                    client.result()
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Let every open request end."""
        self._is_stopping = True
        await asyncio.gather(*self._clients)

    async def _client(self, rng: random.Random) -> None:
        while not self._is_stopping:
            question = random_question(rng, 200, self._max_tokens)
            failure = await self._ask(question)
            if failure:
                self.failures[failure] += 1
                await asyncio.sleep(0.02)
            else:
                self.num_good += 1

    async def _ask(self, question: Question) -> str:
        try:
            answer = await ask(self._stack.session, self._stack.url, question)
        except ClientError as error:
            return type(error).__name__
        if answer.error:
            return answer.error
        check_answer(question, answer)
        return ""
