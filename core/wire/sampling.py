"""How the next token is chosen: validated by the router, opaque to the scheduler, used by the device."""

from __future__ import annotations

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, array_like=True):
    """Parameters of one request. The draw is a function of (seed, output position, choice), the outputs so far and the
    logits alone.

    Order of operations on the logits: bias, penalties (repetition over prompt and output; presence and frequency over
    output), forbidden ends while fewer than `min_tokens` are out, tokens that the grammar does not allow after the
    outputs so far, temperature, top-k, top-p, min-p, keyed draw. Where a complete grammar allows only ends, an end is
    drawn, whatever `min_tokens`.
    """

    max_tokens: int
    temperature: float = 1.0  #: 0 is greedy; ties go to the lowest id
    top_k: int = 0  #: 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_token_ids: tuple[int, ...] = ()  #: the model's end-of-sequence ids included, unless ignore_eos
    logit_bias: tuple[tuple[int, float], ...] = ()
    num_logprobs: int = -1  #: alternatives to report; -1: no log-probabilities, 0: of the chosen token only
    num_prompt_logprobs: int = -1  #: the same for each token of the client's prompt but the first
    grammar: str = ""  #: what the output must match, as the grammar library writes it; empty: anything

    def ends_with(self, token: int, num_output_tokens: int) -> bool:
        """Whether `token`, as output number `num_output_tokens` (counted from 1), is an end-of-sequence token."""
        return num_output_tokens >= self.min_tokens and token in self.stop_token_ids

    def finish(self, token: int, num_output_tokens: int) -> str:
        """The one predicate for ends by tokens: "stop", "length" or "" for `token` as this output number (from 1)."""
        if self.ends_with(token, num_output_tokens):
            return "stop"
        return "length" if num_output_tokens >= self.max_tokens else ""
