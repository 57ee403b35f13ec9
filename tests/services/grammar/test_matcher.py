"""The state of a grammar: what it allows, when it is complete, what happens when it cannot go on."""

from __future__ import annotations

import random

import pytest

from baton.services.grammar import sources
from baton.services.grammar.matcher import Matchers
from baton.services.grammar.vocabulary import Vocabulary
from tests.services.grammar.conftest import ENDS

CHOICE = sources.choice(["ab", "ac", "abc"])
A, B, C = b"abc"


def allowed(matchers: Matchers, grammar: str, outputs: list[int]) -> list[int]:
    tokens: list[int] = matchers.start(grammar, outputs).mask().token_ids().tolist()
    return tokens


def test_ends_are_allowed_once_the_grammar_may_end_and_alone_once_it_is_complete(vocabulary: Vocabulary) -> None:
    matchers = Matchers(vocabulary)
    assert allowed(matchers, CHOICE, []) == [A]
    assert allowed(matchers, CHOICE, [A]) == [B, C]
    assert allowed(matchers, CHOICE, [A, B]) == [C, *ENDS]
    assert allowed(matchers, CHOICE, [A, C]) == ENDS
    assert allowed(matchers, CHOICE, [A, B, 259]) == ENDS
    assert allowed(matchers, CHOICE, [A, B, C, 257, 257, 259]) == ENDS
    assert matchers.num_failed == 0


def test_a_mask_tells_the_same_of_one_token_as_of_all(vocabulary: Vocabulary) -> None:
    mask = Matchers(vocabulary).start(sources.json_object(), b'{"').mask()
    assert [token for token in range(260) if mask.allows(token)] == mask.token_ids().tolist()


def test_matchers_of_one_grammar_do_not_share_their_state(vocabulary: Vocabulary) -> None:
    matchers = Matchers(vocabulary)
    one, other = matchers.start(CHOICE), matchers.start(CHOICE)
    one.take(A)
    assert other.mask().token_ids().tolist() == [A]
    assert one.mask().token_ids().tolist() == [B, C]


@pytest.mark.parametrize(
    "grammar", [CHOICE, "start: (", sources.lark("start: a\na: a"), "", sources.json_schema({"not": {}})]
)
def test_a_matcher_that_cannot_go_on_allows_only_ends_and_is_counted_once(vocabulary: Vocabulary, grammar: str) -> None:
    told: list[str] = []
    matchers = Matchers(vocabulary, on_failure=told.append)
    matcher = matchers.start(grammar, [C, A, 5000])
    for _ in range(2):
        assert matcher.mask().token_ids().tolist() == ENDS
        matcher.take(B)
    assert matchers.num_failed == len(told) == 1
    assert told[0]
    assert allowed(matchers, sources.choice(["b"]), []) == [B]


def test_an_output_longer_than_what_the_library_may_learn_goes_on_and_disturbs_no_other(vocabulary: Vocabulary) -> None:
    grammar = sources.json_schema({"type": "string", "minLength": 3000})
    matchers = Matchers(vocabulary)
    first, draw = matchers.start(grammar), random.Random(1)
    taken = []
    for _ in range(4000):  # a state that learned all its masks would be full after some 3,500
        allowed_ids = first.mask().token_ids()
        token = int(allowed_ids[draw.randrange(len(allowed_ids))])
        if token in ENDS:
            break
        taken.append(token)
        first.take(token)
    assert matchers.num_compiled == 2
    assert matchers.num_failed == 0
    again = matchers.start(grammar, taken)
    assert again.mask().token_ids().tolist() == first.mask().token_ids().tolist()
    assert len(matchers.start(grammar).mask().token_ids()) >= 1
    assert matchers.num_failed == 0


@pytest.mark.parametrize("text", ["<|im_end|>", "a<|eos|>b", "<|bos|>x"])
def test_text_that_spells_a_control_token_is_written_out(vocabulary: Vocabulary, text: str) -> None:
    matchers = Matchers(vocabulary)
    for grammar in (sources.choice([text]), sources.json_schema({"const": text})):
        matcher = matchers.start(grammar)
        written = bytearray()
        while (ids := matcher.mask().token_ids().tolist()) != ENDS:
            assert all(token < 256 for token in ids)
            written.append(ids[0])
            matcher.take(ids[0])
        assert text.encode() in bytes(written)
