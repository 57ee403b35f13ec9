"""The model's tokens as the grammar library needs them, read from a model folder."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from baton.core.errors import Incompatible
from baton.services.grammar.limits import parser_limits
from baton.services.model.folder import read_model_info


class Vocabulary:
    """Bytes of each token, and which tokens end an answer. Immutable; used by any number of threads."""

    def __init__(self, tokenizer_json: str, size: int, eos_token_ids: tuple[int, ...]) -> None:
        """`size`: of the model's logits, be it more or fewer than the tokenizer's tokens. Raises Incompatible."""
        if not eos_token_ids:
            raise Incompatible("the model names no end-of-sequence token: an answer could not end where a grammar does")
        self.size = size
        self.eos_token_ids = eos_token_ids
        try:
            parsed = json.loads(tokenizer_json)
            readable = json.dumps(_with_plain_decoder(_with_unspelled_control_tokens(parsed)))
            num_tokens = max(size, _num_tokens(parsed))
            self.tokenizer = LLTokenizer(readable, n_vocab=num_tokens, eos_token=list(eos_token_ids))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Incompatible(f"the tokenizer cannot be used with grammars: {error}") from error

    def compile(self, grammar: str) -> LLMatcher:
        """A matcher before its first token. Never raises for the grammar: ask `is_error()`."""
        return LLMatcher(self.tokenizer, grammar, log_level=0, limits=parser_limits())

    def pack(self, token_ids: tuple[int, ...]) -> bytes:
        """A bit for each token: the form of the library's masks."""
        allowed = np.zeros(self.size, dtype=np.uint8)
        allowed[list(token_ids)] = 1
        return np.packbits(allowed, bitorder="little").tobytes()


def load_vocabulary(folder: Path) -> Vocabulary:
    """Takes seconds for large vocabularies. Incompatible says what is missing or not supported."""
    info = read_model_info(folder)
    try:
        tokenizer_json = (folder / "tokenizer.json").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Incompatible(f"{folder}: tokenizer.json cannot be read: {error}") from error
    return Vocabulary(tokenizer_json, info.vocab_size, info.eos_token_ids)


def _num_tokens(tokenizer: dict[str, Any]) -> int:
    """One more than the highest id of a parsed `tokenizer.json`."""
    vocab = tokenizer["model"]["vocab"]
    own = vocab.values() if isinstance(vocab, dict) else range(len(vocab))
    added = (token["id"] for token in tokenizer.get("added_tokens", []))
    return 1 + max((*own, *added), default=-1)


def _with_unspelled_control_tokens(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Names for the control tokens that no text spells: the library makes tokens of forced text, and text that looks
    like a control token must stay text."""
    mark = secrets.token_hex(16)
    tokens = tokenizer.get("added_tokens", [])
    names = {token["content"]: f"{mark}-{token['id']}" for token in tokens if token["special"]}
    added = [{**token, "content": names.get(token["content"], token["content"])} for token in tokens]
    model = tokenizer["model"]
    if isinstance(model["vocab"], dict):
        vocab: Any = {names.get(piece, piece): index for piece, index in model["vocab"].items()}
    else:
        vocab = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    return {**tokenizer, "added_tokens": added, "model": {**model, "vocab": vocab}}


def _with_plain_decoder(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Write a Metaspace decoder as the replacement that it is: the library knows no other form."""
    decoder = tokenizer.get("decoder") or {}
    steps = decoder.get("decoders", []) if decoder.get("type") == "Sequence" else [decoder]
    if all(step.get("type") != "Metaspace" for step in steps):
        return tokenizer
    plain = [_replacement(step) if step["type"] == "Metaspace" else step for step in steps]
    if all(step["type"] != "ByteFallback" for step in plain):
        plain.append({"type": "ByteFallback"})
    return {**tokenizer, "decoder": {"type": "Sequence", "decoders": [*plain, {"type": "Fuse"}]}}


def _replacement(metaspace: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": metaspace["replacement"]}, "content": " "}
