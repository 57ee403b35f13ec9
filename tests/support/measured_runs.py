"""Files of a measured run of an engine, made up so that what they say can be computed by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.planted import ROOT

LAYERS = 16  #: of the model that they name
DENSE_US = {"qkv_proj": 10.0, "o_proj": 10.0, "gate_up_proj": 20.0, "down_proj": 18.0, "layernorm": 1.0}
ONCE_US = {"embedding": 5.0, "final_layernorm": 5.0}
HEAD_US = 100.0
CHUNKS, BEFORE = (0, 16, 64, 256, 1024), (0, 64, 256, 1024)
DECODES, CONTEXTS = (0, 1, 4, 16), (16, 64, 256, 1024)
META = {
    "model": "meta-llama/Llama-3.2-1B",
    "vllm_version": "0.19.0",
    "engine_kwargs": {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 8192},
    "kv_cache": {"num_gpu_blocks": 4000, "block_size": 16},
    "hardware": {"device_name": "a card"},
}


def attention_us(chunk: int, before: int, decodes: int, context: int) -> float:
    """Of one layer: what a fit of sums finds exactly."""
    of_prompt = 4.0 + 1e-3 * chunk * (before + chunk / 2) if chunk else 0.0
    return of_prompt + (3.0 + 0.5 * decodes + 1e-3 * decodes * context if decodes else 0.0)


def step_s(chunk: int, before: int, decodes: int, context: int) -> float:
    """Of a step without host time: all dense kernels take as long whatever a step's positions are."""
    layer = sum(DENSE_US.values()) + DENSE_US["layernorm"] + attention_us(chunk, before, decodes, context)
    return (LAYERS * layer + sum(ONCE_US.values()) + HEAD_US) * 1e-6


def write_run(folder: Path, requests: Iterable[Mapping[str, Any]], **meta: Any) -> Path:
    """All files; `meta` replaces fields of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Card_Model__meta.json").write_text(json.dumps(META | meta))
    lines = [json.dumps(request) for request in requests]
    (folder / "Card_Model__requests.jsonl").write_text("\n".join(lines) + "\n")
    dense = DENSE_US | ONCE_US
    _table(
        folder / "profile_Card_dense.csv", "layer,tokens,time_us", [(k, x, dense[k]) for k in dense for x in (1, 2048)]
    )
    head = [("lm_head", x, HEAD_US) for x in (1, 16)]
    _table(folder / "profile_Card_per_sequence.csv", "layer,sequences,time_us", head)
    shapes = [(c, b, 0, 0) for c in CHUNKS[1:] for b in BEFORE]
    shapes += [(0, 0, n, k) for n in DECODES[1:] for k in CONTEXTS]
    shapes += [(c, b, n, k) for c in CHUNKS[1:] for b in BEFORE for n in DECODES[1:] for k in CONTEXTS]
    rows = [(*shape, attention_us(*shape)) for shape in shapes]
    _table(folder / "profile_Card_attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", rows)
    return folder


def alone(
    number: int, arrival_s: float, num_in: int, num_out: int, host_s: float, slower: float = 1.0
) -> dict[str, Any]:
    """One request that has the engine for itself, as measured: `slower` than its steps would be."""
    first_s = (step_s(num_in, 0, 0, 0) + host_s) * slower
    rest_s = sum(step_s(0, 0, 1, num_in + n) + host_s for n in range(1, num_out)) * slower
    queued = 500.0 + arrival_s
    return {
        "request_id": f"r{number}",
        "input_toks": num_in,
        "output_toks": num_out,
        "arrival_time": 1.7e9 + arrival_s,
        "queued_ts": queued,
        "first_token_ts": queued + first_s,
        "last_token_ts": queued + first_s + rest_s,
    }


def real_run() -> Path | None:
    """The folder of the run that the scenario is named after, where this checkout or $BATON_DATA has it beside it."""
    given = os.environ.get("BATON_DATA")
    folder = (Path(given) if given else ROOT.parent / "shared" / "data") / "vllm_groundtruth"
    return folder if folder.is_dir() else None


def _table(path: Path, head: str, rows: Iterable[tuple[Any, ...]]) -> None:
    path.write_text("\n".join([head, *[",".join(map(str, row)) for row in rows]]) + "\n")
