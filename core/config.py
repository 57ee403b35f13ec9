"""The knobs of the four machines: frozen, with units in their names, each with one effect and one finite default."""

from __future__ import annotations

import math

import msgspec

STEP_MODES = ("mixed", "alternate", "overlap")
HOLDS = ("off", "fill", "adaptive")
PROTECTIONS = ("fixed", "adaptive")
SHARINGS = ("adaptive", "always")
WINDOWS = ("adaptive", "fixed")
PLACEMENTS = ("predicted", "by_tokens", "always_pd")
PREFIX_WAIT_MAX_MS = 10_000.0
LARGEST = (1 << 31) - 1  #: of what is counted; of bytes 2^62
LARGEST_BYTES = 1 << 62


class ExecutorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Knobs of one executor's machine."""

    token_budget: int = 2048  #: tokens that one step may compute
    long_prefill_tokens: int = 2048  #: of one prompt in one step
    share_steps: str = "adaptive"  #: prompts fill a step of a prefill executor: always, or adaptive (if it saves time)
    num_slots: int = 256  #: sequences that it may hold, waiting ones included
    growth_reserve: int = 512  #: output tokens that a decode reservation covers at once
    num_queued_steps: int = 2  #: steps with the device at once, in each lane of steps, at most 2
    step_mode: str = "mixed"  #: where decode runs: mixed (decodes and prompts in one step), alternate (either), overlap
    hold: str = "adaptive"  #: what prompts wait for company by: off, fill, or adaptive (where that gains something)
    hold_fill: float = 0.5  #: hold = fill: part of the token budget that waits for no more company; 0: no hold
    hold_max_ms: float = 500.0  #: from a prompt's arrival here; then neither hold nor protection keeps it back
    hold_stall_ms: float = 50.0  #: a hold ends when no prompt has come for so long
    hold_partial_ms: float = 200.0  #: how long the rest of a prompt whose first part is computed is kept back
    hold_kv_high: float = 0.9  #: part of the KV blocks in use above which such a prompt is not kept back
    hold_batch_low: int = 2  #: decoding sequences below which no prompt is kept back
    itl_target_ms: float = 0.0  #: hold = adaptive: time between tokens up to which nothing is held; 0: none
    protect: str = "adaptive"  #: of decodes from prompts: fixed, or adaptive (where steps of prompts share a cost)
    protect_steps: int = 4  #: decode steps between two steps of prompts; 0: no protection
    join_share: float = 0.125  #: sequences that join the batch in one step, as a part of it; one may always
    join_max_steps: int = 4  #: how many steps a sequence whose KV has landed is kept from the batch; this goes first
    join_max_ms: float = 50.0  #: the same in time
    piece_bytes: int = 4 << 20  #: largest single write of KV
    window: str = "adaptive"  #: what bounds a pair's KV in flight: adaptive (twice its bandwidth × latency) or fixed
    window_bytes: int = 512 << 20  #: KV bytes posted and not landed, for each pair of executors at most
    total_window_bytes: int = 1 << 30  #: the same, over all decode executors that this one writes to
    handoff_lead_steps: float = 1.0  #: token budgets before a prompt's end at which a decode executor is asked for
    parked_tokens: int = 8192  #: computed prompt tokens that may wait for their transfer before new prompts wait
    share_wait_s: float = 0.5  #: longest that a transfer waits for blocks that another brings; 0: they are sent again
    quarantine_blocks: int = 0  #: blocks of one prefill executor in quarantine at which its pair closes; 0: a quarter
    holding_interval_s: float = 1.0  #: between two Holding messages to a router
    router_silence_s: float = 30.0  #: a router's requests end this long after its last session

    def validate(self) -> None:
        """Raises ValueError with the knob's name."""
        _countable(self)
        _positive(self, "token_budget", "long_prefill_tokens", "num_slots", "piece_bytes", "window_bytes")
        _positive(self, "total_window_bytes", "parked_tokens", "holding_interval_s", "router_silence_s")
        if self.window not in WINDOWS:
            raise ValueError(f"window = {self.window!r} is none of {', '.join(WINDOWS)}")
        if self.share_steps not in SHARINGS:
            raise ValueError(f"share_steps = {self.share_steps!r} is none of {', '.join(SHARINGS)}")
        if self.num_queued_steps not in (1, 2):
            raise ValueError(f"num_queued_steps = {self.num_queued_steps}: 1 or 2")
        if self.growth_reserve < 1:
            raise ValueError(f"growth_reserve = {self.growth_reserve}: at least 1")
        if not 0 <= self.share_wait_s < math.inf:
            raise ValueError(f"share_wait_s = {self.share_wait_s}: at least 0")
        if not 0 <= self.handoff_lead_steps < math.inf:
            raise ValueError(f"handoff_lead_steps = {self.handoff_lead_steps}: at least 0")
        if self.quarantine_blocks < 0:
            raise ValueError(f"quarantine_blocks = {self.quarantine_blocks}: at least 0")
        self._validate_gate()

    @property
    def num_lanes(self) -> int:
        """Lanes of steps, each in order, beside each other (`baton.core.executor.steps`)."""
        return 2 if self.step_mode == "overlap" else 1

    def _validate_gate(self) -> None:
        """Hold and protection, and how sequences join the batch."""
        if self.step_mode not in STEP_MODES:
            raise ValueError(f"step_mode = {self.step_mode!r} is none of {', '.join(STEP_MODES)}")
        if self.hold not in HOLDS:
            raise ValueError(f"hold = {self.hold!r} is none of {', '.join(HOLDS)}")
        if self.protect not in PROTECTIONS:
            raise ValueError(f"protect = {self.protect!r} is none of {', '.join(PROTECTIONS)}")
        _positive(self, "hold_max_ms", "hold_stall_ms", "hold_partial_ms", "join_max_ms")
        for name in ("hold_fill", "hold_kv_high", "join_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)}: from 0 to 1")
        for name in ("hold_batch_low", "itl_target_ms", "protect_steps", "join_max_steps"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} = {getattr(self, name)}: at least 0")


class SchedulerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Knobs of the scheduler's machine."""

    max_queued: int = 4096  #: attempts that wait for a place
    steps_ahead: float = 2.0  #: token budgets of uncomputed prompt tokens that one prefill executor is fed ahead
    bypass_s: float = 5.0  #: how long others may pass one that lacks KV; then it collects freed blocks; 0: at once
    handoff_slack: float = 0.25  #: part of a decode executor's blocks that an earlier reservation must leave free
    placement: str = "predicted"  #: where prompts are computed: predicted (soonest), by_tokens or always_pd
    local_prompt_tokens: int = 0  #: by_tokens: uncached tokens up to which a prompt is computed where it decodes
    interruption_weight: float = 1.0  #: predicted: what delaying one decode by a millisecond counts, in milliseconds
    strict_pd: bool = False  #: without a live prefill executor requests wait, and are refused: decode computes none
    prefix_wait: bool = True  #: a request whose prefix is being computed waits for it, where that is sooner
    prefix_wait_max_ms: float = PREFIX_WAIT_MAX_MS  #: from its first such wait on, however often it waits
    absent_s: float = 60.0  #: how long requests wait while nobody could serve them; then they are refused or resumed

    def validate(self) -> None:
        """Raises ValueError with the knob's name."""
        _countable(self)
        _positive(self, "max_queued", "steps_ahead", "absent_s")
        if not 0 <= self.bypass_s < math.inf:
            raise ValueError(f"bypass_s = {self.bypass_s}: at least 0")
        if not 0 <= self.handoff_slack <= 1:
            raise ValueError(f"handoff_slack = {self.handoff_slack}: from 0 to 1")
        self._validate_placement()
        self._validate_prefix_wait()

    def _validate_prefix_wait(self) -> None:
        if not 0 < self.prefix_wait_max_ms < math.inf:
            raise ValueError(f"prefix_wait_max_ms = {self.prefix_wait_max_ms}: must be positive and finite")
        if not self.prefix_wait and self.prefix_wait_max_ms != PREFIX_WAIT_MAX_MS:
            raise ValueError(f"prefix_wait_max_ms = {self.prefix_wait_max_ms}: no effect with prefix_wait = false")

    def _validate_placement(self) -> None:
        """C12: a knob without effect in the chosen mode is told so."""
        mode = self.placement
        if mode not in PLACEMENTS:
            raise ValueError(f"placement = {mode!r} is none of {', '.join(PLACEMENTS)}")
        if not 0 <= self.interruption_weight < math.inf:
            raise ValueError(f"interruption_weight = {self.interruption_weight}: at least 0")
        if self.local_prompt_tokens < 0 or (mode == "by_tokens" and self.local_prompt_tokens == 0):
            least = "at least 1 with placement = by_tokens" if mode == "by_tokens" else "at least 0"
            raise ValueError(f"local_prompt_tokens = {self.local_prompt_tokens}: {least}")
        if self.local_prompt_tokens and mode != "by_tokens":
            raise ValueError(f"local_prompt_tokens = {self.local_prompt_tokens}: no effect with placement = {mode}")
        if self.interruption_weight != 1.0 and mode != "predicted":
            raise ValueError(f"interruption_weight = {self.interruption_weight}: no effect with placement = {mode}")


class RouterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Knobs of the router's machine."""

    max_streams: int = 8192  #: answers of accepted requests at once; each may become an attempt of its own
    max_attempts: int = 8  #: failed attempts of one leg; preemptions do not count
    settle_s: float = 1.0  #: an attempt that its executor does not name in two Holdings this far apart is lost

    def validate(self) -> None:
        """Raises ValueError with the knob's name."""
        _countable(self)
        _positive(self, "max_streams", "max_attempts", "settle_s")


def _positive(config: msgspec.Struct, *names: str) -> None:
    for name in names:
        if not 0 < getattr(config, name) < math.inf:
            raise ValueError(f"{name} = {getattr(config, name)}: must be positive and finite")


def _countable(config: msgspec.Struct) -> None:
    """Whole numbers are those that messages and C counters hold."""
    for name in config.__struct_fields__:
        value, largest = getattr(config, name), LARGEST_BYTES if name.endswith("_bytes") else LARGEST
        if isinstance(value, int) and value > largest:
            raise ValueError(f"{name} = {value}: must be at most {largest}")
