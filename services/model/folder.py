"""A model folder: what it holds and what its `baton.json` says. Read by router and executor; needs no torch.

::

    config.json             of the decoder, as its family has it
    model.safetensors       weights (or shards with `model.safetensors.index.json`)
    tokenizer.json          read with `tokenizers`
    tokenizer_config.json   names of the special tokens
    chat_template.jinja     rendered in a sandbox; absent where the source has none
    baton.json              ModelInfo
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from baton.core.errors import Incompatible

INFO_NAME = "baton.json"
TOKENIZER_NAMES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


class ModelInfo(msgspec.Struct, frozen=True):
    """What every process must know of a model without reading its weights."""

    name: str
    model_fingerprint: str  #: digest of configuration and weights
    tokenizer_fingerprint: str  #: digest of tokenizer and chat template
    dtype: str  #: what a CPU computes in unless told otherwise
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None = None


def read_model_info(folder: Path) -> ModelInfo:
    """The folder's `baton.json`; Incompatible if the folder was not made by `baton model fetch`."""
    path = folder / INFO_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModelInfo)
    except (OSError, msgspec.DecodeError) as error:
        raise Incompatible(f"{folder} is no model folder (make one with `baton model fetch`): {error}") from error


def write_model_info(folder: Path, name: str, dtype: str) -> ModelInfo:
    """Digest a folder that is otherwise complete and write its `baton.json`."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = sorted(path.name for path in folder.glob("*.safetensors"))
    info = ModelInfo(
        name,
        digest_files(folder, ("config.json", *weights)),
        digest_files(folder, TOKENIZER_NAMES),
        dtype,
        config["vocab_size"],
        config.get("max_position_embeddings", 2048),
        _eos_token_ids(folder, config),
        _first(config.get("bos_token_id")),
    )
    (folder / INFO_NAME).write_bytes(msgspec.json.format(msgspec.json.encode(info)) + b"\n")
    return info


def digest_files(folder: Path, names: tuple[str, ...]) -> str:
    """32 hex digits over the names and contents of those files that exist."""
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        path = folder / name
        if path.is_file():
            digest.update(f"{name}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as opened:
                while piece := opened.read(1 << 22):
                    digest.update(piece)
    return digest.hexdigest()


def _eos_token_ids(folder: Path, config: dict[str, Any]) -> tuple[int, ...]:
    """Ends of a sequence: of `generation_config.json` where there is one (chat models name more ends there)."""
    generation = folder / "generation_config.json"
    named = json.loads(generation.read_text(encoding="utf-8")).get("eos_token_id") if generation.is_file() else None
    found = named if named is not None else config.get("eos_token_id")
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list) else (found,)


def _first(value: int | list[int] | None) -> int | None:
    return value[0] if isinstance(value, list) else value
