"""A request whose every field is within its range. What depends on the prompt's length is still open."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from baton.core.wire.sampling import SamplingParams
from baton.services.router.tools.detect import ToolFormat


class ChatPrompt(NamedTuple):
    """What the model's chat template is given."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None


class ToolPlan(NamedTuple):
    """How tool calls are told from text in the output."""

    format: ToolFormat
    schemas: dict[str, Any]  #: JSON schema of the parameters, by function
    is_parallel: bool  #: whether several calls count
    is_named: bool  #: the request names the one that is called: such an answer finishes with "stop"


class Blame(NamedTuple):
    """What the endpoint calls its fields, for errors."""

    prompt: str
    length: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request: several prompts, each answered `num_choices` times."""

    prompts: tuple[str | bytes | ChatPrompt, ...]  #: text, int32[num_tokens], or a conversation
    blame: Blame
    sampling: SamplingParams  #: but for `max_tokens`, the model's own ends and a missing seed
    has_seed: bool
    max_tokens: int | None  #: None: as many as there is room for
    max_tokens_default: int | None  #: what None is capped at
    stop: tuple[str, ...]
    num_choices: int
    echo: bool = False
    num_prompt_logprobs: int = -1  #: alternatives shown for each token of a prompt; an echo may need more of them
    is_stream: bool
    include_usage: bool
    usage_in_every_event: bool
    include_timing: bool
    grammar_param: str = ""  #: the field to blame for the grammar
    tools: ToolPlan | None = None
    user: str
    cache_salt: str
    priority_class: int
    timeout_s: float

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt's tokens get log-probabilities."""
        return self.sampling.num_prompt_logprobs >= 0

    def num_scores(self, num_prompt_tokens: int) -> int:
        """Log-probabilities of prompts with so many tokens in the whole answer: of each alternative, in each choice."""
        return num_prompt_tokens * max(1, self.sampling.num_prompt_logprobs) * self.num_choices


def text_bytes(value: Any) -> int:
    """UTF-8 bytes of all strings and numbers within a prompt."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return sum(text_bytes(key) + text_bytes(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(text_bytes, value))
    return 0 if value is None else len(str(value))
