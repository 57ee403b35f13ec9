"""Tokens to text: any bytes, cut anywhere, against the whole decode; tokens of real tokenizers against their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from baton.core.errors import Incompatible
from baton.services.model.tiny import byte_tokenizer
from baton.services.router.text.detokenize import Detokenizer, Undecodable
from baton.services.router.text.token_table import TokenTable, build_table

TABLE = build_table(byte_tokenizer(), 260)
CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "größer, weiter, 速い",
    "한국어 문장 하나",
    "👩‍👩‍👧 family 😀😀",
    "x = y + 1\n    return",
] * 8


def whole(table: TokenTable, tokens: list[int]) -> str:
    detokenizer = Detokenizer(table)
    return "".join(map(detokenizer.push, tokens)) + detokenizer.flush()


@given(st.one_of(st.binary(max_size=60), st.text(max_size=30).map(str.encode)))
def test_deltas_are_the_whole_decode_of_any_bytes(data: bytes) -> None:
    assert whole(TABLE, list(data)) == data.decode("utf-8", "replace")


@given(st.text("aé速😀\u200d", min_size=1, max_size=20), st.integers(0, 80))
def test_an_incomplete_character_is_held_back_and_flushed_once(text: str, cut: int) -> None:
    data = text.encode()[:cut]
    detokenizer = Detokenizer(TABLE)
    deltas = "".join(map(detokenizer.push, data))
    assert "\ufffd" not in deltas
    assert text.startswith(deltas)
    assert detokenizer.flush() == ("" if deltas.encode() == data else "\ufffd")


def test_what_follows_a_flush_does_not_complete_the_character_before_it() -> None:
    detokenizer = Detokenizer(TABLE)
    first, second = "é".encode()
    assert detokenizer.push(first) + detokenizer.flush() == "\ufffd"
    assert detokenizer.num_before(second) == 0
    assert detokenizer.push(second, *b"a") + detokenizer.flush() == "\ufffda"


def test_str_02_the_end_of_a_prompts_character_shows_nothing_of_the_prompt() -> None:
    assert whole(TABLE, [*"速".encode()[2:], *b"ok"]) == "\ufffdok"


def test_control_tokens_and_unused_ids_add_no_text() -> None:
    table = build_table(byte_tokenizer(), 300)
    assert whole(table, [104, 256, 105, 259, 299]) == "hi"


def test_a_token_outside_the_vocabulary_is_an_error() -> None:
    for token in (-1, 260):
        with pytest.raises(Undecodable):
            Detokenizer(TABLE).push(token)


def trained_byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_fallback() -> Tokenizer:
    words = ["▁the", "▁fox", "▁", "t", "h", "e"]
    vocab = {piece: index for index, piece in enumerate([f"<0x{byte:02X}>" for byte in range(256)] + words)}
    tokenizer = Tokenizer(models.BPE(vocab, [], byte_fallback=True, unk_token=None))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    return trained_byte_level()


@given(text=st.text(max_size=40))
def test_a_trained_tokenizers_text_comes_back_as_it_went_in(byte_level: Tokenizer, text: str) -> None:
    table = build_table(json.loads(byte_level.to_str()), byte_level.get_vocab_size())
    assert whole(table, byte_level.encode(text).ids) == text


@given(tokens=st.lists(st.integers(0, 399), max_size=30))
def test_arbitrary_tokens_decode_as_the_tokenizer_itself_decodes_them(byte_level: Tokenizer, tokens: list[int]) -> None:
    known = [token % byte_level.get_vocab_size() for token in tokens]
    table = build_table(json.loads(byte_level.to_str()), byte_level.get_vocab_size())
    assert whole(table, known) == byte_level.decode(known, skip_special_tokens=True)


@given(st.lists(st.integers(65, 261), max_size=30))
def test_pieces_with_a_space_mark_and_bytes_decode_as_the_tokenizer_does(tokens: list[int]) -> None:
    tokenizer = byte_fallback()
    table = build_table(json.loads(tokenizer.to_str()), tokenizer.get_vocab_size())
    ascii_only = [token for token in tokens if token < 128 or token >= 256]
    assert whole(table, ascii_only) == tokenizer.decode(ascii_only)


def test_characters_of_several_byte_tokens_are_put_together() -> None:
    table = build_table(json.loads(byte_fallback().to_str()), 262)
    assert whole(table, [*"速".encode(), 257, *"é".encode()]) == "速 foxé"


def test_a_decoder_that_cannot_be_streamed_is_refused() -> None:
    tokenizer = json.loads(trained_byte_level().to_str()) | {"decoder": {"type": "WordPiece", "prefix": "##"}}
    with pytest.raises(Incompatible, match="WordPiece"):
        build_table(tokenizer, 400)


@pytest.fixture(scope="module")
def smollm2() -> tuple[Tokenizer, TokenTable]:
    cache = Path(os.environ.get("BATON_CACHE") or Path.home() / ".cache" / "baton")
    path = cache / "models" / "SmolLM2-135M-Instruct" / "tokenizer.json"
    if not path.is_file():
        pytest.skip("no SmolLM2 in the cache (`baton model fetch` makes it)")
    text = path.read_text(encoding="utf-8")
    return Tokenizer.from_str(text), build_table(json.loads(text), 49152)


@given(tokens=st.lists(st.integers(0, 49151), max_size=30))
def test_smollm2s_tokens_decode_as_its_tokenizer_decodes_them(
    smollm2: tuple[Tokenizer, TokenTable], tokens: list[int]
) -> None:
    tokenizer, table = smollm2
    assert whole(table, tokens) == tokenizer.decode(tokens, skip_special_tokens=True)
