"""The parity oracle: a Llama folder computed by `transformers`, with everything in float64.

`transformers` keeps norms and rotary angles in float32 whatever the model's type, so those two are replaced here by
plain float64 ones. Nothing of the engine is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch import nn


class _Norm(nn.Module):
    """Root-mean-square norm in the type of its input."""

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.eps = eps

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class _Rotary(nn.Module):
    """Cosines and sines of position × theta^(−2i / head_dim), in float64."""

    def __init__(self, theta: float, head_dim: int) -> None:
        super().__init__()
        self.rates = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)

    def forward(self, hidden: torch.Tensor, position_ids: torch.Tensor, **_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        angles = position_ids.double()[..., None] * self.rates
        angles = torch.cat((angles, angles), dim=-1)  # [batch, num_tokens, head_dim]
        return angles.cos(), angles.sin()


class Judgement(NamedTuple):
    """How far an answer is from the reference, given its own prefix at every token."""

    num_tokens: int
    worst_gap: float  #: logit of the reference's best token minus that of the emitted one
    worst_logprob_error: float  #: of the log-probabilities that came with the tokens


class Reference:
    """One model folder. `round_bits`: logits are rounded to multiples of 2^-round_bits; 0: not at all."""

    def __init__(self, folder: Path, round_bits: int = 0) -> None:
        self.model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        self.round_bits = round_bits
        config = self.model.config
        theta = config.rope_parameters["rope_theta"]
        head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
        self.model.model.rotary_emb = _Rotary(theta, head_dim)
        for parent in list(self.model.modules()):
            for name, child in list(parent.named_children()):
                if type(child).__name__ == "LlamaRMSNorm":
                    setattr(parent, name, _Norm(child.weight.detach(), child.variance_epsilon))

    def logits(self, tokens: Sequence[int], num_rows: int) -> np.ndarray:
        """float64[num_rows, vocab_size]: what follows each of the last `num_rows` prefixes of `tokens`."""
        with torch.inference_mode():
            answer = self.model(torch.tensor([list(tokens)]), logits_to_keep=num_rows, use_cache=False)
        rows = answer.logits[0].double().numpy()
        scale = float(1 << self.round_bits)
        return np.round(rows * scale) / scale if self.round_bits else rows

    def judge(self, prompt: Sequence[int], tokens: Sequence[int], logprobs: Sequence[float]) -> Judgement:
        """Compare a greedy answer; `logprobs` are those that came with its tokens."""
        return judge_rows(self.logits([*prompt, *tokens[:-1]], len(tokens)), tokens, logprobs)

    def is_exactly_greedy(self, prompt: Sequence[int], tokens: Sequence[int]) -> bool:
        """Whether every token is the reference's first best."""
        return list(tokens) == self.logits([*prompt, *tokens[:-1]], len(tokens)).argmax(axis=1).tolist()


def judge_rows(rows: np.ndarray, tokens: Sequence[int], logprobs: Sequence[float]) -> Judgement:
    """Compare a greedy answer with the reference's logits, one row for each of its tokens."""
    chosen = rows[np.arange(len(tokens)), list(tokens)]
    best = rows.max(axis=1)
    log_norms = best + np.log(np.exp(rows - best[:, None]).sum(axis=1))
    errors = np.abs(np.asarray(logprobs) - (chosen - log_norms))
    return Judgement(len(tokens), float((best - chosen).max()), float(errors.max()))
