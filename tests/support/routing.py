"""A router's machine on a bench: the test plays clients, scheduler and executors."""

from __future__ import annotations

from typing import Any

from baton.core.config import RouterConfig
from baton.core.events import PeerDown, PeerUp, Received, Wake
from baton.core.ids import AttemptId, Life, Peer
from baton.core.kv.block_hash import hash_chain
from baton.core.router.events import Arrive, ClientGone, Deliver, DeliverTokens, End, StopAt
from baton.core.router.machine import RouterCore
from baton.core.wire import messages as m
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import PromptScores, pack_rows
from tests.support.expect import messages
from tests.support.machines import KEY, LAYOUT, ROUTER, SCHEDULER, D, P, packed, prompt, root_of, sampled


class RouterRig:
    """Linked to a scheduler, a prefill and a decode executor; `answers` and `ends` are what clients got."""

    def __init__(self, **knobs: Any) -> None:
        self.core = RouterCore(ROUTER, RouterConfig(**knobs))
        self.now = 100.0
        self.turns: list[tuple[Any, float, list[Any]]] = []
        self.answers: dict[tuple[int, int], list[int]] = {}
        self.finishes: dict[tuple[int, int], str] = {}
        self.scores: dict[int, PromptScores] = {}  #: of prompts
        self.ends: dict[int, End] = {}
        self.submits: list[m.Submit] = []
        self.up(SCHEDULER, P, D)

    def do(self, event: Any, after_s: float = 0.0) -> list[Any]:
        self.now += after_s
        out = self.core.handle(event, self.now)
        self.turns.append((event, self.now, out))
        self.submits += messages(out, m.Submit)
        for command in out:
            if isinstance(command, Deliver):
                self._deliver(command)
            elif isinstance(command, DeliverTokens):
                for deliver in command.delivers():
                    self._deliver(deliver)
            elif isinstance(command, End):
                assert command.request_id not in self.ends, "a second end"
                self.ends[command.request_id] = command
        self.core.check_invariants()
        return out

    def _deliver(self, command: Deliver) -> None:
        key = (command.request_id, command.choice)
        answer = self.answers.setdefault(key, [])
        assert command.request_id not in self.ends, "tokens after the end"
        assert key not in self.finishes, "tokens after the finish"
        assert command.offset == len(answer), "a gap or a repetition"
        answer += [token.token for token in command.tokens]
        if command.prompt_scores is not None:
            assert command.request_id not in self.scores, "the prompt's scores twice"
            assert (command.choice, command.offset) == (0, 0), "the prompt's scores, but no first token"
            self.scores[command.request_id] = command.prompt_scores
        if command.finish:
            self.finishes[key] = command.finish

    def up(self, *peers: Peer) -> list[Any]:
        return [command for peer in peers for command in self.do(PeerUp(peer))]

    def down(self, peer: Peer) -> list[Any]:
        return self.do(PeerDown(peer, "silence"))

    def hear(self, peer: Peer, message: Any, after_s: float = 0.0) -> list[Any]:
        return self.do(Received(peer, message), after_s)

    def wake(self, after_s: float = 0.0) -> list[Any]:
        return self.do(Wake(), after_s)

    def arrive(self, number: int, *, max_tokens: int = 8, num_choices: int = 1, **fields: Any) -> list[Any]:
        tokens = packed(prompt(10, number % 50))
        root = root_of()
        hashes = hash_chain(KEY, root, tokens, LAYOUT.block_size)
        num_prompt_logprobs = fields.pop("num_prompt_logprobs", -1)
        sampling = SamplingParams(max_tokens, temperature=0.0, num_prompt_logprobs=num_prompt_logprobs)
        timeout_s = fields.pop("timeout_s", 60.0)
        return self.do(Arrive(number, tokens, 10, root, hashes, sampling, num_choices, timeout_s, **fields))

    def placed(
        self, work_id: AttemptId | None = None, *, prefill: Life = P.life, decode: Life | None = D.life
    ) -> AttemptId:
        """The scheduler says where the attempt (the last one submitted) runs."""
        work_id = work_id or self.submits[-1].id
        self.hear(SCHEDULER, m.Placed(work_id, prefill, decode))
        return work_id

    def start(self, number: int, **fields: Any) -> AttemptId:
        """A request arrives and is placed."""
        self.arrive(number, **fields)
        return self.placed()

    def say(
        self,
        peer: Peer,
        work_id: AttemptId,
        offset: int,
        *tokens: int,
        finish: str = "",
        choice: int = 0,
        scores: PromptScores | None = None,
    ) -> list[Any]:
        """An executor's record."""
        record = m.Record(work_id, choice, offset, sampled(*tokens), finish, prompt_scores=scores)
        return self.hear(peer, m.Records((record,)))

    def say_rows(self, peer: Peer, *rows: tuple[AttemptId, int, int, int]) -> list[Any]:
        """An executor's plain tokens: (attempt, choice, offset, token)."""
        numbers = [number for work_id, *rest in rows for number in (*work_id, *rest)]
        return self.hear(peer, m.Records((), pack_rows(numbers)))

    def fail(self, work_id: AttemptId, reason: Any, peer: Peer = D) -> list[Any]:
        return self.hear(peer, m.AttemptFailed(work_id, reason))

    def stop_at(self, number: int, offset: int, choice: int = 0) -> list[Any]:
        return self.do(StopAt(number, choice, offset))

    def gone(self, number: int, **fields: Any) -> list[Any]:
        return self.do(ClientGone(number, **fields))
