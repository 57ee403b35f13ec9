"""Which executors serve a request: the one that would have its prompt computed first, and where it decodes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from mypy_extensions import mypyc_attr

from baton.core.config import SchedulerConfig
from baton.core.errors import Reason
from baton.core.ids import Role
from baton.core.kv.demand import blocks_for
from baton.core.layout import anchor_of
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.prediction import Predictor
from baton.core.scheduler.queue import Waiting
from baton.core.wire.placement import PlacementReason


class Choice(NamedTuple):
    """Who computes the prompt, and why there (R4)."""

    executor: Executor
    why: PlacementReason


@mypyc_attr(allow_interpreted_subclasses=True)  # parts of a scenario may be such
class Placement:
    """Chooses by least predicted time. While nothing is measured, or with a fixed rule, that is counted in prompt
    tokens to compute until this one is done, and a decode executor computes no prompt that a prefill executor could.

    `barred` executors collect blocks for somebody else.
    """

    def __init__(self, fleet: Fleet, config: SchedulerConfig) -> None:
        self._fleet = fleet
        self._config = config
        self._predictor = Predictor(config.interruption_weight)
        self._predicts = False
        self._falls_back = False
        self._version = -1  #: of the fleet when it was looked at last
        self._ranked: list[Executor] | None = None  #: while one is chosen
        self._num_behind = 0  #: the same

    def begin(self) -> None:
        """A walk begins: what is asked until the next one is answered for the fleet as it is now."""
        if self._version == self._fleet.version:
            return
        self._version = self._fleet.version
        self._predictor.read([executor.pace for executor in self._fleet])
        self._predicts = self._config.placement == "predicted" and self._predictor.is_measured
        self._falls_back = self._fleet.falls_back()

    def choose(self, waiting: Waiting, barred: Collection[int], num_behind: int = 0) -> Choice | None:
        """Who computes the prompt: one with room for it now, where it can also decode, now or later. One that both
        prefills and decodes has room for all of it. Those that some decode executor has room beside come first.
        `num_behind` others wait behind it for a place."""
        self._ranked = self._by_rank(waiting)
        self._num_behind = num_behind
        choice = self._choose(waiting, barred)
        self._ranked = None
        return choice

    def _choose(self, waiting: Waiting, barred: Collection[int]) -> Choice | None:
        best = self._least(waiting, [e for e in self._fleet if e.index not in barred and self._takes(waiting, e)])
        lenders = [d for d in self._fleet if self.lends(d) and d.index not in barred and self._holds(waiting, d)]
        local = self._sooner(waiting, lenders, best) if self._predicts else self._small(waiting, lenders)
        if local is not None or best is None:
            return local
        return Choice(best, self._why(best))

    def choose_decode(
        self, waiting: Waiting, prefill: Executor, barred: Collection[int], is_due: bool
    ) -> Executor | None:
        """Where it decodes, with room for all of it now; before it is due only where room is left for others."""
        able = [d for d in self.partners(waiting, prefill) if d.index not in barred and self._has_room(d, waiting)]
        if not is_due:
            able = [d for d in able if self._needs(d, waiting) <= self.room(d) - self.slack(d)]
        return min(able, key=lambda d: self._as_partner(waiting, d)) if able else None

    def runs(self, executor: Executor) -> bool:
        """Whether it computes and decodes whatever has room there."""
        return executor.can_run or (self._falls_back and executor.can_decode)

    def lends(self, executor: Executor) -> bool:
        """R2: whether it decodes what others compute, and computes some prompts beside that, now."""
        return self._is_lender(executor) and self.num_lacking(executor) > 0

    def is_fed_less(self, executor: Executor) -> bool:
        """Whether it computes prompts, and has less than its steps of work ahead."""
        return (executor.can_prefill or self.runs(executor)) and self.num_lacking(executor) > 0

    def num_lacking(self, executor: Executor) -> float:
        """Uncomputed tokens that it lacks to have its steps of work ahead; not above 0 when it has them."""
        return self._config.steps_ahead * executor.capacity.token_budget - executor.num_pending_tokens

    def is_paired(self, prefill: Executor) -> bool:
        """Whether anybody could decode what it computes."""
        return any(d.can_decode and prefill.life in d.pairs for d in self._fleet)

    def partners(self, waiting: Waiting, prefill: Executor) -> list[Executor]:
        """Who could receive it from there and hold it to its last token, if they held nothing else."""
        work = waiting.submit.work
        return [d for d in self._fleet if d.can_decode and prefill.life in d.pairs and d.fits_empty(work)]

    def able_to_hold(self, waiting: Waiting) -> list[Executor]:
        """Who could compute its prompt if they held nothing else, where somebody could decode it."""
        computing = [e for e in self._fleet if e.can_prefill or self.runs(e)]
        takes = [e for e in computing if e.fits_empty(waiting.submit.work)]
        return [e for e in takes if self.runs(e) or self._has_partner(waiting, e)]

    def lacks_slots_alone(self, waiting: Waiting, pool: list[Executor]) -> bool:
        """Whether somebody in the pool has blocks enough for it and not the slots (C7: that ends a walk)."""
        num_slots = waiting.submit.work.num_choices
        return any(self._needs(e, waiting) <= self.room(e) and not self._has(e, 0, num_slots) for e in pool)

    def why_not(self, waiting: Waiting, able: Collection[Executor], fed: bool) -> Reason:
        """W6: why none of those that could hold it has it now; `fed`: only who has little work ahead takes more."""
        if not able:
            return Reason.NO_EXECUTOR
        pool = [e for e in able if self.is_fed_less(e)] if fed else list(able)
        if not pool:
            return Reason.TOKEN_BUDGET
        runs = [e for e in pool if not fed or self.runs(e)]
        prefills = [e for e in pool if fed and not self.runs(e)]
        lacks_slot = any(waiting.demand.prefill_blocks <= self.room(e) and not self._has(e, 0, 1) for e in prefills)
        return Reason.NO_SLOT if lacks_slot or self.lacks_slots_alone(waiting, runs) else Reason.KV_EXHAUSTED

    def room(self, executor: Executor) -> int:
        """Blocks that it has now."""
        return int(self._fleet.ledger.available(executor.index)[0])

    def slack(self, executor: Executor) -> int:
        """Blocks that a reservation before its time must leave free there."""
        return int(self._config.handoff_slack * executor.capacity.num_blocks)

    def uncached(self, waiting: Waiting, executor: Executor) -> int:
        """Tokens that it would compute of the prompt; all where they are to be scored."""
        work = waiting.submit.work
        held = anchor_of(self._held(waiting, executor), executor.capacity.checkpoint_blocks)
        cached = 0 if work.wants_prompt_scores else held * executor.capacity.block_size
        return max(1, work.num_tokens - cached)

    # ---- what a wait for a prefix is compared by

    def is_no_worse(self, waiting: Waiting, other: Executor, executor: Executor) -> bool:
        """Whether the other could compute its prompt too, but for the work that it has ahead, and would not have it
        wait longer for a decode executor."""
        if self.runs(other) or self._is_lender(other):
            return self._holds(waiting, other)
        if not other.can_prefill or not self._has(other, waiting.demand.prefill_blocks, 1):
            return False
        partners = self.partners(waiting, other)
        decodes_now = any(self._has_room(d, waiting) for d in partners)
        return bool(partners) and (decodes_now or not self._decodes_now(waiting, executor))

    def cost(self, waiting: Waiting, executor: Executor, num_queued: int, num_cached_blocks: int) -> float:
        """Until its prompt is computed there, and may be decoded, behind so many other tokens and with so many of its
        blocks cached: predicted microseconds; tokens while nothing is predicted."""
        uncached = max(1, waiting.submit.work.num_tokens - num_cached_blocks * executor.capacity.block_size)
        if not self._predicts:
            return num_queued + uncached
        return self._predicted_us(waiting, executor, num_queued, uncached)

    def compute_s(self, executor: Executor, num_tokens: int) -> float:
        """Until it has computed so many prompt tokens; 0 while nothing is predicted."""
        return self._predictor.compute_us(executor, num_tokens) / 1e6 if self._predicts else 0.0

    def step_cost(self, executor: Executor) -> float:
        """What waiting for the end of a step costs, in the same unit; a block's tokens while nothing is predicted."""
        return self._predictor.step_us(executor) if self._predicts else executor.capacity.block_size

    # ---- whoever computes prompts

    def _takes(self, waiting: Waiting, executor: Executor) -> bool:
        if not self.is_fed_less(executor):
            return False
        if self.runs(executor):
            return self._holds(waiting, executor)
        return self._has(executor, waiting.demand.prefill_blocks, 1) and self._has_partner(waiting, executor)

    def _least(self, waiting: Waiting, able: list[Executor]) -> Executor | None:
        def key(executor: Executor) -> tuple[Any, ...]:
            decodes_now = self._decodes_now(waiting, executor)
            queued = executor.num_pending_tokens
            time = self._time_us(waiting, executor, queued) if self._predicts else self._tokens(waiting, executor)
            return (not decodes_now, time, self._load(executor), executor.peer.name)

        return min(able, key=key) if able else None

    def _why(self, executor: Executor) -> PlacementReason:
        if executor.can_prefill:
            return PlacementReason.PD
        return PlacementReason.UNIFIED if executor.can_run else PlacementReason.P_DOWN

    # ---- decode executors that compute some prompts

    def _small(self, waiting: Waiting, lenders: list[Executor]) -> Choice | None:
        """A fixed rule: the one that has least to do, of those where few enough tokens are not cached."""
        limit = self._config.local_prompt_tokens
        able = [d for d in lenders if self.uncached(waiting, d) <= limit]
        if not able:
            return None
        best = min(able, key=lambda d: (self._tokens(waiting, d), self._load(d), d.peer.name))
        is_short = waiting.submit.work.num_tokens <= limit
        return Choice(best, PlacementReason.SHORT if is_short else PlacementReason.CACHED)

    def _sooner(self, waiting: Waiting, lenders: list[Executor], best: Executor | None) -> Choice | None:
        """The soonest lender, if it is sooner than the `best` of the others, and what that would delay; where none of
        them has room or steps now, sooner than any of them would be that has."""
        others = self.able_to_hold(waiting) if lenders else []
        if not others:
            return None
        local = min(lenders, key=lambda d: (self._local_us(waiting, d), self._load(d), d.peer.name))
        rivals = others if best is None else [best]
        time = self._local_us(waiting, local)
        num_behind = self._num_behind / len(others)
        if time >= min(self._rival_us(waiting, e, num_behind) for e in rivals):
            return None
        idle = min(self._time_us(waiting, e, 0) for e in others)
        if time >= idle:
            return Choice(local, PlacementReason.P_BUSY)
        whole = self._predictor.local_us(local, local.num_pending_tokens, waiting.submit.work.num_tokens)
        return Choice(local, PlacementReason.CACHED if whole >= idle else PlacementReason.SHORT)

    def _local_us(self, waiting: Waiting, executor: Executor) -> float:
        return self._predictor.local_us(executor, executor.num_pending_tokens, self.uncached(waiting, executor))

    def _rival_us(self, waiting: Waiting, executor: Executor, num_behind: float) -> float:
        """Until it may be decoded, computed by this executor behind what it has ahead; and what that delays those who
        wait for it behind this one."""
        time = self._time_us(waiting, executor, executor.num_pending_tokens)
        return time + num_behind * self._predictor.compute_us(executor, self.uncached(waiting, executor))

    def _time_us(self, waiting: Waiting, executor: Executor, num_queued: int) -> float:
        """Until it may be decoded, if this executor computes it behind so many other tokens."""
        return self._predicted_us(waiting, executor, num_queued, self.uncached(waiting, executor))

    def _predicted_us(self, waiting: Waiting, executor: Executor, num_queued: int, uncached: int) -> float:
        if executor.peer.role.runs_decode:
            return self._predictor.local_us(executor, num_queued, uncached)
        decode = next(d for d in self._by_rank(waiting) if executor.life in d.pairs)
        num_blocks = blocks_for(waiting.submit.work.num_tokens, executor.capacity.block_size)
        sent = num_blocks - self._held(waiting, decode)
        return self._predictor.handed_off_us(executor, num_queued, uncached, decode, sent)

    # ---- inside

    def _as_partner(self, waiting: Waiting, decode: Executor) -> tuple[Any, ...]:
        return (self._load(decode), -self._held(waiting, decode), decode.peer.name)

    def _by_rank(self, waiting: Waiting) -> list[Executor]:
        """Who could decode it if they held nothing else, best first: once for all who might compute it."""
        if self._ranked is not None:
            return self._ranked
        able = [d for d in self._fleet if d.can_decode and d.fits_empty(waiting.submit.work)]
        return sorted(able, key=lambda d: self._as_partner(waiting, d))

    def _is_lender(self, executor: Executor) -> bool:
        is_asked = self._predicts or self._config.placement == "by_tokens"
        return is_asked and not self._falls_back and executor.can_decode and executor.peer.role is Role.DECODE

    def _decodes_now(self, waiting: Waiting, executor: Executor) -> bool:
        return executor.peer.role.runs_decode or self._any_has_room(waiting, executor)

    def _any_has_room(self, waiting: Waiting, prefill: Executor) -> bool:
        return any(prefill.life in d.pairs and self._has_room(d, waiting) for d in self._by_rank(waiting))

    def _has_partner(self, waiting: Waiting, prefill: Executor) -> bool:
        return any(prefill.life in d.pairs for d in self._by_rank(waiting))

    def _needs(self, decode: Executor, waiting: Waiting) -> int:
        return decode.demand(waiting.submit.work).decode_blocks

    def _holds(self, waiting: Waiting, executor: Executor) -> bool:
        """Whether it has room now and would hold it to its last token, if it held nothing else."""
        return self._has_room(executor, waiting) and executor.fits_empty(waiting.submit.work)

    def _has_room(self, decode: Executor, waiting: Waiting) -> bool:
        """Room for what it takes at once."""
        return self._has(decode, self._needs(decode, waiting), waiting.submit.work.num_choices)

    def _has(self, executor: Executor, num_blocks: int, num_slots: int) -> bool:
        blocks, slots = self._fleet.ledger.available(executor.index)
        return bool(blocks >= num_blocks and slots >= num_slots)

    def _held(self, waiting: Waiting, executor: Executor) -> int:
        return self._fleet.directory.num_held(executor.index, waiting.submit.work.hashes)

    def _tokens(self, waiting: Waiting, executor: Executor) -> int:
        return executor.num_pending_tokens + self.uncached(waiting, executor)

    def _load(self, executor: Executor) -> float:
        return executor.num_attempts / executor.capacity.num_slots


#: what a scheduler's machine makes its placement with: this one, unless it is told another
MakePlacement = Callable[[Fleet, SchedulerConfig], Placement]
