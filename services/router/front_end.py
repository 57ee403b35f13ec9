"""Where HTTP meets the machine: events in through `submit`, commands out through `perform`, both on the loop's thread.

Owns the streams of accepted requests and nothing that decides about them. A request is known here from its Arrive to
its End, or until its client has gone; commands for others are late and are dropped.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import msgspec

from baton.core.errors import Reason
from baton.core.router.events import Arrive, ClientGone, DeliverTokens, End, RouterCommand, RouterEvent, StopAt
from baton.core.wire.sampling import SamplingParams
from baton.services.router.api.ask import Ask
from baton.services.router.api.ranges import at_most
from baton.services.router.config import HttpConfig, Limits
from baton.services.router.errors import ApiError, from_reason, invalid, shutting_down
from baton.services.router.grammar_gate import GrammarGate
from baton.services.router.http.auth import ANYBODY, Client
from baton.services.router.pace import Pace
from baton.services.router.streams import Part, RequestStream
from baton.services.router.text.choice_text import ChoiceText
from baton.services.router.text.detokenize import Undecodable
from baton.services.router.text.model_folder import RouterModel
from baton.services.router.text.tokenize import Prompt, TokenizerThreads

END_GRACE_S = 1.0  #: for answers to write down that the server stops
Argument = TypeVar("Argument")
Result = TypeVar("Result")


class FrontEnd:
    """The service sets `limits` from the roster; None says that no executor is known."""

    def __init__(
        self,
        submit: Callable[[RouterEvent], None],
        model: RouterModel,
        config: HttpConfig,
        check_grammar: Callable[[str], None],
        new_seed: Callable[[], int] = lambda: secrets.randbits(63),
        wire_id_of: Callable[[int], int] = lambda request_id: request_id,
    ) -> None:
        self.limits: Limits | None = None
        self.config = config
        self.model = model
        self.num_output_tokens = 0  #: that the machine delivered
        self.num_entered = 0  #: requests between their head and their answer's end
        self.is_stopping = False  #: nothing new is taken
        self.is_shut = False  #: and what still ran was told so
        self._is_empty = asyncio.Event()  #: set while nothing is entered
        self._is_empty.set()
        self._intakes: set[asyncio.Timeout] = set()  #: of requests that have no stream yet
        self.wire_id_of = wire_id_of  #: how other processes and their logs call a request
        self._submit = submit
        self._threads = TokenizerThreads(model.encoder, config.num_tokenizer_threads)
        self._grammars = GrammarGate(check_grammar, config)
        self._new_seed = new_seed
        self._last_id = 0
        self._pace = Pace(config.stream_interval_s)
        self._streams: dict[int, RequestStream] = {}

    def perform(self, command: RouterCommand) -> None:
        """Do what the machine says; never waits."""
        if isinstance(command, DeliverTokens):
            for deliver in command.delivers():
                self.perform(deliver)
            return
        stream = self._streams.get(command.request_id)
        if stream is None:
            return
        if isinstance(command, End):
            del self._streams[command.request_id]
            stream.end(command, self._failure(command))
            if stream.failure is not None:
                self.leave(stream)
            return
        self.num_output_tokens += len(command.tokens)
        try:
            offset = stream.deliver(command)
        except Undecodable as error:
            self.leave(stream, error.reason)
            stream.fail(ApiError(500, str(error), kind="server_error", code="undecodable_token"))
            return
        if offset is not None:
            self._submit(StopAt(command.request_id, command.choice, offset))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Around everything that is done for one request."""
        self.num_entered += 1
        self._is_empty.clear()
        try:
            yield
        finally:
            self.num_entered -= 1
            if self.num_entered == 0:
                self._is_empty.set()

    @asynccontextmanager
    async def intake(self) -> AsyncIterator[None]:
        """Around what comes before the stream: reading and tokenizing end with a 503 when the server does."""
        limit = asyncio.timeout(None)
        self._intakes.add(limit)
        try:
            async with limit:
                yield
        except TimeoutError:
            raise self.stopping() from None
        finally:
            self._intakes.discard(limit)

    async def enter(self, ask: Ask, client: Client = ANYBODY) -> RequestStream:
        """Tokenize, check against the limits and hand over to the machine; the caller must `leave` the stream."""
        limits = self.limits
        if limits is None:
            raise from_reason(Reason.NO_EXECUTOR, {}, self.config.retry_after_s)
        if ask.sampling.grammar:
            await self._grammars.pass_through(ask.sampling.grammar, ask.grammar_param, client.tenant)
        prompts = await self._threads.encode(ask, limits, client.salt_prefix)
        if self.is_shut:
            raise self.stopping()
        if ask.scores_prompt:
            longest = max(prompt.num_tokens for prompt in prompts)
            at_most(ask.blame.prompt, longest, self.config.max_scored_prompt_tokens, "tokens to score")
            num_scores = ask.num_scores(sum(prompt.num_tokens for prompt in prompts))
            at_most(ask.blame.prompt, num_scores, self.config.max_scores, "scores in all answers")
        lengths = [resolve_max_tokens(ask, prompt.num_tokens, limits) for prompt in prompts]
        seed = ask.sampling.seed if ask.has_seed else self._new_seed()
        stream = self._new_stream(ask, prompts)
        for (request_id, part), max_tokens in zip(stream.parts.items(), lengths, strict=True):
            if stream.is_over:
                break
            self._streams[request_id] = stream
            prompt = part.prompt
            self._submit(
                Arrive(
                    request_id,
                    prompt.tokens,
                    prompt.num_tokens,
                    prompt.root,
                    prompt.hashes,
                    self._sampling(ask, max_tokens, seed),
                    ask.num_choices,
                    ask.timeout_s,
                    max(ask.priority_class, client.least_priority_class),
                    client.tenant,
                )
            )
        return stream

    def leave(self, stream: RequestStream, reason: Reason = Reason.ABORTED) -> None:
        """The client's side is over; the machine hears of what it has not ended already."""
        for request_id in stream.parts:
            if self._streams.pop(request_id, None) is not None:
                self._submit(ClientGone(request_id, reason))

    def stopping(self) -> ApiError:
        """What is said to those that are not served any more."""
        return shutting_down(self.config.retry_after_s)

    async def finish(self) -> None:
        """Take nothing new, give what runs `stop_grace_s`, then have the rest say that the server stops."""
        self.is_stopping = True
        if not await self._empty_within(self.config.stop_grace_s):
            self._shut()
            await self._empty_within(END_GRACE_S)

    def _shut(self) -> None:
        self.is_shut = True
        for stream in dict.fromkeys(self._streams.values()):
            self.leave(stream, Reason.DRAINING)
            stream.fail(self.stopping())
        for limit in self._intakes:
            limit.reschedule(0)

    async def _empty_within(self, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                await self._is_empty.wait()
        except TimeoutError:
            return self.num_entered == 0
        return True

    async def beside(self, compute: Callable[[Argument], Result], argument: Argument) -> Result:
        """Run a function of finished things on a thread."""
        return await self._threads.run(compute, argument)

    def close(self) -> None:
        """End the threads."""
        self._grammars.close()
        self._threads.close()

    @property
    def num_streams(self) -> int:
        """Requests that the machine has and has not ended."""
        return len(self._streams)

    def _failure(self, end: End) -> ApiError | None:
        return None if end.error is None else from_reason(end.error, end.numbers, self.config.retry_after_s)

    def _new_stream(self, ask: Ask, prompts: list[Prompt]) -> RequestStream:
        table, sampling = self.model.tool_table if ask.tools else self.model.table, ask.sampling
        ends = self._ends(ask)
        parts: dict[int, Part] = {}
        for prompt in prompts:
            choices = [
                ChoiceText(table, ask.stop, ends, sampling.min_tokens, keeps_tokens=sampling.num_logprobs >= 0)
                for _ in range(ask.num_choices)
            ]
            self._last_id += 1
            parts[self._last_id] = Part(prompt, choices)
        return RequestStream(parts, ask.scores_prompt, self._pace)

    def _sampling(self, ask: Ask, max_tokens: int, seed: int) -> SamplingParams:
        return msgspec.structs.replace(ask.sampling, max_tokens=max_tokens, seed=seed, stop_token_ids=self._ends(ask))

    def _ends(self, ask: Ask) -> tuple[int, ...]:
        ends = () if ask.sampling.ignore_eos else self.model.info.eos_token_ids
        return tuple(dict.fromkeys((*ends, *ask.sampling.stop_token_ids)))


def resolve_max_tokens(ask: Ask, num_prompt_tokens: int, limits: Limits) -> int:
    """How many tokens each choice may have; a 400 with the numbers where the context cannot hold them."""
    room = limits.max_model_len - num_prompt_tokens
    wanted, least = ask.max_tokens, ask.sampling.min_tokens
    if wanted is None:
        default = room if ask.max_tokens_default is None else ask.max_tokens_default
        wanted = min(room, max(default, least))
    wanted = max(1, wanted)  # where only the prompt is wanted one token is made, and not shown
    if max(wanted, least) > room:
        raise invalid(
            f"the context has {limits.max_model_len} tokens: {num_prompt_tokens} are in the prompt and "
            f"{max(wanted, least)} are asked for",
            ask.blame.length if room > 0 else ask.blame.prompt,
            "context_length_exceeded",
        )
    return wanted
