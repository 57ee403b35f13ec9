"""Converting a GGUF file: quantized weights become float32, names and head order become Hugging Face's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from baton.core.errors import Incompatible
from baton.services.model.gguf_tokenizer import gguf_tokenizer, gguf_tokenizer_config

PERMUTED_ARCHITECTURES = {"llama"}  #: their q and k rows are stored with the two halves of a head interleaved
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
LAYER_TENSOR_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_gguf(source: Path, folder: Path) -> None:
    """Write everything but `baton.json`. Needs the `gguf` package; Incompatible names what is not supported."""
    import gguf
    from safetensors.numpy import save_file

    reader = gguf.GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    architecture = fields["general.architecture"]
    if architecture not in ARCHITECTURES:
        raise Incompatible(f"GGUF architecture {architecture!r} is none of {', '.join(ARCHITECTURES)}")
    tensors = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            raise Incompatible("GGUF files with scaled rope frequencies are not supported: fetch the original weights")
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        tensors[_tensor_name(tensor.name)] = _restore_head_order(tensor.name, values, architecture, fields)
    config = _config(architecture, fields, is_tied="lm_head.weight" not in tensors)
    save_file({name: np.ascontiguousarray(values) for name, values in tensors.items()}, folder / "model.safetensors")
    _write_json(folder / "config.json", config)
    _write_json(folder / "tokenizer.json", gguf_tokenizer(fields))
    _write_json(folder / "tokenizer_config.json", gguf_tokenizer_config(fields, config["max_position_embeddings"]))
    template = fields.get("tokenizer.chat_template")
    if template:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _config(architecture: str, fields: dict[str, Any], is_tied: bool) -> dict[str, Any]:
    def of(key: str) -> Any:
        return fields[f"{architecture}.{key}"]

    num_heads = of("attention.head_count")
    ends = [fields.get("tokenizer.ggml.eos_token_id"), fields.get("tokenizer.ggml.eot_token_id")]
    return {
        "architectures": [ARCHITECTURES[architecture]],
        "model_type": architecture,
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": num_heads,
        "num_key_value_heads": fields.get(f"{architecture}.attention.head_count_kv", num_heads),
        "head_dim": fields.get(f"{architecture}.attention.key_length", of("embedding_length") // num_heads),
        "hidden_act": "silu",
        "rms_norm_eps": float(f"{of('attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": fields.get(f"{architecture}.rope.freq_base", 10_000.0),
        "max_position_embeddings": of("context_length"),
        "tie_word_embeddings": is_tied,
        "bos_token_id": fields.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": sorted({end for end in ends if end is not None}),
        "torch_dtype": "float32",
    }


def _tensor_name(name: str) -> str:
    """`blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`."""
    stem, _, kind = name.rpartition(".")
    if stem.startswith("blk."):
        _, index, part = stem.split(".", 2)
        if part in LAYER_TENSOR_NAMES:
            return f"model.layers.{index}.{LAYER_TENSOR_NAMES[part]}.{kind}"
    elif stem in TENSOR_NAMES:
        return f"{TENSOR_NAMES[stem]}.{kind}"
    raise Incompatible(f"GGUF tensor {name!r} is not known")


def _restore_head_order(name: str, values: np.ndarray, architecture: str, fields: dict[str, Any]) -> np.ndarray:
    """Rows of a head from interleaved pairs (0, half, 1, half + 1, …) back to (0, 1, …, half, half + 1, …)."""
    part = name.split(".")[-2]
    if architecture not in PERMUTED_ARCHITECTURES or part not in ("attn_q", "attn_k"):
        return values
    key = "attention.head_count" if part == "attn_q" else "attention.head_count_kv"
    num_heads = fields[f"{architecture}.{key}"]
    pairs = values.reshape(num_heads, values.shape[0] // num_heads // 2, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
