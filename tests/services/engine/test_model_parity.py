"""Each family against `transformers`, the looped one against a plain reference: whole distributions, both dtypes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from baton.core.errors import Incompatible
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.load import load_device
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.executor.engine.models.rope import rope_table, rotate
from tests.services.engine.conftest import SMALL, VOCAB_SIZE, Runner, finish_folder, save_random_model

PROMPT = [(7 * i * i + 3) % VOCAB_SIZE for i in range(45)]
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def families() -> dict[str, Callable[[], torch.nn.Module]]:
    import transformers as hf

    return {
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL)),
        "llama_tied": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, tie_word_embeddings=True)),
        "llama_biased": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True)),
        "llama3_rope": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, rope_parameters=LLAMA3_ROPE)),
        "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**SMALL)),
        "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SMALL)),
        "qwen3_tied": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SMALL, tie_word_embeddings=True)),
    }


def distributions(folder: Path, dtype: str) -> tuple[list[int], torch.Tensor]:
    """Greedy tokens after PROMPT and, for each, the log-probability of every token: [num_tokens, VOCAB_SIZE]."""
    runner = Runner(load_device("cpu", folder, num_blocks=8, block_size=16, dtype=dtype))
    params = SamplingParams(max_tokens=6, temperature=0.0, num_logprobs=VOCAB_SIZE)
    sampled = runner.generate(1, PROMPT, params, [20, 25], [5, 3, 7, 1])
    rows = torch.empty(len(sampled), VOCAB_SIZE, dtype=torch.float64)
    for row, token in zip(rows, sampled, strict=True):
        assert token.logprobs is not None
        row[list(token.logprobs.top_ids)] = torch.tensor(token.logprobs.top_logprobs, dtype=torch.float64)
    return [token.token for token in sampled], rows


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", sorted(families()))
def test_a_family_gives_the_distributions_of_transformers(family: str, dtype: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = families()[family]().eval()
    folder = save_random_model(tmp_path, model)
    tokens, ours = distributions(folder, dtype)
    with torch.inference_mode():
        logits = model.double()(torch.tensor([PROMPT + tokens[:-1]])).logits[0, len(PROMPT) - 1 :]
    theirs = logits.double().log_softmax(-1)
    assert (ours - theirs).abs().max() < 1e-3
    assert tokens == theirs.argmax(-1).tolist()


def looped_reference(tensors: dict[str, torch.Tensor], folder: Path, tokens: list[int], num_loops: int) -> torch.Tensor:
    """One sequence, no cache, one matrix at a time: logits [len(tokens), VOCAB_SIZE]."""
    config = read_decoder_config(folder)
    table = rope_table(config.rope, config.head_dim, len(tokens), torch.float64)
    hidden = tensors["model.embed_tokens.weight"][tokens]

    def norm(rows: torch.Tensor, name: str) -> torch.Tensor:
        return rms_norm(rows, (config.hidden_size,), tensors[name], config.norm_eps)

    for index in list(range(config.num_layers)) * num_loops:
        prefix = f"model.layers.{index}."
        rows = norm(hidden, prefix + "input_layernorm.weight")
        query, key, value = (
            linear(rows, tensors[f"{prefix}self_attn.{name}_proj.weight"]).unflatten(1, (-1, config.head_dim))
            for name in "qkv"
        )
        heads = [part.transpose(0, 1)[None] for part in (rotate(query, table), rotate(key, table), value)]
        attended = scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)[0].transpose(0, 1).flatten(1)
        hidden = hidden + linear(attended, tensors[prefix + "self_attn.o_proj.weight"])
        rows = norm(hidden, prefix + "post_attention_layernorm.weight")
        gated = silu(linear(rows, tensors[prefix + "mlp.gate_proj.weight"]))
        gated = gated * linear(rows, tensors[prefix + "mlp.up_proj.weight"])
        hidden = hidden + linear(gated, tensors[prefix + "mlp.down_proj.weight"])
    return linear(norm(hidden, "model.norm.weight"), tensors["lm_head.weight"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("num_loops", [1, 3])
def test_a_looped_model_gives_the_distributions_of_a_plain_reference(
    num_loops: int, dtype: str, llama_folder: Path, tmp_path: Path
) -> None:
    config: dict[str, Any] = json.loads((llama_folder / "config.json").read_text())
    config |= {"model_type": "looped_llama", "num_loops": num_loops}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((llama_folder / "model.safetensors").read_bytes())
    finish_folder(tmp_path)
    tokens, ours = distributions(tmp_path, dtype)
    from safetensors.torch import load_file

    tensors = {name: tensor.double() for name, tensor in load_file(tmp_path / "model.safetensors").items()}
    theirs = looped_reference(tensors, tmp_path, PROMPT + tokens[:-1], num_loops)[len(PROMPT) - 1 :].log_softmax(-1)
    assert (ours - theirs).abs().max() < 1e-3
    assert tokens == theirs.argmax(-1).tolist()


def test_a_tensor_that_nothing_computes_refuses_the_model(llama_folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    tensors = load_file(llama_folder / "model.safetensors")
    tensors["model.layers.0.self_attn.sinks"] = torch.zeros(6)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((llama_folder / "config.json").read_text())
    finish_folder(tmp_path)
    with pytest.raises(Incompatible, match="sinks"):
        load_device("cpu", tmp_path, num_blocks=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("model_type", "mamba"), ("hidden_act", "gelu"), ("use_sliding_window", True), ("rope_scaling", {"type": "yarn"})],
)
def test_a_config_that_no_family_computes_is_refused(
    key: str, value: object, llama_folder: Path, tmp_path: Path
) -> None:
    config = json.loads((llama_folder / "config.json").read_text())
    config.pop("rope_parameters", None)
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(Incompatible):
        read_decoder_config(tmp_path)
