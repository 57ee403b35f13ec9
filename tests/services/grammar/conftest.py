"""The tiny model's vocabulary: ids 0 … 255 are the bytes, 257 and 259 end an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.services.grammar.vocabulary import Vocabulary, load_vocabulary
from baton.services.model.fetch import fetch

ENDS = [257, 259]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch("tiny", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def vocabulary(tiny_folder: Path) -> Vocabulary:
    return load_vocabulary(tiny_folder)


def matches(vocabulary: Vocabulary, grammar: str, text: str) -> bool:
    """Whether the whole text is one that the grammar allows to end."""
    state = vocabulary.compile(grammar)
    assert not state.is_error(), state.get_error()
    data = list(text.encode())
    return state.try_consume_tokens(data) == len(data) and state.is_accepting()
