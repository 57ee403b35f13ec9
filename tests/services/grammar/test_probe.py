"""What the author of a grammar is told before an executor is asked to use it."""

from __future__ import annotations

import re

import pytest

from baton.services.grammar import sources
from baton.services.grammar.matcher import Matchers
from baton.services.grammar.probe import EARLY_END, find_fault
from baton.services.grammar.vocabulary import Vocabulary


def test_a_grammar_that_cannot_but_go_on_after_an_end_is_refused_and_fails(vocabulary: Vocabulary) -> None:
    built = sources.lark('start: "a" <[257]> "b"')
    assert find_fault(vocabulary, built) == EARLY_END
    assert Matchers(vocabulary).start(built, [97]).mask().is_of_failure


@pytest.mark.parametrize("name", ["<|im_end|>", "<|nothing|>", "<hello>"])
def test_a_control_token_that_is_named_is_refused_without_the_names_that_the_library_knows(
    vocabulary: Vocabulary, name: str
) -> None:
    fault = find_fault(vocabulary, sources.lark(f'start: "a" {name} "b"'))
    assert f'unknown special token: "{name}"; control tokens are named by their ids' in fault
    assert f'1 | start: "a" {name} "b"' in fault
    assert re.search(r"[0-9a-f]{32}|EOS", fault) is None
