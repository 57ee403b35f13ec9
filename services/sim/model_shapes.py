"""Shapes of well-known models, as their published `config.json` has them: a run's files name the model alone."""

from __future__ import annotations

from baton.core.sim.step_time.profile import KvGeometry

#: by name: layers, KV heads, elements of a head
SHAPES = {
    "llama-3.1-8b": (32, 8, 128),
    "llama-3-8b": (32, 8, 128),
    "meta-llama-3.1-8b": (32, 8, 128),
    "meta-llama-3-8b": (32, 8, 128),
    "llama-3.1-70b": (80, 8, 128),
    "llama-3.3-70b": (80, 8, 128),
    "llama-3.2-1b": (16, 8, 64),
    "llama-3.2-3b": (28, 8, 128),
    "llama-2-7b": (32, 32, 128),
    "llama-2-13b": (40, 40, 128),
    "mistral-7b-v0.3": (32, 8, 128),
    "qwen2.5-0.5b": (24, 2, 64),
    "qwen2.5-1.5b": (28, 2, 128),
    "qwen2.5-3b": (36, 2, 128),
    "qwen2.5-7b": (28, 4, 128),
    "qwen2.5-14b": (48, 8, 128),
    "qwen2.5-32b": (64, 8, 128),
    "qwen2.5-72b": (80, 8, 128),
    "qwen3-0.6b": (28, 8, 128),
    "qwen3-1.7b": (28, 8, 128),
    "qwen3-4b": (36, 8, 128),
    "qwen3-8b": (36, 8, 128),
    "qwen3-14b": (40, 8, 128),
    "qwen3-32b": (64, 8, 128),
}
VARIANTS = ("-instruct", "-chat", "-hf", "-base")


def shape_of(model: str) -> KvGeometry | None:
    """Of `organisation/name` or a path that ends with the name; None for an unknown one."""
    name = model.rstrip("/").rsplit("/", 1)[-1].lower()
    for variant in VARIANTS:
        name = name.replace(variant, "")
    if name not in SHAPES:
        return None
    num_layers, num_heads, head_dim = SHAPES[name]
    return KvGeometry(num_kv_layers=num_layers, num_kv_heads=num_heads, head_dim=head_dim, dtype="bfloat16")
