"""Two libraries, one answer: the fast one is used where it says what the reference says, and nowhere else."""

from __future__ import annotations

import array
from typing import Any

import fastokens
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from baton.services.router.text.text_tokens import PROBES, TextTokens

NAMES = ["<|start|>", "<|end|>"]
WORDS = [*NAMES, " the", "don't", "12345", "  \n", "\r\n\t", "👩\u200d👧", "é"]
TEXTS = st.lists(st.one_of(st.text(max_size=12), st.sampled_from(WORDS))).map("".join)


def trained() -> Tokenizer:
    """Rules as those of SmolLM2: single digits, then GPT-2's words, then bytes."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, special_tokens=NAMES, show_progress=False
    )
    tokenizer.train_from_iterator([*PROBES, "the quick brown fox doesn't jump over 12 lazy dogs"] * 4, trainer)
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return trained()


@pytest.fixture(scope="module")
def tokens(tokenizer: Tokenizer) -> TextTokens:
    tokens = TextTokens(tokenizer.to_str(), NAMES)
    assert tokens.library == "fastokens"
    return tokens


@given(text=TEXTS)
def test_both_libraries_make_the_same_ids_of_any_text(tokenizer: Tokenizer, tokens: TextTokens, text: str) -> None:
    spelled = array.array("i", tokens.ids(text, adds_special=True)).tolist()
    assert spelled == tokenizer.encode(text).ids
    assert tokens.ids(text, is_ordinary=True) == tokens.reference_ids(text, True, False)


def test_names_of_control_tokens_are_text_where_that_is_asked(tokenizer: Tokenizer, tokens: TextTokens) -> None:
    control = tokenizer.token_to_id(NAMES[0])
    assert array.array("i", tokens.ids(NAMES[0])).tolist() == [control]
    ordinary = array.array("i", tokens.ids(NAMES[0], is_ordinary=True)).tolist()
    assert control not in ordinary
    assert tokenizer.decode(ordinary) == NAMES[0]


def test_a_text_that_the_fast_one_refuses_is_the_references(tokens: TextTokens) -> None:
    text = "\n" * 1_000_000 + "a"
    with pytest.raises(ValueError, match="backtracking"):
        fastokens.Tokenizer.encode_batch_flat(tokens._fast, [text])
    assert tokens.ids(text, is_ordinary=True) == tokens.reference_ids(text, True, False)


def test_a_kind_that_the_fast_one_does_not_know_is_the_references() -> None:
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -2.0)], unk_id=0))
    tokens = TextTokens(unigram.to_str(), [])
    assert tokens.library == "tokenizers"
    assert array.array("i", tokens.ids("ab")).tolist() == unigram.encode("ab").ids


@pytest.mark.parametrize("probe", range(len(PROBES)))
def test_one_probe_with_other_ids_is_enough_to_leave_it(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, probe: int
) -> None:
    monkeypatch.setattr(fastokens, "Tokenizer", Liar)
    Liar.about = PROBES[probe]
    tokens = TextTokens(tokenizer.to_str(), NAMES)
    assert tokens.library == "tokenizers"
    assert tokens.ids("the fox") == tokens.reference_ids("the fox", False, False)


class Liar:
    """The reference's ids, but for one text."""

    about = ""

    def __init__(self, tokenizer_json: str) -> None:
        self._spelled, self._ordinary = Tokenizer.from_str(tokenizer_json), Tokenizer.from_str(tokenizer_json)
        self._ordinary.encode_special_tokens = True

    @staticmethod
    def from_json_str(tokenizer_json: str) -> Liar:
        return Liar(tokenizer_json)

    def no_truncation(self) -> None:
        """As the library."""

    def no_padding(self) -> None:
        """As the library."""

    def encode_batch_flat(self, texts: list[str], *, add_special_tokens: bool, split_special_tokens: bool) -> Any:
        tokenizer = self._ordinary if split_special_tokens else self._spelled
        ids = tokenizer.encode(texts[0], add_special_tokens=add_special_tokens).ids
        return (array.array("i", [*ids, 7] if texts[0] == self.about else ids).tobytes(), b"")
