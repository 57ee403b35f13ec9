"""The state of a grammar: what it allows, when it is complete, what happens when it cannot go on."""

from __future__ import annotations

import json
import random

import pytest

from baton.services.grammar import sources
from baton.services.grammar.matcher import Matchers
from baton.services.grammar.probe import find_fault
from baton.services.grammar.vocabulary import Vocabulary
from baton.services.model.tiny import byte_tokenizer
from tests.services.grammar.conftest import ENDS
from tests.support.grammars import NUM_LETTERS, failing_after_letters

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
    assert not matchers.start(CHOICE, [A, B, C, 257]).mask().is_of_failure
    assert matchers.num_failed == 0


@pytest.mark.parametrize(
    ("grammar", "after_a"),
    [
        ('"a" (<[257]> | "c") "b"', [C]),  # the token would end the answer before its last letter
        ('"a" <[*]> "b"', [*range(257), 258]),
        ('"a" "b"? <[257]>', [B, 257]),
        ('"a" <[259]>', [259]),
        ('"a" <[257]>*', ENDS),
    ],
)
def test_an_end_that_the_grammar_names_is_allowed_where_it_completes_it(
    vocabulary: Vocabulary, grammar: str, after_a: list[int]
) -> None:
    matchers, built = Matchers(vocabulary), sources.lark(f"start: {grammar}")
    assert allowed(matchers, built, [A]) == after_a
    assert find_fault(vocabulary, built) == ""
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
        assert matcher.mask().is_of_failure
        matcher.take(B)
    assert matchers.num_failed == len(told) == 1
    assert told[0]
    assert allowed(matchers, sources.choice(["b"]), []) == [B]


def test_a_grammar_that_passed_the_check_may_fail_later_and_says_so_from_there_on(vocabulary: Vocabulary) -> None:
    grammar = sources.lark(failing_after_letters())
    assert find_fault(vocabulary, grammar) == ""
    told: list[str] = []
    matchers = Matchers(vocabulary, on_failure=told.append)
    matcher = matchers.start(grammar)
    letters = [A + number % 26 for number in range(NUM_LETTERS)]
    for letter in letters:
        mask = matcher.mask()
        assert mask.token_ids().tolist() == list(range(A, A + 26))
        assert not mask.is_of_failure
        matcher.take(letter)
    for state in (matcher, matchers.start(grammar, letters)):  # as it is for whoever takes the output over
        assert state.mask().is_of_failure
        assert state.mask().token_ids().tolist() == ENDS
    assert matchers.num_failed == len(told) == 2


@pytest.mark.parametrize(("size", "text"), [(100, "Ad"), (96, "A`"), (100, "Ae")])
def test_a_grammar_that_only_tokens_go_on_with_which_the_model_has_not_has_failed(size: int, text: str) -> None:
    """The tokenizer has all bytes, the model the first `size`."""
    vocabulary = Vocabulary(json.dumps(byte_tokenizer()), size, (0,))
    matcher = Matchers(vocabulary).start(sources.choice([text]))
    assert matcher.mask().token_ids().tolist() == [ord("A")]
    matcher.take(ord("A"))
    mask = matcher.mask()
    assert (mask.token_ids().tolist(), mask.is_of_failure) == ([0], True)


def test_the_last_of_the_models_tokens_is_one_to_go_on_with() -> None:
    for size in (97, 104):
        vocabulary = Vocabulary(json.dumps(byte_tokenizer()), size, (0,))
        mask = Matchers(vocabulary).start(sources.choice([chr(size - 1)])).mask()
        assert (mask.token_ids().tolist(), mask.is_of_failure) == ([size - 1], False)


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
