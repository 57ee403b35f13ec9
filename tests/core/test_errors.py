"""Reasons and errors: one code for each cause, numbers that are never reused, stories that say how it came."""

from __future__ import annotations

from baton.core.errors import IllegalTransition, InvariantViolated, Reason, RequestFailed

PUBLISHED = {
    "TOKEN_BUDGET": 1,
    "NO_SLOT": 2,
    "KV_EXHAUSTED": 3,
    "TRANSFER_WINDOW": 4,
    "STAGING": 5,
    "PREFIX_WAIT": 6,
    "HELD": 7,
    "PROTECTED": 8,
    "NO_EXECUTOR": 9,
    "NEVER_FITS": 10,
}


def test_w6_the_reason_codes_of_the_rules_exist_and_keep_their_numbers():
    assert {name: Reason[name].value for name in PUBLISHED} == PUBLISHED
    assert len({reason.value for reason in Reason}) == len(Reason)


def test_a_failed_request_names_its_reason():
    assert str(RequestFailed(Reason.DEADLINE)) == "DEADLINE"
    assert RequestFailed(Reason.DEADLINE, "late").reason is Reason.DEADLINE


def test_an_illegal_move_tells_its_story_and_is_a_bug():
    error = IllegalTransition("OPEN → LANDED", ("OPEN", "SEALED"))
    assert isinstance(error, InvariantViolated)
    assert str(error) == "OPEN → LANDED\n  OPEN\n  SEALED"
