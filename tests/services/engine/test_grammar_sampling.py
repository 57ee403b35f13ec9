"""Sampling under a grammar: what ends by itself matches, and a sequence may be taken over anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.core.executor.steps import NewSequence, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.devices.base import PlanRejected
from baton.services.executor.engine.devices.fake import FakeDevice
from baton.services.executor.engine.grammar_masks import GrammarMasks
from baton.services.executor.engine.load import load_device
from baton.services.executor.engine.sampler import sample_rows
from baton.services.executor.engine.sequences import DeviceSequence
from baton.services.grammar import sources
from baton.services.grammar.matcher import Matchers
from baton.services.grammar.vocabulary import Vocabulary
from baton.services.model.tiny import byte_tokenizer
from tests.services.engine.conftest import Runner, pack
from tests.support.grammars import NUM_LETTERS, failing_after_letters

VOCAB_SIZE = 260
ENDS = (257, 259)
PROMPT = [104, 105]
PATIENCE = 40  #: tokens after which the logits favour what closes strings, arrays and objects, and the end
MAX_TOKENS = 200
NAMES = st.sampled_from(["a", "b", "név", "x y", 'q"', "s/t"])
PATTERNS = st.sampled_from(["^[a-c]{1,3}$", "^[0-9]{2}-[xy]+$", "ab", "^(x|yy)*$", "[é-ü]$"])


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    spans = st.tuples(st.integers(-1000, 1000), st.integers(1, 500))
    lengths = st.tuples(st.integers(0, 8), st.integers(0, 8))
    values = st.one_of(st.text('aé"\\\n/😀', max_size=6), st.integers(-9, 99), st.none(), st.booleans())
    return st.one_of(
        st.sampled_from([{"type": kind} for kind in ("boolean", "null", "number", "integer", "string")]),
        spans.map(lambda span: {"type": "integer", "minimum": span[0], "maximum": sum(span)}),
        spans.map(lambda span: {"type": "number", "minimum": span[0], "exclusiveMaximum": sum(span)}),
        lengths.map(lambda span: {"type": "string", "minLength": span[0], "maxLength": sum(span)}),
        st.lists(values, min_size=1, max_size=4).map(lambda options: {"enum": options}),
        PATTERNS.map(lambda pattern: {"type": "string", "pattern": pattern}),
        st.sampled_from([2, 7]).map(lambda factor: {"type": "integer", "multipleOf": factor}),
    )


def objects(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    others = st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "integer"}}])
    return st.tuples(st.dictionaries(NAMES, children, max_size=4), st.data(), others).map(
        lambda drawn: merged(
            {"type": "object", "properties": drawn[0]},
            {"required": drawn[1].draw(st.lists(st.sampled_from(sorted(drawn[0])), unique=True)) if drawn[0] else []},
            drawn[2],
        )
    )


def composites(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lengths = st.tuples(st.integers(0, 2), st.integers(0, 3))
    return st.one_of(
        objects(children),
        st.tuples(children, lengths).map(
            lambda drawn: {"type": "array", "items": drawn[0], "minItems": drawn[1][0], "maxItems": sum(drawn[1])}
        ),
        st.lists(children, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
    )


SCHEMAS = st.recursive(scalars(), composites, max_leaves=6)
TEMPERATURES = st.sampled_from([0.0, 0.7, 1.0])


@pytest.fixture(scope="module")
def masks() -> Iterator[GrammarMasks]:
    masks = GrammarMasks(Matchers(Vocabulary(json.dumps(byte_tokenizer()), VOCAB_SIZE, ENDS)))
    yield masks
    assert masks.matchers.num_failed == 0
    masks.close()


def logits_at(seed: int, position: int) -> torch.Tensor:
    row = np.random.default_rng((seed, position)).normal(size=VOCAB_SIZE).astype(np.float32) * 3
    if position > PATIENCE:
        row[list(b'"}],')] += 6 + 0.3 * (position - PATIENCE)
        row[ENDS[0]] += 100
    return torch.from_numpy(row)


def sequence_of(masks: GrammarMasks, params: SamplingParams, known: list[int]) -> DeviceSequence:
    sequence = DeviceSequence(NewSequence(1, pack([*PROMPT, *known]), len(PROMPT), params, 0))
    sequence.grammar = masks.follow(params.grammar, sequence.tokens, len(PROMPT))
    return sequence


def answer(masks: GrammarMasks, params: SamplingParams, known: list[int], seed: int) -> list[int]:
    """`known`, and what is drawn after it: to an end, or MAX_TOKENS in all."""
    sequence = sequence_of(masks, params, known)
    outputs = list(known)
    while len(outputs) < MAX_TOKENS and not (outputs and outputs[-1] in ENDS):
        ((drawn,),) = sample_rows(logits_at(seed, len(outputs)).unsqueeze(0), [sequence], [1])
        sequence.tokens.append(drawn.token)
        outputs.append(drawn.token)
    return outputs


def told(outputs: list[int]) -> str:
    """The text of an answer that has ended by itself."""
    assert outputs[-1] in ENDS
    return bytes(outputs[:-1]).decode()


@settings(max_examples=60)
@given(schema=SCHEMAS, seed=st.integers(0, 2**31), temperature=TEMPERATURES, cut=st.floats(0, 1, exclude_max=True))
def test_what_ends_is_valid_and_goes_on_the_same_from_anywhere(
    masks: GrammarMasks, schema: dict[str, Any], seed: int, temperature: float, cut: float
) -> None:
    grammar = sources.json_schema(schema)
    if masks.matchers.vocabulary.compile(grammar).is_error():
        return  # a required name that cannot be had; the checker refuses it
    params = SamplingParams(max_tokens=MAX_TOKENS, temperature=temperature, seed=seed, grammar=grammar)
    outputs = answer(masks, params, [], seed)
    if outputs[-1] in ENDS:
        jsonschema.validate(json.loads(told(outputs)), schema, cls=jsonschema.Draft202012Validator)
    known = outputs[: int(cut * len(outputs))]
    assert answer(masks, params, known, seed) == outputs


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("grammar", "expected"),
    [
        (sources.regex("[a-z]{3}-[0-9]{2}"), "^[a-z]{3}-[0-9]{2}$"),
        (sources.choice(["yes", "no", "né"]), "^(yes|no|né)$"),
        (sources.lark('start: "<" item ("," item){0,4} ">"\nitem: /[0-9]/ | "x"'), "^<[0-9x](,[0-9x]){0,4}>$"),
    ],
)
def test_answers_match_their_grammar(masks: GrammarMasks, grammar: str, expected: str, temperature: float) -> None:
    for seed in range(8):
        params = SamplingParams(max_tokens=MAX_TOKENS, temperature=temperature, seed=seed, grammar=grammar)
        jsonschema.validate(told(answer(masks, params, [], seed)), {"pattern": expected})


def test_choices_of_one_row_are_drawn_from_one_mask(masks: GrammarMasks) -> None:
    params = SamplingParams(max_tokens=9, seed=2, grammar=sources.regex("[p-r].*"))
    (drawn,) = sample_rows(torch.zeros(1, VOCAB_SIZE), [sequence_of(masks, params, [])], [40])
    assert [token.choice for token in drawn] == list(range(40))
    assert {token.token for token in drawn} == set(b"pqr")


def draw_one(masks: GrammarMasks, logits: torch.Tensor, known: list[int], **fields: Any) -> int:
    params = SamplingParams(max_tokens=9, **fields)
    ((drawn,),) = sample_rows(logits.unsqueeze(0), [sequence_of(masks, params, known)], [1])
    return drawn.token


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_bias_and_penalties_choose_among_what_the_grammar_allows(masks: GrammarMasks, temperature: float) -> None:
    logits = torch.zeros(VOCAB_SIZE)
    logits[ord("z")], logits[ord("a")] = 90.0, 60.0
    fields: dict[str, Any] = {"temperature": temperature, "grammar": sources.regex("[abc]+")}
    assert draw_one(masks, logits, [], **fields) == ord("a")
    assert draw_one(masks, logits, [], logit_bias=((ord("c"), 99.0), (ord("y"), 500.0)), **fields) == ord("c")
    logits[ord("b")] = 59.0
    assert draw_one(masks, logits, [ord("a")], frequency_penalty=30.0, **fields) == ord("b")
    assert draw_one(masks, logits, [], top_k=1, **fields) == ord("a")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_min_tokens_forbids_ends_except_where_the_grammar_leaves_nothing_else(
    masks: GrammarMasks, temperature: float
) -> None:
    logits = torch.zeros(VOCAB_SIZE)
    logits[257] = 80.0
    fields: dict[str, Any] = {"temperature": temperature, "min_tokens": 5, "stop_token_ids": ENDS}
    grammar = sources.choice(["a", "ab"])
    assert draw_one(masks, logits, [ord("a")], grammar=grammar, **fields) == ord("b")
    assert draw_one(masks, logits, [*b"ab"], grammar=grammar, **fields) in ENDS


def test_what_the_model_rules_out_may_still_be_all_that_is_allowed(masks: GrammarMasks) -> None:
    logits = torch.full((VOCAB_SIZE,), -np.inf)
    logits[7] = 0.0
    for temperature in (0.0, 1.0):
        assert draw_one(masks, logits, [], temperature=temperature, grammar=sources.regex("[xy]")) in b"xy"


def test_reported_logprobs_are_the_models_own_under_a_grammar(masks: GrammarMasks) -> None:
    logits = logits_at(3, 0)
    expected = logits.double().log_softmax(0)
    params = SamplingParams(max_tokens=9, temperature=0.0, num_logprobs=3, grammar=sources.choice(["k"]))
    ((drawn,),) = sample_rows(logits.unsqueeze(0), [sequence_of(masks, params, [])], [1])
    assert drawn.token == ord("k")
    assert drawn.logprobs is not None
    assert drawn.logprobs.logprob == pytest.approx(float(expected[ord("k")]), abs=1e-12)
    assert drawn.logprobs.top_ids == tuple(expected.argsort(descending=True)[:3].tolist())


def test_a_grammar_that_fails_ends_its_own_row_and_no_other() -> None:
    masks = GrammarMasks(Matchers(Vocabulary(json.dumps(byte_tokenizer()), VOCAB_SIZE, ENDS)))
    greedy = SamplingParams(max_tokens=9, temperature=0.0)
    broken = SamplingParams(max_tokens=9, temperature=0.0, grammar="start: (")
    plain = DeviceSequence(NewSequence(2, pack(PROMPT), 2, greedy, 0))
    ended = sequence_of(masks, broken, [])
    logits = torch.zeros(2, VOCAB_SIZE)
    logits[:, 5] = 1.0
    assert not ended.grammar_failed  # nothing was sampled yet
    drawn = sample_rows(logits, [ended, plain], [1, 1])
    assert [row[0].token for row in drawn] == [257, 5]
    assert (ended.grammar_failed, plain.grammar_failed) == (True, False)
    assert masks.matchers.num_failed == 1
    masks.close()


# ---- devices


def cpu_runner(folder: Path, masks: GrammarMasks) -> Runner:
    device = load_device("cpu", folder, num_blocks=24, block_size=16)
    device.use_grammars(masks)
    return Runner(device)


def test_devices_follow_choices_and_what_was_handed_over(tiny_folder: Path, masks: GrammarMasks) -> None:
    """A prompt with three choices on one device; one of them goes on there, and from its first tokens on another."""
    params = SamplingParams(max_tokens=12, seed=4, grammar=sources.regex("[a-f]{4}(-[a-f]{4}){3}"))
    runner = cpu_runner(tiny_folder, masks)
    runner.add(1, PROMPT, params)
    first = runner.step((1, 0, 2, 3, [0, 1]))[1]
    assert all(token.token in b"abcdef" for token in first)
    runner.copy(0, 2, len(PROMPT))
    runner.add(2, [*PROMPT, first[1].token], params, num_prompt=2, choice=1)
    second = [first[1].token, *(runner.step((2, n, 1, 1, [2, 3] if n == 2 else []))[2][0].token for n in (2, 3, 4))]
    other = cpu_runner(tiny_folder, masks)
    other.add(7, [*PROMPT, *second[:2]], params, num_prompt=2, choice=1)
    resumed = [other.step((7, 0, 4, 1, [5]))[7][0].token, other.step((7, 4, 1, 1, []))[7][0].token]
    assert second[2:] == resumed
    assert set(second) <= set(b"abcdef")


@pytest.mark.parametrize("seed", range(4))
def test_the_fake_device_keeps_to_a_grammar(masks: GrammarMasks, seed: int) -> None:
    device = FakeDevice(8, 16)
    device.use_grammars(masks)
    runner = Runner(device)
    params = SamplingParams(max_tokens=5, seed=seed, grammar=sources.regex("[0-9]{3}x"))
    outputs = [token.token for token in runner.generate(1, PROMPT, params, [], [0])]
    jsonschema.validate(told(outputs), {"pattern": "^[0-9]{3}x$"})


@pytest.mark.parametrize("kind", ["cpu", "fake"])
def test_devices_say_which_grammar_failed_and_from_when_on(tiny_folder: Path, kind: str) -> None:
    """Beside it runs one whose grammar is complete after three letters, which is no failure."""
    masks = GrammarMasks(Matchers(Vocabulary(json.dumps(byte_tokenizer()), VOCAB_SIZE, ENDS)))
    runner = cpu_runner(tiny_folder, masks) if kind == "cpu" else Runner(FakeDevice(24, 16))
    runner.device.use_grammars(masks)
    failing = SamplingParams(max_tokens=99, seed=1, grammar=sources.lark(failing_after_letters()))
    complete = SamplingParams(max_tokens=99, seed=1, grammar=sources.regex("[a-z]{3}"))
    runner.add(1, PROMPT, failing)
    runner.add(2, PROMPT, complete)
    assert runner.step((1, 0, 1, 0, [0, 1, 2]), (2, 0, 1, 0, [3, 4, 5])) == {1: (), 2: ()}
    outputs: dict[int, list[int]] = {1: [], 2: []}
    for position in range(1, NUM_LETTERS + 4):
        assert runner.failed == ([1] if len(outputs[1]) > NUM_LETTERS else [])
        for seq_id, (sampled,) in runner.step(*((seq_id, position, 1, 1, []) for seq_id in (1, 2))).items():
            outputs[seq_id].append(sampled.token)
    assert set(outputs[1][:NUM_LETTERS]) <= set(range(ord("a"), ord("z") + 1))
    assert {*outputs[1][NUM_LETTERS:], *outputs[2][3:]} <= set(ENDS)
    masks.close()


def test_a_device_without_a_vocabulary_rejects_grammars() -> None:
    params = SamplingParams(max_tokens=5, grammar=sources.json_object())
    plan = StepPlan(1, (), (NewSequence(1, pack(PROMPT), 2, params, 0),), (), (StepItem(1, 0, 2, 1, pack([0])),))
    with pytest.raises(PlanRejected, match="grammar"):
        FakeDevice(8, 16).launch(plan)
