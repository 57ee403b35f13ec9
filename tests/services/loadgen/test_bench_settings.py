"""Texts of options become what they mean, or one line that says what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.goodput import NO_SLO, Slo
from baton.services.loadgen.bench_settings import (
    RunSettings,
    TargetSettings,
    metrics_urls,
    slo_of,
    slo_of_target,
    target_of,
)
from baton.services.loadgen.load_errors import BadLoad


def test_a_target_is_what_was_asked_for() -> None:
    asked = TargetSettings(
        url="h:1", whole=True, may_stop=True, insecure=True, body='{"n": 1}', header=("a: b:c", "d:")
    )
    target = target_of(asked, {})
    assert (target.url, target.is_streamed, target.ignore_eos, target.verifies_certificate) == ("h:1", *[False] * 3)
    assert target.extra_fields == {"n": 1}
    assert target.extra_headers == {"a": "b:c", "d": ""}
    plain = target_of(TargetSettings(), {})
    assert (plain.is_streamed, plain.ignore_eos, plain.verifies_certificate, plain.api_key) == (True, True, True, "")


def test_the_key_is_of_the_first_variable_that_is_set() -> None:
    both = {"OPENAI_API_KEY": "second", "BATON_BENCH_API_KEY": "first"}
    assert target_of(TargetSettings(), both).api_key == "first"
    assert target_of(TargetSettings(), {**both, "BATON_BENCH_API_KEY": ""}).api_key == "second"


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"body": "[1]"}, "body: '\\[1\\]' is no JSON object"),
        ({"body": "{"}, "body: '{' is no JSON object"),
        ({"header": ("x",)}, "header: 'x' is not NAME:VALUE"),
        ({"header": (" : y",)}, "header: ' : y' is not NAME:VALUE"),
    ],
)
def test_what_is_no_body_and_no_header_is_said(fields: dict[str, str], cause: str) -> None:
    with pytest.raises(BadLoad, match=cause):
        target_of(TargetSettings(**fields), {})


def test_an_slo_is_bounds_with_units() -> None:
    assert slo_of("") == NO_SLO
    assert slo_of("ttft=2s, itl=25ms,tpot=0.5") == Slo(ttft_s=2.0, itl_s=0.025, tpot_s=0.5)
    assert slo_of("e2e=10s") == Slo(e2e_s=10.0)


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_a_bound_in_milliseconds_is_a_thousandth(value: float) -> None:
    assert slo_of(f"ttft={value!r}ms").ttft_s == value * 1e-3
    assert slo_of(f"ttft={value!r}s") == slo_of(f"ttft={value!r}")


@pytest.mark.parametrize(
    "text", ["ttft", "ttft=", "ttft=2m", "ttft=2sm", "foo=1s", "ttft=1s,ttft=2s", "itl=0s", "e2e=-1s", "e2e=nan", "=1"]
)
def test_what_is_no_slo_is_said(text: str) -> None:
    with pytest.raises(BadLoad, match=r"^slo: "):
        slo_of(text)


def test_metrics_are_the_servers_unless_told_otherwise() -> None:
    target = target_of(TargetSettings(url="http://h:1/x/v1"), {})
    assert metrics_urls(RunSettings(), target) == ("http://h:1/x/metrics",)
    others = ("http://a/metrics", "https://b/metrics?x=1")
    assert metrics_urls(RunSettings(metrics=others), target) == others
    assert metrics_urls(RunSettings(no_metrics=True), target) == ()


def test_answers_in_one_piece_have_no_bounds_but_that_of_their_end() -> None:
    whole = target_of(TargetSettings(whole=True), {})
    with pytest.raises(BadLoad, match=r"^slo, whole: an answer in one piece has no tpot, itl; only e2e can be"):
        slo_of_target("tpot=1ms,itl=1ms,e2e=1s", whole)
    assert slo_of_target("e2e=1s", whole) == Slo(e2e_s=1.0)
    assert slo_of_target("tpot=1ms", target_of(TargetSettings(), {})) == Slo(tpot_s=0.001)
