"""What clients may see: of every accepted request the right tokens, contiguous, and one end with a lawful cause."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.ids import Life
from baton.core.router.events import Deliver, End
from baton.core.sim.env import Env
from baton.core.sim.reference import Answer, answer, prompt_scores
from baton.core.sim.scenario import Client, Scenario

#: reasons that only something that went wrong can cause
AFTER_FAULTS = (
    Reason.NO_EXECUTOR,
    Reason.LINK_BUSY,
    Reason.PEER_LOST,
    Reason.TRANSFER_FAILED,
    Reason.STEP_FAILED,
    Reason.QUARANTINE,
    Reason.TOO_MANY_ATTEMPTS,
)
EARLY_S = 2e-3  #: what is left of a deadline travels in whole milliseconds
START_UP_S = 0.6  #: until then a fleet may be incomplete without a fault


class Stream:
    """One accepted request as its client sees it."""

    __slots__ = (
        "answers", "arrived_at", "client", "ended", "finished", "gone", "heard_stops", "must_complete", "num_delivered",
        "prompt_scores", "stops",
    )  # fmt: skip

    def __init__(self, client: Client, answers: list[Answer], arrived_at: float, must_complete: bool) -> None:
        self.client = client
        self.answers = answers
        self.arrived_at = arrived_at
        self.must_complete = must_complete
        self.num_delivered = [0] * client.num_choices
        self.finished = [False] * client.num_choices
        self.stops: dict[int, int] = {}  #: choice → output offset at which the client's side stopped it
        self.heard_stops: list[int] = []  #: choices of which the router's machine knows that
        self.prompt_scores = prompt_scores(client)  #: that are still to come with the first token
        self.gone: Reason | None = None
        self.ended: End | None = None


class Oracle:
    """Knows the answers. Fed by the world with everything that crosses the router's HTTP side."""

    def __init__(self, env: Env, scenario: Scenario) -> None:
        self._env = env
        self._scenario = scenario
        self._smallest_pool = min(spec.num_blocks for spec in scenario.executors) - 1
        self.streams: dict[tuple[Life, int], Stream] = {}  #: live and ended, of routers that live
        self.fault_kinds: set[str] = set()  #: what has gone wrong so far
        self.num_live = 0

    def accept(self, router: Life, request_id: int, client: Client, must_complete: bool) -> Stream:
        answers = [answer(client, choice, self._scenario.end_one_in) for choice in range(client.num_choices)]
        stream = Stream(client, answers, self._env.time.now, must_complete)
        self.streams[router, request_id] = stream
        self.num_live += 1
        return stream

    def lose_router(self, router: Life) -> None:
        """Its clients' connections died with it: nobody waits for an end."""
        for key in [key for key in self.streams if key[0] == router]:
            if self.streams.pop(key).ended is None:
                self.num_live -= 1
                self._env.counters["requests lost with their router"] += 1

    def deliver(self, router: Life, command: Deliver) -> Stream:
        """Tokens reach the client: they must be the next ones of the right answer."""
        stream = self._stream(router, command.request_id)
        choice, what = command.choice, f"request {command.request_id} choice {command.choice}"
        if stream.ended is not None or stream.finished[choice]:
            self._env.fail("nothing after the end", f"{what}: {command} after {stream.ended}")
        if choice in stream.heard_stops and command.tokens:
            self._env.fail("nothing after a stop", f"{what}: {command}")
        start = stream.num_delivered[choice]
        if command.offset != start:
            self._env.fail("contiguous tokens", f"{what}: offset {command.offset}, {start} were delivered")
        self._compare_scores(stream, command, what)
        tokens = [sampled.token for sampled in command.tokens]
        right = stream.answers[choice]
        end = start + len(tokens)
        if tokens != right.tokens[start:end]:
            self._env.fail("right tokens", f"{what}: from {start} {tokens}, right is {right.tokens[start : end + 3]}")
        if any(sampled.choice != choice for sampled in command.tokens):
            self._env.fail("right tokens", f"{what}: tokens of another choice: {command}")
        stream.num_delivered[choice] = end
        self._finish(stream, choice, end, command.finish, what)
        self._env.counters["tokens delivered"] += len(tokens)
        return stream

    def _compare_scores(self, stream: Stream, command: Deliver, what: str) -> None:
        """The prompt's scores come whole and once, with the first token of the first choice."""
        is_first = command.choice == 0 and command.offset == 0
        right = stream.prompt_scores if is_first else None
        if command.prompt_scores != right:
            given = "none" if command.prompt_scores is None else f"{command.prompt_scores.num_tokens} wrong"
            rights = "none" if right is None else f"{right.num_tokens}"
            self._env.fail("right scores of the prompt", f"{what}: {given} at {command.offset}, right are {rights}")
        if command.prompt_scores is not None:
            stream.prompt_scores = None
            self._env.counters["prompts scored"] += 1

    def _finish(self, stream: Stream, choice: int, end: int, finish: str, what: str) -> None:
        right = stream.answers[choice]
        stop = stream.stops.get(choice)
        if stop is not None:
            if finish == "stop" or (end == len(right.tokens) and finish == right.finish):
                stream.finished[choice] = True
            elif finish:
                self._env.fail("right finish", f"{what}: {finish!r} at {end}, was stopped at {stop}")
            return
        is_end = end == len(right.tokens)
        if finish != (right.finish if is_end else ""):
            rights = f"{right.finish!r} at {len(right.tokens)}"
            self._env.fail("right finish", f"{what}: {finish!r} at {end}, right is {rights}")
        stream.finished[choice] = is_end and right.finish != ""

    def stop(self, stream: Stream, choice: int, offset: int) -> None:
        """The client's side found a stop string; what comes after it does not count."""
        stream.stops[choice] = offset

    def end(self, router: Life, command: End) -> None:
        """The one end: complete, or with a cause that really is there."""
        stream = self._stream(router, command.request_id)
        what = f"request {command.request_id} of {router}"
        if stream.ended is not None:
            self._env.fail("one end", f"{what}: {command} after {stream.ended}")
        stream.ended = command
        self.num_live -= 1
        if command.error is None:
            for choice in range(stream.client.num_choices):
                if not stream.finished[choice] and choice not in stream.stops:
                    self._env.fail("complete without error", f"{what}: choice {choice} has no finish")
            if stream.prompt_scores is not None:
                self._env.fail("complete without error", f"{what}: the prompt has no scores")
            self._env.counters["requests complete"] += 1
            return
        self._env.counters[f"requests ended {command.error.name}"] += 1
        if stream.must_complete or not self._is_lawful(stream, command.error):
            self._env.fail("lawful cause", f"{what} ended with {command.error.name}, faults so far: {self._faults()}")

    def _is_lawful(self, stream: Stream, reason: Reason) -> bool:
        client, scenario = stream.client, self._scenario
        if reason is stream.gone:
            return True
        if reason is Reason.DEADLINE:
            return self._env.time.now >= stream.arrived_at + client.timeout_s - EARLY_S
        if reason is Reason.GRAMMAR_FAILED:
            return not all(answer.finish for answer in stream.answers)
        if reason is Reason.NEVER_FITS:
            return self.may_never_fit(client)
        if reason is Reason.QUEUE_FULL:
            most = max(each.num_choices for each in scenario.clients)
            limit = min(scenario.scheduler.max_queued, scenario.router.max_streams) // most
            return self.num_live + 1 >= min(limit, scenario.scheduler.max_queued // 4)
        if reason is Reason.NO_EXECUTOR and stream.arrived_at < START_UP_S:
            return True
        if reason is Reason.DRAINING:
            return "drain" in self.fault_kinds
        return reason in AFTER_FAULTS and bool(self.fault_kinds)

    def may_never_fit(self, client: Client) -> bool:
        """Whether a refusal for size can be right. Whatever takes at most half of every pool always fits."""
        scenario = self._scenario
        longest = len(client.prompt) + client.sampling.max_tokens
        slots = min(spec.config.num_slots for spec in scenario.executors)
        per_choice = -(-longest // scenario.block_size) + 1
        needs = per_choice * client.num_choices
        return longest > scenario.max_model_len or 2 * needs > self._smallest_pool or client.num_choices > slots

    def refused_after_placement(self, who: str, reason: Reason | None) -> None:
        """What is placed always fits; only a lost link can be news that the scheduler did not have yet."""
        if reason is not Reason.LINK_BUSY or not self.fault_kinds:
            self._env.fail("what is placed fits", f"{who} refused with {reason!r}, faults so far: {self._faults()}")

    def _faults(self) -> list[str]:
        return sorted(self.fault_kinds)

    def _stream(self, router: Life, request_id: int) -> Stream:
        stream = self.streams.get((router, request_id))
        if stream is None:
            self._env.fail("answers what was asked", f"request {request_id} of {router} is unknown")
            raise AssertionError
        return stream

    def unended(self) -> list[str]:
        """The requests that still wait for their end."""
        return [f"{life}:{rid}" for (life, rid), stream in self.streams.items() if stream.ended is None]
