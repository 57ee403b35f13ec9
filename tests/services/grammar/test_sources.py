"""Grammars from what clients ask for: what they let through, what they keep out, what is refused before compiling."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from baton.services.grammar import sources
from baton.services.grammar.errors import BadGrammar
from baton.services.grammar.sources import MAX_WHITESPACE, Alternative
from baton.services.grammar.vocabulary import Vocabulary
from tests.services.grammar.conftest import matches

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("grammar", "inside", "outside"),
    [
        (sources.json_object(), ['{"a":[1,null]}', "{}"], ["[]", "1", '{"a":1', "{} "]),
        (
            sources.json_schema(PERSON),
            ['{"name":"é"}', '{ "name" : "x" , "age" : 3 }'],
            ['{"age":1}', '{"name":"abcdef"}', '{"name":"x","age":-1}'],
        ),
        (sources.json_schema(True), ["[1]", "null"], ["nul"]),
        (sources.regex(r"[a-c]{2}|x/y"), ["ab", "x/y"], ["a", "abc", "xy"]),
        (sources.regex("^ab$"), ["ab"], ["a", "^ab$"]),
        (sources.choice(["yes", 'no "way"\n', "é😀", "yes"]), ["yes", 'no "way"\n', "é😀"], ["ye", "yesyes", ""]),
        (sources.lark('start: "a" B+\nB: /[0-9]/'), ["a1", "a123"], ["a", "b1"]),
        (sources.lark('%llguidance {}\nstart: "::="'), ["::="], [":"]),
        (sources.lark('root ::= "a" digit+\ndigit ::= [0-9]'), ["a1", "a123"], ["a", "b1"]),
    ],
)
def test_a_grammar_lets_through_what_it_should_and_nothing_else(
    vocabulary: Vocabulary, grammar: str, inside: list[str], outside: list[str]
) -> None:
    assert [text for text in inside if not matches(vocabulary, grammar, text)] == []
    assert [text for text in outside if matches(vocabulary, grammar, text)] == []


def test_white_space_inside_json_is_free_but_bounded(vocabulary: Vocabulary) -> None:
    for grammar in (sources.json_object(), sources.tagged_json([Alternative("", {"type": "object"})])):
        assert matches(vocabulary, grammar, "{" + " " * MAX_WHITESPACE + "}")
        assert matches(vocabulary, grammar, json.dumps({"a": [{"b": 1}]}, indent=4))
        assert not matches(vocabulary, grammar, "{" + " " * (MAX_WHITESPACE + 1) + "}")


def test_no_other_spelling_of_a_key_escapes_its_schema(vocabulary: Vocabulary) -> None:
    schema = {"type": "object", "properties": {"x/a": {"type": "string"}, "b\b": {"type": "string"}}}
    grammar = sources.json_schema(schema)
    assert matches(vocabulary, grammar, '{"x/a":"","b\\b":""}')
    for key in ("x/a", "\\u0078/a", "x\\/a", "b\\b", "b\\u0008"):
        assert not matches(vocabulary, grammar, f'{{"{key}":1}}')


def test_options_inside_a_clients_schema_have_no_effect(vocabulary: Vocabulary) -> None:
    options = {"item_separator": ";", "whitespace_pattern": "x*", "lenient": True}
    grammar = sources.json_schema({"type": "array", "items": {"type": "integer"}, "x-guidance": options})
    assert matches(vocabulary, grammar, "[1, 2]")
    assert not matches(vocabulary, grammar, "[1;2]")
    assert not matches(vocabulary, grammar, "[xx1]")


@pytest.mark.parametrize(
    ("max_times", "outside"),
    [(1, ["<t>f1</t><t>g</t>"]), (2, ["<t>f1;gn</t>", "<t>f1,gn,f2</t>"]), (None, ["<t></t>", "<t>f1,</t>"])],
)
def test_tagged_json_repeats_its_alternatives(
    vocabulary: Vocabulary, max_times: int | None, outside: list[str]
) -> None:
    calls = [Alternative("f", {"type": "integer"}), Alternative("g", {"type": "null"}, "!")]
    grammar = sources.tagged_json(calls, before="<t>", after="</t>", separator=",", max_times=max_times)
    texts = ["<t>f1</t>", "<t>gnull!</t>", "<t>f-12,gnull!</t>", "<t>f1,f2,gnull!</t>"]
    inside = [text for text in texts if matches(vocabulary, grammar, text)]
    assert inside == texts[: {1: 2, 2: 3, None: 4}[max_times]]
    assert [text for text in outside if matches(vocabulary, grammar, text)] == []


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "build",
    [
        lambda: sources.choice([]),
        lambda: sources.choice(["\ud800"]),
        lambda: sources.tagged_json([]),
        lambda: sources.json_schema(False),
        lambda: sources.json_schema({"minimum": float("inf")}),
        lambda: sources.json_schema(nested(100_000)),
        lambda: sources.lark("root ::= b"),
        lambda: sources.lark('root ::= "a'),
        lambda: sources.lark("root ::= " + "(" * 20_000),
        lambda: sources.lark('root ::= "a" |' + ' "a" |' * 20_000),
    ],
)
def test_what_cannot_be_a_grammar_is_refused(build: Callable[[], str]) -> None:
    with pytest.raises(BadGrammar):
        build()


@pytest.mark.parametrize("schema", [{"minimum": 10**30}, {"enum": [1, [-(1 << 63) - 1]]}, {"const": 1 << 63}])
def test_a_number_that_the_library_would_cut_off_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadGrammar, match="64 bits"):
        sources.json_schema({"type": "integer", **schema})
    sources.json_schema({"minimum": -(1 << 63), "maximum": (1 << 63) - 1})
