"""The state of a grammar: what it allows, when it is complete, what happens when it cannot go on."""

from __future__ import annotations

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


def test_a_grammar_is_compiled_once_while_it_is_among_the_last_used(vocabulary: Vocabulary) -> None:
    matchers = Matchers(vocabulary, num_cached=2)
    first, second, third = (sources.choice([text]) for text in "abc")
    for grammar in (first, second, first, first, second):
        matchers.start(grammar)
    assert matchers.num_compiled == 2
    matchers.start(third)  # first, used before second, goes
    matchers.start(second)
    assert matchers.num_compiled == 3
    matchers.start(first)
    assert matchers.num_compiled == 4
