"""What counts as a right answer, and what the answers of several deployments become in the table and on the board."""

from __future__ import annotations

import re

import pytest

from bench.policy import answers
from bench.policy.questions import Question, questions


@pytest.mark.parametrize(
    ("rights", "answer"),
    [
        (("paris",), "The capital of France is Paris."),
        (("paris",), "**PARIS**"),
        (("mexico city",), "It is Mexico\nCity!"),
        (("twenty-four", "24"), "There are twenty four hours in a day."),
        (("close",), 'The opposite is "closed".'),  # another form of the word
        (("bras",), "Brasília"),
        (("a",), 'The first letter is "A".'),
        (("12",), "5+7=12"),
        (("h2o", "h₂o"), "Water is H₂O."),
    ],
)
def test_a_right_answer_is_right_in_whatever_sentence_and_form(rights: tuple[str, ...], answer: str) -> None:
    assert answers.is_right(Question("?", rights), answer)


@pytest.mark.parametrize(
    ("rights", "answer"),
    [
        (("paris",), ""),
        (("paris",), "I do not know."),
        (("rich",), "Ostrich"),  # within another word
        (("mexico city",), "The city is Mexico."),
        (("7", "seven"), "There are 70 days in a week."),  # a number is all of its digits
        (("7",), "There are 17 days in a week."),
        (("a",), "An answer: b."),  # so is a letter
    ],
)
def test_a_wrong_answer_is_not(rights: tuple[str, ...], answer: str) -> None:
    assert not answers.is_right(Question("?", rights), answer)


def test_no_question_gives_its_answer_away() -> None:
    """Two hundred different ones, none of which is answered right by saying the question again."""
    asked = questions()
    assert len({question.text for question in asked}) == 200
    assert [question for question in asked if answers.is_right(question, question.text)] == []


def test_each_deployment_is_compared_with_the_first() -> None:
    report = {
        "off": {"asked": 3, "right": 2, "answers": ["Paris", "Rome", "x"]},
        "on": {"asked": 3, "right": 2, "answers": ["Paris", "Rome.", "x"]},
    }
    (title, columns, rows) = next(iter(answers.tables(report)))
    assert re.search("concurrency 64", title)
    assert columns == ["policies", "right", "asked", "word for word as the first"]
    assert rows == [["off", "2", "3", "3"], ["on", "2", "3", "2"]]
    (line,) = answers.board_lines(report)
    assert (line.question, line.ours, line.peers) == ("answers: right of 3, on", 2.0, {"off": 2.0})
    assert line.ratio == 1.0
