"""The tiny model: a random Llama made from a seed, with a tokenizer of bytes. Same bytes on every machine.

It answers nonsense, quickly and reproducibly: weights come from a counter-based hash, it computes in float64, and its
logits are rounded to multiples of 2^-20, so that the order of additions cannot change a token.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

SPECIAL_TOKENS = ("<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>")  #: ids 256 …
CHAT_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>tools\n' }}{% for tool in tools %}{{ tool | tojson + '\n' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{% for call in message.tool_calls or [] %}"
    "{{ '<tool_call>\n' + (call.function | tojson) + '\n</tool_call>\n' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 260,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
    "bos_token_id": 256,
    "eos_token_id": [257, 259],
    "logit_round_bits": 20,
}


def write_tiny(folder: Path, seed: int = 0) -> None:
    """Write everything but `baton.json` into an existing folder."""
    _write_json(folder / "config.json", CONFIG)
    _write_json(folder / "tokenizer.json", byte_tokenizer())
    _write_json(
        folder / "tokenizer_config.json",
        {
            "bos_token": "<|bos|>",
            "eos_token": "<|eos|>",
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONFIG["max_position_embeddings"],
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    save_file(tiny_weights(seed), folder / "model.safetensors", metadata={"format": "pt"})


def tiny_weights(seed: int) -> dict[str, np.ndarray]:
    """Float64 tensors; matrices are uniform with standard deviation 1 / sqrt(inputs), embeddings with 1."""
    hidden, inner, head = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["head_dim"]
    queries, keys = CONFIG["num_attention_heads"] * head, CONFIG["num_key_value_heads"] * head
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (CONFIG["vocab_size"], hidden)}
    for index in range(CONFIG["num_hidden_layers"]):
        prefix = f"model.layers.{index}."
        shapes[prefix + "input_layernorm.weight"] = (hidden,)
        shapes[prefix + "self_attn.q_proj.weight"] = (queries, hidden)
        shapes[prefix + "self_attn.k_proj.weight"] = (keys, hidden)
        shapes[prefix + "self_attn.v_proj.weight"] = (keys, hidden)
        shapes[prefix + "self_attn.o_proj.weight"] = (hidden, queries)
        shapes[prefix + "post_attention_layernorm.weight"] = (hidden,)
        shapes[prefix + "mlp.gate_proj.weight"] = (inner, hidden)
        shapes[prefix + "mlp.up_proj.weight"] = (inner, hidden)
        shapes[prefix + "mlp.down_proj.weight"] = (hidden, inner)
    shapes["model.norm.weight"] = (hidden,)
    shapes["lm_head.weight"] = (CONFIG["vocab_size"], hidden)
    return {name: _tensor(name, shape, seed) for name, shape in shapes.items()}


def _tensor(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if len(shape) == 1:
        return np.ones(shape)
    scale = 1.0 if name.startswith("model.embed") else shape[1] ** -0.5
    return (_uniform(f"{seed}/{name}", shape) - 0.5) * (12**0.5 * scale)


def _uniform(key: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers in [0, 1) of 53 bits from SHAKE-256 over the key."""
    data = hashlib.shake_256(key.encode()).digest(8 * int(np.prod(shape)))
    return ((np.frombuffer(data, dtype="<u8") >> np.uint64(11)) * 2.0**-53).reshape(shape)


def byte_tokenizer() -> dict[str, Any]:
    """A `tokenizer.json` whose ids 0 … 255 are the bytes themselves; special tokens follow."""
    characters = byte_characters()
    vocabulary = {character: byte for byte, character in enumerate(characters)}
    special = [
        {
            "id": 256 + index,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, content in enumerate(SPECIAL_TOKENS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocabulary, "merges": []},
    }


def byte_characters() -> list[str]:
    """The printable character that byte-level tokenizers use for each byte: itself, or the next from U+0100 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    characters, num_moved = [], 0
    for byte in range(256):
        if byte in printable:
            characters.append(chr(byte))
        else:
            characters.append(chr(256 + num_moved))
            num_moved += 1
    return characters


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
