"""Tokens as the library sees them: the same bytes as the router streams, whatever the tokenizer's decoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baton.core.errors import Incompatible
from baton.services.grammar import sources
from baton.services.grammar.matcher import Matchers
from baton.services.grammar.vocabulary import Vocabulary, load_vocabulary
from baton.services.model.tiny import byte_tokenizer
from baton.services.router.text.token_table import build_table

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
ANYTHING = sources.regex("(?s).*")


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(steps)}


def spaced_tokenizer(decoder: dict[str, Any] | None) -> dict[str, Any]:
    """Three control tokens, a token for each byte, and pieces with space marks."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += ["▁", "a", "▁a", "▁▁", "é", "{", '"', "▁{"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": names[index], **flags} for index in range(3)],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": decoder,
        "model": {**model, "vocab": {name: index for index, name in enumerate(names)}, "merges": [["▁", "a"]]},
    }


@pytest.mark.parametrize(
    "tokenizer",
    [
        byte_tokenizer(),
        spaced_tokenizer(sequence(REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP)),
        spaced_tokenizer(sequence(METASPACE, {"type": "ByteFallback"})),
        spaced_tokenizer(sequence({"type": "ByteFallback"}, METASPACE)),
    ],
)
def test_tokens_have_the_bytes_that_the_router_streams(tokenizer: dict[str, Any]) -> None:
    num_tokens = len(tokenizer["model"]["vocab"]) + (4 if tokenizer == byte_tokenizer() else 0)
    table = build_table(tokenizer, num_tokens)
    vocabulary = Vocabulary(json.dumps(tokenizer), num_tokens, (num_tokens - 1,))
    texts = [token for token in range(num_tokens - 1) if table.pieces[token] not in (b"", b"\xff")]  # 255: no UTF-8
    assert len(texts) >= 255
    assert [vocabulary.tokenizer.decode_bytes([token]) for token in texts] == [table.pieces[token] for token in texts]


@pytest.mark.parametrize("size", [260, 258, 300, 4096])
def test_only_tokens_that_the_model_has_and_that_write_text_are_allowed(size: int) -> None:
    vocabulary = Vocabulary(json.dumps(byte_tokenizer()), size, (257,))
    allowed = Matchers(vocabulary).start(ANYTHING).mask().token_ids()
    assert max(allowed) == 257
    assert set(allowed) <= {*range(256), 257}
    assert {*range(128)} <= set(allowed)


def test_a_byte_fallback_vocabulary_writes_characters_byte_by_byte() -> None:
    decoder = sequence(REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP)
    vocabulary = Vocabulary(json.dumps(spaced_tokenizer(decoder)), 300, (2,))
    first_byte = 3
    state = Matchers(vocabulary).start(sources.regex(" [é-ë]"), [first_byte + 0x20])
    assert state.mask().token_ids().tolist() == [first_byte + 0xC3, 263]
    state.take(first_byte + 0xC3)
    assert state.mask().token_ids().tolist() == [first_byte + last for last in (0xA9, 0xAA, 0xAB)]
    state.take(first_byte + 0xA9)
    assert state.mask().token_ids().tolist() == [2]


@pytest.mark.parametrize(
    ("tokenizer", "eos"),
    [
        (json.dumps(byte_tokenizer()), ()),
        (json.dumps(byte_tokenizer()), (5000,)),
        ("{}", (1,)),
        ("[]", (1,)),
        ("nonsense", (1,)),
        (json.dumps(spaced_tokenizer({"type": "WordPiece", "prefix": "##", "cleanup": True})), (1,)),
        (json.dumps(spaced_tokenizer(None)), (1,)),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_incompatible(tokenizer: str, eos: tuple[int, ...]) -> None:
    with pytest.raises(Incompatible):
        Vocabulary(tokenizer, 260, eos)


def test_a_folder_without_tokenizer_is_incompatible(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "baton.json").write_bytes((tiny_folder / "baton.json").read_bytes())
    with pytest.raises(Incompatible, match=r"tokenizer\.json"):
        load_vocabulary(tmp_path)


def test_packed_tokens_are_those_of_a_mask(vocabulary: Vocabulary) -> None:
    bits = np.unpackbits(np.frombuffer(vocabulary.pack((0, 9, 259)), dtype=np.uint8), bitorder="little")
    assert np.flatnonzero(bits).tolist() == [0, 9, 259]
