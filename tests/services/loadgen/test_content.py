"""What requests say: the right number of tokens, equal where the plan says so, and new with every run."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from baton.services.loadgen.content import Content, ContentKind, ContentSettings, new_salt
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.pieces import PieceSet, pieces_for, token_counter
from baton.services.loadgen.plan import BlockRun, PlannedRequest, Prefix
from baton.services.loadgen.words import WORDS
from baton.services.model.tiny import byte_tokenizer

TOKENS = ContentSettings(kind=ContentKind.TOKENS, salt="a", first_token_id=100, end_token_id=50_000)


def request(index: int = 0, num_input_tokens: int = 200, **options: object) -> PlannedRequest:
    return PlannedRequest(index=index, num_input_tokens=num_input_tokens, max_tokens=1, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of bytes; one that knows words; and one that knows syllables, so that most words are several tokens."""
    folder = tmp_path_factory.mktemp("tokenizers")
    paths = {name: folder / f"{name}.json" for name in ("bytes", "words", "syllables")}
    paths["bytes"].write_text(json.dumps(byte_tokenizer()), encoding="utf-8")
    for name, size in (("words", 4_000), ("syllables", 330)):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
        tokenizer.train_from_iterator([f"{word} {word}" for word in WORDS], trainer)
        tokenizer.save(str(paths[name]))
    return paths


def test_words_are_known_once_each() -> None:
    assert len(set(WORDS)) == len(WORDS) > 800
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


@given(st.integers(1, 400), st.integers(0, 500), st.integers(0, 500), st.integers(0, 10**9))
def test_token_ids_are_as_many_as_planned_and_within_their_range(
    num_input_tokens: int, prefix: int, blocks: int, index: int
) -> None:
    planned = request(
        index, num_input_tokens, prefixes=(Prefix(1, prefix),), blocks=(BlockRun(7, blocks),), block_size=16
    )
    ids = Content(TOKENS).prompt(planned).token_ids
    assert len(ids) == num_input_tokens
    assert all(100 <= token_id < 50_000 for token_id in ids)


def test_equal_blocks_are_equal_tokens_wherever_they_stand() -> None:
    content = Content(TOKENS)
    one = content.prompt(request(1, 70, blocks=(BlockRun(5, 4),), block_size=16)).token_ids
    two = content.prompt(request(2, 50, blocks=(BlockRun(40, 1), BlockRun(6, 2)), block_size=16)).token_ids
    assert two[16:48] == one[16:48]
    assert two[:16] != one[:16]
    assert len(set(one[64:]) & set(two[48:])) == 0  # the rest is their own


def test_a_block_that_is_cut_short_begins_as_the_whole_one() -> None:
    content = Content(TOKENS)
    whole = content.prompt(request(1, 32, blocks=(BlockRun(8, 2),), block_size=16)).token_ids
    assert content.prompt(request(2, 21, blocks=(BlockRun(8, 2),), block_size=16)).token_ids == whole[:21]


def test_a_group_begins_alike_and_goes_on_apart() -> None:
    content = Content(TOKENS)
    long = content.prompt(request(1, prefixes=(Prefix(3, 120),))).token_ids
    short = content.prompt(request(2, prefixes=(Prefix(3, 90),))).token_ids
    other = content.prompt(request(3, prefixes=(Prefix(4, 120),))).token_ids
    assert short[:90] == long[:90]
    assert short[90:120] != long[90:120]
    assert other[:8] != long[:8]


@pytest.mark.parametrize("kind", list(ContentKind))
def test_two_runs_share_no_prompt_and_no_beginning_of_one(kind: ContentKind) -> None:
    planned = [request(index, prefixes=(Prefix(index % 3, 100),)) for index in range(100)]
    heads: list[set[object]] = []
    for salt in (new_salt(), new_salt()):
        content = Content(ContentSettings(kind=kind, salt=salt))
        prompts = [content.prompt(each) for each in planned]
        heads.append({prompt.token_ids[:8] or " ".join(prompt.text.split()[:8]) for prompt in prompts})
    assert len(heads[0]) == len(heads[1]) == 3
    assert not heads[0] & heads[1]


@pytest.mark.parametrize("kind", list(ContentKind))
def test_the_same_settings_say_the_same_bytes_in_any_process_and_order(kind: ContentKind) -> None:
    planned = [request(index, 300, blocks=(BlockRun(index, 3),), block_size=64) for index in range(10)]
    settings = ContentSettings(kind=kind, seed=4)
    forth = [Content(settings).prompt(each) for each in planned]
    content = Content(settings)
    back = [content.prompt(each) for each in reversed(planned)]
    assert msgspec.json.encode(forth) == msgspec.json.encode(back[::-1])
    assert Content(ContentSettings(kind=kind, seed=5)).prompt(planned[0]) != forth[0]


def test_what_a_seed_says_stays_what_it_was() -> None:
    settings = ContentSettings(kind=ContentKind.TOKENS, seed=1, end_token_id=1000)
    ids = Content(settings).prompt(request(2, 6, prefixes=(Prefix(0, 2),), blocks=(BlockRun(9, 1),), block_size=2))
    assert ids.token_ids == (479, 367, 856, 111, 124, 840)


@pytest.mark.parametrize("name", ["bytes", "words", "syllables"])
def test_texts_have_exactly_as_many_tokens_as_planned(tokenizers: dict[str, Path], name: str) -> None:
    content = Content(ContentSettings(tokenizer=str(tokenizers[name]), salt="s"))
    count_tokens = token_counter(tokenizers[name])
    for index, length in enumerate([*range(1, 40), 512, 1000]):
        planned = request(index, length, prefixes=(Prefix(0, 20),), blocks=(BlockRun(index, 2),), block_size=7)
        assert count_tokens(content.prompt(planned).text) == length


@pytest.mark.parametrize("name", ["bytes", "words", "syllables"])
def test_texts_of_a_group_begin_with_the_same_tokens(tokenizers: dict[str, Path], name: str) -> None:
    content = Content(ContentSettings(tokenizer=str(tokenizers[name])))
    tokenizer = Tokenizer.from_file(str(tokenizers[name]))
    one, two = (
        tokenizer.encode(content.prompt(request(index, 90, prefixes=(Prefix(2, 60),))).text) for index in (1, 2)
    )
    assert one.ids[:50] == two.ids[:50]
    assert one.ids[60:] != two.ids[60:]


def test_pieces_are_words_where_they_are_known_and_letters_where_bytes_are(tokenizers: dict[str, Path]) -> None:
    known: dict[str, PieceSet] = {name: pieces_for(token_counter(path)) for name, path in tokenizers.items()}
    assert (known["words"].separator, known["words"].is_one_token_each) == (" ", True)
    assert (known["bytes"].separator, known["bytes"].is_one_token_each) == ("", True)
    assert not known["syllables"].is_one_token_each


def test_without_a_tokenizer_each_word_is_taken_for_a_token() -> None:
    content = Content(ContentSettings())
    assert len(content.prompt(request(0, 321)).text.split(" ")) == 321


@pytest.mark.parametrize("text", [None, "{}", "nothing"])
def test_a_tokenizer_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadLoad, match=r"tokenizer .*tokenizer\.json"):
        Content(ContentSettings(tokenizer=str(path)))


def test_texts_of_the_plan_are_said_as_they_are() -> None:
    messages = '[{"role": "user", "content": "a"}]'
    content = Content(ContentSettings(salt="x"))
    assert content.prompt(request(text="Why?")).text == "Why?"
    assert content.prompt(request(messages_json=messages)).messages_json == messages


def test_texts_of_the_plan_can_begin_with_a_mark_of_the_run() -> None:
    messages = '[{"role":"user","content":[{"type":"text"}]},{"role":"user","content":"b","name":"n"}]'
    first, second = (Content(ContentSettings(salt=salt, marks_texts=True)) for salt in ("x", "y"))
    assert first.prompt(request(text="Why?")).text.endswith("] Why?")
    assert first.prompt(request(text="Why?")) != second.prompt(request(text="Why?"))
    marked = json.loads(first.prompt(request(messages_json=messages)).messages_json)
    assert marked[0] == {"role": "user", "content": [{"type": "text"}]}
    assert marked[1]["content"].endswith("] b")
    assert marked[1]["name"] == "n"
