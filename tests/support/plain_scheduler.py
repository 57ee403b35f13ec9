"""The plainest step scheduler: running sequences decode, then prompts in arrival order; or prompts first, in own steps.
It has all the memory in the world, knows a prefix as the tokens themselves, and shares nothing with the machine's walk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Item(NamedTuple):
    """Tokens `[start, start + count)` of a request; whether a token is sampled after them."""

    request: int
    start: int
    count: int
    samples: bool


@dataclass
class Request:
    number: int
    tokens: list[int]  #: prompt, then known outputs
    max_tokens: int
    num_prompt: int
    num_planned: int = 0  #: positions in plans
    num_sampled: int = 0  #: outputs in plans
    num_done: int = 0  #: positions computed
    num_published: int = 0  #: leading blocks that others may find, as far as this request put them there
    may_publish: bool = True


@dataclass
class PlainScheduler:
    """`plan` one step, report it with `done`, in the same order."""

    token_budget: int
    long_prefill_tokens: int
    block_size: int
    prefills_first: bool = False
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    prefixes: set[tuple[int, ...]] = field(default_factory=set)

    def add(self, number: int, tokens: list[int], max_tokens: int) -> None:
        self.waiting.append(Request(number, list(tokens), max_tokens, len(tokens)))

    def plan(self) -> list[Item]:
        left, items = self.token_budget, []
        decoding = [] if self.prefills_first and self.waiting else self.running
        for request in [r for r in decoding if r.num_sampled < r.max_tokens][:left]:
            items.append(self._take(request, 1))
        left -= len(items)
        for request in list(self.waiting):
            if left == 0:
                break
            if request.num_planned == 0:
                self._reuse_prefix(request)
            count = min(request.num_prompt - request.num_planned, self.long_prefill_tokens, left)
            items.append(self._take(request, count))
            left -= count
            if request.num_planned == request.num_prompt:
                self.waiting.remove(request)
                self.running.append(request)
        return items

    def done(self, items: list[Item], outputs: dict[int, int]) -> None:
        """The step was computed; `outputs` are its sampled tokens by request."""
        for item in items:
            request = self._find(item.request)
            request.num_done = item.start + item.count
            self._publish(request)
            if item.samples:
                request.tokens.append(outputs[item.request])
                if len(request.tokens) - request.num_prompt == request.max_tokens:
                    self.running.remove(request)

    def _find(self, number: int) -> Request:
        return next(r for r in self.waiting + self.running if r.number == number)

    def _take(self, request: Request, count: int) -> Item:
        item = Item(request.number, request.num_planned, count, request.num_planned + count >= request.num_prompt)
        request.num_planned += count
        request.num_sampled += item.samples
        return item

    def _reuse_prefix(self, request: Request) -> None:
        full = range(self.block_size, request.num_prompt + 1, self.block_size)
        found = [end for end in full if tuple(request.tokens[:end]) in self.prefixes]
        cached = max(found, default=0)
        request.num_planned = min(cached, request.num_prompt - 1)
        request.num_published = request.num_planned // self.block_size

    def _publish(self, request: Request) -> None:
        while request.may_publish and (request.num_published + 1) * self.block_size <= request.num_done:
            prefix = tuple(request.tokens[: (request.num_published + 1) * self.block_size])
            request.may_publish = prefix not in self.prefixes
            self.prefixes.add(prefix)
            request.num_published += request.may_publish
