"""The tokenizer inside a GGUF file as a `tokenizer.json`: byte-level BPE, as of GPT-2, SmolLM, Llama 3 and Qwen."""

from __future__ import annotations

from typing import Any

from baton.core.errors import Incompatible

CONTROL_TOKEN, USER_TOKEN = 3, 4  #: values of `tokenizer.ggml.token_type`
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%DIGITS%| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _sequence(first: dict[str, Any], use_regex: bool) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [first, _byte_level(use_regex)]}


def _split(digits: str) -> dict[str, Any]:
    pattern = {"Regex": WORDS.replace("%DIGITS%", digits)}
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "default": _byte_level(True),
    "gpt-2": _byte_level(True),
    "smollm": _sequence({"type": "Digits", "individual_digits": True}, True),
    "llama-bpe": _sequence(_split(r"\p{N}{1,3}"), False),
    "qwen2": _sequence(_split(r"\p{N}"), False),
}


def gguf_tokenizer(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` are the file's metadata; Incompatible for tokenizers that are not byte-level BPE."""
    model, pre = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre", "default")
    if model != "gpt2" or pre not in PRE_TOKENIZERS:
        raise Incompatible(f"GGUF tokenizer {model!r}/{pre!r} is not supported: fetch the original folder")
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    added = [
        _added_token(index, content, kind == CONTROL_TOKEN)
        for index, (content, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (CONTROL_TOKEN, USER_TOKEN)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "post_processor": _bos_processor(fields),
        "decoder": _byte_level(True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre == "llama-bpe",
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def gguf_tokenizer_config(fields: dict[str, Any], max_len: int) -> dict[str, Any]:
    """Names of the special tokens that the file numbers."""
    tokens = fields["tokenizer.ggml.tokens"]
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_len,
        "clean_up_tokenization_spaces": False,
    }
    for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token_id = fields.get(f"tokenizer.ggml.{theirs}_token_id")
        if token_id is not None:
            config[f"{ours}_token"] = tokens[token_id]
    return config


def _added_token(index: int, content: str, is_special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": index, "content": content, **flags, "special": is_special}


def _bos_processor(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Puts the first token before every text, where the file asks for it."""
    if not fields.get("tokenizer.ggml.add_bos_token", False):
        return None
    token_id = fields["tokenizer.ggml.bos_token_id"]
    token = fields["tokenizer.ggml.tokens"][token_id]
    bos = {"SpecialToken": {"id": token, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [bos, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}},
    }
