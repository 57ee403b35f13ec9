"""Step-time models, and profiles as files."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from baton.core.executor.steps import StepItem, StepPlan
from baton.core.sim.step_time.features import Features, StepKind, features_of
from baton.core.sim.step_time.model import KindModel, Piece, StepModel, StepUnknown, Term, affine
from baton.core.sim.step_time.profile import BadProfile, built_in, decode_profile, encode_profile, load_profile

PROMPT = Features(tokens=1000, attention=500_000, prompts=1, rows=1)
DECODES = Features(decodes=10, context=5000, rows=10)
BOTH = Features(tokens=1000, attention=500_000, prompts=1, decodes=10, context=5000, rows=11)


def test_features_are_counted_from_a_plan() -> None:
    items = (StepItem(3, 200, 100, 0, b""), StepItem(4, 0, 30, 2, b""))
    found = features_of(StepPlan(1, (), (), (), items, (1, 2), num_context=150))
    assert found == Features(130, 100 * 250 + 30 * 15, 2, 2, 150, 4)
    assert found.kind is StepKind.MIXED
    assert features_of(StepPlan(1, (), (), (), (), (1, 2))).kind is StepKind.DECODE
    assert features_of(StepPlan(1, (), (), (), items)).kind is StepKind.PREFILL


def test_each_kind_of_step_has_its_own_formula() -> None:
    model = StepModel(
        prefill=affine([("one", 0.01), ("tokens", 1e-4), ("attention", 1e-8)]),
        decode=affine([("one", 0.005), ("decodes", 1e-3), ("context", 1e-6)]),
        mixed=affine([("one", 1.0)]),
        host_s=0.001,
    )
    assert model.duration_s(PROMPT) == pytest.approx(0.01 + 0.1 + 0.005 + 0.001)
    assert model.duration_s(DECODES) == pytest.approx(0.005 + 0.01 + 0.005 + 0.001)
    assert model.duration_s(BOTH) == pytest.approx(1.001)


def test_a_mixed_step_without_a_formula_is_its_prompt_and_what_decodes_add() -> None:
    prefill, decode = affine([("one", 0.01), ("tokens", 1e-4)]), affine([("one", 9.0), ("decodes", 1e-3)])
    model = StepModel(prefill=prefill, decode=decode)
    assert model.duration_s(BOTH) == pytest.approx(0.01 + 0.1 + 0.01)
    with pytest.raises(StepUnknown, match="decode"):
        StepModel(prefill=model.prefill).duration_s(DECODES)


def test_a_knee_counts_what_lies_above_it_and_a_table_is_read_between_its_points() -> None:
    knee = KindModel(pieces=(Piece(terms=(Term(of="tokens", s=1e-3, above=160),)),))
    assert knee.seconds(Features(tokens=100, prompts=1)) == 0
    assert knee.seconds(Features(tokens=260, prompts=1)) == pytest.approx(0.1)
    table = Term(of="decodes", points=((1, 0.01), (3, 0.02), (5, 0.06)))
    assert [table.seconds(x) for x in (0, 1, 2, 4, 5, 6)] == pytest.approx([0.005, 0.01, 0.015, 0.04, 0.06, 0.08])


@pytest.mark.parametrize("made", [{"s": 1e308}, {"points": ((0, 0.0), (1, -2e6))}, {"s": float("nan")}])
def test_a_term_of_no_seconds_that_a_step_could_take_is_refused(made: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"more than 1e\+06 s|not finite"):
        Term(of="tokens", **made)


def test_the_first_piece_that_a_step_belongs_to_counts() -> None:
    model = KindModel(pieces=(Piece(terms=(Term(s=1.0),), up_to=10), Piece(terms=(Term(s=2.0),))))
    assert model.seconds(Features(decodes=10)) == 1.0
    assert model.seconds(Features(decodes=11)) == 2.0


def test_the_residual_keeps_the_mean() -> None:
    model = StepModel(decode=affine([("one", 0.01)], noise=0.3))
    assert model.duration_s(DECODES, 0.0) == 0.01
    assert model.duration_s(DECODES, 1.0) == pytest.approx(0.01 * 2.718281828 ** (0.3 - 0.045))


@pytest.mark.parametrize("name", built_in())
def test_profiles_of_the_package_say_their_source_and_know_every_step(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert len(profile.source) > 20
    assert decode_profile(encode_profile(profile), name) == profile
    for features in (PROMPT, DECODES, BOTH):
        assert 1e-4 < profile.steps.duration_s(features) < 10


def test_the_coefficients_of_distserve_give_its_prefill_and_decode_times() -> None:
    steps = load_profile("a100-opt13b-tp1").steps
    length = 512
    whole = Features(tokens=length, attention=length * length / 2, prompts=1, rows=1)
    expected_ms = 18.10254647486372 + 0.1019122572698738 * length + 7.122264314252114e-06 * length**2
    assert steps.duration_s(whole) == pytest.approx(expected_ms * 1e-3)
    few = 19.934702624895458 + 0.0006269356524350583 * 5000 + 0.03850697740828398 * 10
    many = 7.1661889468253595 + 0.0005798000403396046 * 50000 + 0.15831096191764046 * 100
    assert steps.duration_s(DECODES) == pytest.approx(few * 1e-3)
    assert steps.duration_s(Features(decodes=100, context=50000)) == pytest.approx(many * 1e-3)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kv_tokens": 0}, "kv_tokens"),
        ({"format_version": 2}, ""),
        ({"kv": {"num_kv_layers": 1, "num_kv_heads": 1, "head_dim": 1, "dtype": "int3"}}, "kv"),
        ({"steps": {"decode": {"pieces": []}}}, "steps.decode.pieces"),
        ({"steps": {"decode": {"pieces": [{"terms": [{"of": "joy", "s": 1}]}]}}}, "steps.decode.pieces[0].terms[0].of"),
        ({"steps": {"decode": {"pieces": [{"terms": [{"s": 1}], "up_to": 3}]}}}, "steps.decode"),
        ({"steps": {"decode": {"pieces": [{"terms": [{"points": [[1, 1]]}]}]}}}, "steps.decode.pieces[0].terms[0]"),
        ({"more": 1}, ""),
    ],
)
def test_a_broken_profile_is_refused_with_its_file_and_field(change: dict, field: str) -> None:
    told = msgspec.json.decode(encode_profile(load_profile("a100-opt13b-tp1"))) | change
    with pytest.raises(BadProfile, match=r"^mine\.json: ") as refused:
        decode_profile(msgspec.json.encode(told), "mine.json")
    assert refused.value.field == field


def test_a_profile_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(BadProfile, match="a100-opt13b-tp1"):
        load_profile(str(tmp_path / "none.json"))
