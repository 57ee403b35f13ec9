"""Why one deployment is worse, of made-up runs: each reason where its figures break the bound, and none where not."""

from __future__ import annotations

import msgspec
import pytest

from baton.core.metrics.goodput import Slo
from baton.core.sim.study.reasons import UNKNOWN, reason
from baton.core.sim.study.sides import Side
from baton.core.sim.study.uses import RoleUse
from tests.core.sim.study.made_up import TOKENS, USE, WAITS, run

SLO = Slo(ttft_s=1.0, itl_s=0.05)
TOLD = {"ttft_s": "TTFT ≤ 1 s", "itl_s": "ITL (p99 of a request) ≤ 50 ms"}


def use(**changed: float) -> RoleUse:
    return msgspec.structs.replace(USE, **changed)


REPLICAS = {"unified": use(count=2, decodes=52, decode_step_s=0.028, mixed_step_s=0.11, mixed_share=0.3, busy=0.97)}
PD = {"prefill": use(), "decode": use(decodes=10)}


def side(name: str, uses: dict[str, RoleUse], kept: dict[str, float], told: dict[str, float]) -> Side:
    """`told`: fields of waits and tokens, and figures."""
    waits, tokens = dict[str, float](), dict[str, float]()
    figures = {"output_tokens_per_s": 500.0, "requests_per_s": 10.0}
    for field, value in told.items():
        where = waits if field in WAITS.__struct_fields__ else tokens if field in TOKENS.__struct_fields__ else figures
        where[field] = value
    changed = msgspec.structs.replace(WAITS, **waits), msgspec.structs.replace(TOKENS, **tokens)
    share = min(kept.values())
    return Side(name, [run(share, attainment=kept, uses=uses, waits=changed[0], tokens=changed[1], **figures)])


def told(
    loser: dict[str, RoleUse],
    bound: str,
    ours: dict[str, float],
    theirs: dict[str, float] | None = None,
    kept: float = 0.3,
    winner: dict[str, RoleUse] = REPLICAS,
    slo: Slo = SLO,
) -> str:
    all_kept = {name: 1.0 for name in Slo.__struct_fields__}
    bad = side("A", loser, all_kept | {bound: kept}, ours)
    return reason(bad, side("B", winner, all_kept, theirs or {}), slo)


@pytest.mark.parametrize(
    ("loser", "bound", "ours", "says"),
    [
        (
            REPLICAS,
            "itl_s",
            {"late_with_prompts": 0.3},
            "prompts share its steps, where a step with a prompt takes 110 ms on average, one without 28 ms, and 30 % "
            "of the tokens come of such steps longer than 50 ms",
        ),
        (
            {"unified": use(decode_step_s=0.028, prompt_step_s=0.4)},
            "itl_s",
            {"late_with_prompts": 0.1},
            "its decodes wait for steps of prompts, which take 400 ms on average, one without 28 ms",
        ),
        (REPLICAS, "ttft_s", {"placed_p90_s": 3.2}, "in one step of 110 ms, 97 % of the time, and requests wait 3.2 s"),
        (
            {"prefill": use(busy=0.98), "decode": use(busy=0.8)},
            "ttft_s",
            {"placed_p90_s": 2.0},
            "1 prefill executor computes 98 % of the time while its 1 decode executor computes 80 %, and requests wait",
        ),
        (
            {"prefill": use(busy=0.2), "decode": use(kv_use=0.7, decodes=110, busy=1.0)},
            "ttft_s",
            {"placed_p90_s": 2.0},
            "its 1 executor for answers holds 110 sequences at once, with 70 % of the tokens that its KV memory has "
            "room for, while its 1 prefill executor is idle 80 % of the time, and requests wait 2 s (p90) for a place",
        ),
        (
            {"prefill": use(), "decode": use(count=2, kv_use=1.7, decodes=110)},
            "ttft_s",
            {"placed_p90_s": 2.0},
            "its 2 executors for answers hold 110 sequences at once each, with 170 % of the tokens that their KV "
            "memory has room for, what they share counted for each",
        ),
        (
            {"prefill": use(count=2, busy=0.1), "decode": use(decodes=110, decode_step_s=0.06)},
            "itl_s",
            {"late_alone": 0.9},
            "decode on 1 executor, 110 at once (B: 52), so that a step takes 60 ms (28 ms), and 90 % of the tokens "
            "come of steps longer than 50 ms, while its 2 prefill executors are idle 90 % of the time",
        ),
        (
            PD,
            "itl_s",
            {"handed_over_p50_s": 0.3},
            "the hand-off of KV takes 300 ms (p50) between an answer's first two tokens",
        ),
        (
            {"prefill": use(), "decode": use(mixed_step_s=0.2, mixed_share=0.1)},
            "itl_s",
            {"prompts_on_decode": 0.4, "late_with_prompts": 0.1},
            "its decode executors compute 40 % of the prompts themselves, and a step with a prompt takes 200 ms",
        ),
        (PD, "ttft_s", {"computed_p90_s": 1.4}, "as a prompt takes 1.4 s (p90) from its placement to its first token"),
    ],
)  # fmt: skip
def test_the_reason_is_what_the_runs_show(
    loser: dict[str, RoleUse], bound: str, ours: dict[str, float], says: str
) -> None:
    found = told(loser, bound, ours)
    assert says in found
    assert found.startswith(f"A keeps {TOLD[bound]} for 30 % of the requests (B: 100 %), as ")


@pytest.mark.parametrize(
    ("loser", "bound", "ours", "theirs"),
    [
        # steps of decodes are faster than the winner's, or as slow and within the bound
        (REPLICAS, "itl_s", {"late_alone": 0.0}, {}),
        ({"unified": use(decode_step_s=0.02)}, "itl_s", {"late_alone": 0.5}, {}),
        ({"unified": use(decode_step_s=0.06)}, "itl_s", {"late_alone": 0.5}, {"late_alone": 0.6}),
        # prompts in steps that no bound is too short for, or too few of them for 70 % of the requests
        (REPLICAS, "itl_s", {"late_with_prompts": 0.001}, {}),
        (REPLICAS, "itl_s", {"late_with_prompts": 0.2}, {"late_with_prompts": 0.3}),
        # a hand-off within the bound, or one late token among hundreds
        (PD, "itl_s", {"handed_over_p50_s": 0.04}, {}),
        (PD, "itl_s", {"handed_over_p50_s": 0.3, "output_tokens_per_s": 9000.0}, {}),
        # first tokens that come in time, or waits that are the winner's too
        (PD, "ttft_s", {"placed_p90_s": 0.5, "computed_p90_s": 0.4}, {}),
        ({"prefill": use(busy=0.99), "decode": use()}, "ttft_s", {"computed_p90_s": 0.3}, {}),
        (PD, "ttft_s", {"placed_p90_s": 2.0}, {"placed_p90_s": 2.1, "computed_p90_s": 0.2}),
    ],
)  # fmt: skip
def test_what_does_not_break_the_bound_is_no_reason(
    loser: dict[str, RoleUse], bound: str, ours: dict[str, float], theirs: dict[str, float]
) -> None:
    assert told(loser, bound, ours, theirs) == f"A keeps {TOLD[bound]} for 30 % of the requests (B: 100 %); {UNKNOWN}"


def test_a_few_requests_are_explained_by_what_happens_to_a_few() -> None:
    """A tenth of the requests says nothing of a fiftieth; one late token is enough for an answer of fifty."""
    assert "wait 3 s (p99)" in told(PD, "ttft_s", {"placed_p90_s": 0.1, "placed_p99_s": 3.0}, kept=0.98)
    assert UNKNOWN in told(PD, "ttft_s", {"placed_p90_s": 0.1, "placed_p99_s": 3.0})
    assert "300 ms (p99)" in told(PD, "itl_s", {"handed_over_p99_s": 0.3}, kept=0.95)
    assert "< 1 % of the tokens" in told(REPLICAS, "itl_s", {"late_with_prompts": 0.0015}, kept=0.93)


def test_steps_that_are_shorter_than_the_winner_s_are_not_blamed_for_late_tokens() -> None:
    """Replicas with fewer decodes and faster steps, all of them within the bound but for the few with prompts."""
    loser = {"unified": use(count=2, decodes=2, decode_step_s=0.0232, mixed_step_s=0.116, mixed_share=0.0117)}
    winner = {"prefill": use(busy=0.08), "decode": use(decodes=5, decode_step_s=0.0266, mixed_step_s=0.0352)}
    slo = Slo(ttft_s=1.0, itl_s=0.1)
    found = told(loser, "itl_s", {"late_with_prompts": 0.004}, kept=0.933, winner=winner, slo=slo)
    assert found == (
        "A keeps ITL (p99 of a request) ≤ 100 ms for 93 % of the requests (B: 100 %), as prompts share its steps, "
        "where a step with a prompt takes 116 ms on average, one without 23.2 ms, and < 1 % of the tokens come of such "
        "steps longer than 100 ms"
    )
    assert UNKNOWN in told(loser, "itl_s", {}, kept=0.933, winner=winner, slo=slo)


SLOW = Slo(tpot_s=0.05)


def test_a_bound_of_time_per_token_is_explained_by_the_part_that_grew() -> None:
    figures = {"tpot_s.p90": 0.09, "decode_s": 0.03, "prompts_s": 0.06}
    theirs = {"tpot_s.p90": 0.03, "decode_s": 0.03}
    slow = {"unified": use(decode_step_s=0.03, mixed_step_s=0.2)}
    assert "prompts share its steps, where a step with a prompt takes 200 ms" in told(
        slow, "tpot_s", figures, theirs, slo=SLOW
    )
    crowded = {"prefill": use(), "decode": use(decodes=90, decode_step_s=0.09)}
    figures = {"tpot_s.p90": 0.09, "decode_s": 0.09}
    assert "90 at once (B: 52), so that a step takes 90 ms (28 ms)" in told(
        crowded, "tpot_s", figures, theirs, slo=SLOW
    )
    handed = {"tpot_s.p90": 0.09, "handed_over_p50_s": 4.0}
    assert "the hand-off of KV takes 4 s (p50)" in told(PD, "tpot_s", handed, {"tpot_s.p90": 0.02}, slo=SLOW)
    assert UNKNOWN in told(PD, "tpot_s", {"tpot_s.p90": 0.09}, {"tpot_s.p90": 0.02}, slo=SLOW)
    assert UNKNOWN in told(PD, "tpot_s", {"tpot_s.p90": 0.04}, {"tpot_s.p90": 0.02}, slo=SLOW)


def test_a_bound_of_the_whole_answer_is_explained_by_its_largest_part() -> None:
    slo = Slo(e2e_s=3.0)
    late = {"e2e_s.p90": 6.0, "placed_p90_s": 4.0, "decode_s": 0.03}
    assert "requests wait 4 s (p90) for a place" in told(PD, "e2e_s", late, {"e2e_s.p90": 2.0}, slo=slo)
    slow = {"e2e_s.p90": 6.0, "decode_s": 0.1}
    crowded = {"prefill": use(), "decode": use(decodes=90, decode_step_s=0.1)}
    assert "90 at once (B: 52)" in told(crowded, "e2e_s", slow, {"e2e_s.p90": 2.0}, slo=slo)
    assert UNKNOWN in told(PD, "e2e_s", {"e2e_s.p90": 6.0}, {"e2e_s.p90": 2.0}, slo=slo)


def test_bounds_that_both_keep_alike_are_no_reason() -> None:
    assert told(REPLICAS, "itl_s", {"late_with_prompts": 0.9}, kept=1.0).endswith(UNKNOWN)
