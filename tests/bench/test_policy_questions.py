"""What the questions about policies have in common."""

from __future__ import annotations

import pytest

from bench import policies


def test_x6_what_the_figures_do_not_cover_stands_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    policies.tell("answers", {"off": {"asked": 1, "right": 1, "answers": ["Paris"]}})
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == f"Not covered: {policies.answers.NOT_COVERED}."


@pytest.mark.parametrize("name", policies.QUESTIONS)
def test_x6_every_question_says_what_it_leaves_open(name: str) -> None:
    assert len(policies.QUESTIONS[name].NOT_COVERED.split(", ")) >= 2
