"""Verdicts on grammars: hostile ones are refused at a bounded cost, in a process whose death harms nobody."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baton.core.errors import Incompatible
from baton.services.grammar import sources
from baton.services.grammar.check_process import TOO_MUCH
from baton.services.grammar.checker import Checker
from baton.services.grammar.errors import BadGrammar, CheckerLost

GOOD = [
    sources.json_object(),
    sources.json_schema({"type": "array", "items": {"$ref": "#"}, "maxItems": 3}),
    sources.json_schema({"type": "string", "minLength": 10, "maxLength": 2000}),
    sources.json_schema({"enum": [f"value {index}" for index in range(1000)]}),
    sources.json_schema(
        {
            "type": "object",
            "properties": {f"p{index}": {"type": ["string", "null"]} for index in range(80)},
            "required": [f"p{index}" for index in range(80)],
            "additionalProperties": False,
        }
    ),
    sources.regex("(a{1,1000}){1,1000}"),
    sources.regex(r"(\d{3}-)?\d{4}"),
    sources.choice(["yes", "no"]),
    sources.lark('start: sum\nsum: sum "+" INT | INT\nINT: /[0-9]+/'),
]


def ref_tree(depth: int) -> dict[str, Any]:
    links = {
        f"d{level}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/d{level + 1}"} for key in "ab"}}
        for level in range(depth)
    }
    return {"$defs": {**links, f"d{depth}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


def rule_chain(name: str, length: int, rule: str) -> str:
    rules = "\n".join(name + f"{i}: " + rule.replace("?", f"{name}{i + 1}") for i in range(length))
    return sources.lark(f'start: {name}0\n{rules}\n{name}{length}: "a"')


HOSTILE = {
    "nested repetitions": sources.regex("((a{1,100}){1,100}){1,100}"),
    "a large multiple": sources.json_schema({"type": "integer", "multipleOf": 999_983}),
    "many patterns at once": sources.json_schema(
        {"allOf": [{"type": "string", "pattern": f".*{letter}.*"} for letter in "abcdefghijklmnopqrstuvwxyz"]}
    ),
    "references a thousand deep": sources.json_schema(ref_tree(600)),
    "rules thousands deep": rule_chain("r", 4_000, "?"),
    "terminals thousands deep": rule_chain("R", 4_000, "?"),
    "terminals that double": rule_chain("R", 60, "? ?"),
    "rules that double": rule_chain("r", 1_000, "? ?"),
    "a hundred million items": sources.lark('start: x{100000000}\nx: "a"'),
    "products of alternatives": sources.json_schema(
        {
            "allOf": [
                {"anyOf": [{"properties": {f"p{i}{j}": {"const": j}}, "required": [f"p{i}{j}"]} for j in range(4)]}
                for i in range(10)
            ]
        }
    ),
    "many objects at once": sources.json_schema(
        {"anyOf": [{"type": "object", "properties": {f"q{i}": {"type": "integer"}}} for i in range(1_100)]}
    ),
    "parentheses": sources.lark("start: " + "(" * 30_000 + '"a"' + ")" * 30_000),
    "parentheses in a regular expression": sources.regex("(" * 30_000 + "a" + ")" * 30_000),
    "arrays in arrays": '{"grammars":[{"json_schema":' + '{"items":' * 6000 + "{}" + "}" * 6000 + "}]}",
}


@pytest.fixture(scope="module")
def checker(tiny_folder: Path) -> Iterator[Checker]:
    checker = Checker(tiny_folder)
    yield checker
    checker.close()


@pytest.mark.parametrize("grammar", GOOD)
def test_what_people_ask_for_is_good(checker: Checker, grammar: str) -> None:
    checker.check(grammar)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammars_are_refused_and_the_next_one_is_answered(checker: Checker, name: str) -> None:
    with pytest.raises(BadGrammar):
        checker.check(HOSTILE[name])
    checker.check(GOOD[0])


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        (sources.regex("a(?=b)"), "look-ahead"),
        (sources.regex("(a"), "unclosed group"),
        (sources.lark("start: b"), "b"),
        (sources.lark("start: a\na: a"), "no text"),
        (sources.lark('start: "a" <|nobody|>'), "unknown special token"),
        (sources.json_schema({"type": "array", "contains": {}}), "contains"),
        (sources.json_schema({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "oneOf"),
        (sources.json_schema({"type": "string", "enum": ["abc"], "maxLength": 2}), "maxLength|length"),
        (sources.json_schema({"$ref": "#"}), "no text"),
        (sources.json_schema({"enum": ["\x01"]}), "."),
        ("", "."),
        ("{", "."),
    ],
)
def test_a_bad_grammar_says_what_is_wrong_with_it(checker: Checker, grammar: str, message: str) -> None:
    with pytest.raises(BadGrammar, match=message) as caught:
        checker.check(grammar)
    assert 0 < len(str(caught.value)) <= 400


def test_verdicts_are_remembered_good_and_bad(tiny_folder: Path) -> None:
    checker = Checker(tiny_folder, num_verdicts=2)
    bad = sources.regex("(")
    for _ in range(3):
        checker.check(GOOD[0])
        with pytest.raises(BadGrammar):
            checker.check(bad)
    assert checker.num_checked == 2
    checker.check(GOOD[1])  # the older of the two is forgotten
    with pytest.raises(BadGrammar):
        checker.check(bad)
    assert checker.num_checked == 3
    checker.check(GOOD[0])
    assert checker.num_checked == 4
    checker.close()


def test_a_grammar_that_is_too_long_is_not_even_asked_for(tiny_folder: Path) -> None:
    checker = Checker(tiny_folder, max_bytes=50)
    with pytest.raises(BadGrammar, match="at most 50"):
        checker.check(sources.choice(["a" * 50]))
    assert checker.num_checked == 0
    checker.close()


def test_work_beyond_the_cpu_bound_ends_the_check_and_nothing_else(tiny_folder: Path) -> None:
    checker = Checker(tiny_folder, max_cpu_s=1e-6)
    with pytest.raises(BadGrammar, match=TOO_MUCH):
        checker.check(HOSTILE["a large multiple"])
    checker.close()


def test_a_model_without_a_usable_tokenizer_is_told_so_each_time(tmp_path: Path) -> None:
    checker = Checker(tmp_path)
    for _ in range(2):
        with pytest.raises(Incompatible, match="no model folder"):
            checker.check(GOOD[0])
    checker.close()


def test_a_lost_process_is_told_and_replaced(tiny_folder: Path) -> None:
    checker = Checker(tiny_folder)
    checker.check(GOOD[0])
    process = checker._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(CheckerLost):
        checker.check(GOOD[1])
    checker.check(GOOD[1])
    checker.close()
    checker.close()


def test_the_process_ends_with_the_one_that_asks(tiny_folder: Path) -> None:
    checker = Checker(tiny_folder)
    checker.check(GOOD[0])
    process = checker._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()  # as the system does when the asking process dies
    assert process.wait() == 0
    checker.close()
