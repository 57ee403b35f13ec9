"""Grammars as the library reads them, built from what clients ask for. Pure; whether one compiles is for the checker.

Each function returns JSON text for `SamplingParams.grammar` and raises BadGrammar for what can be seen to be wrong
without compiling. White space between the tokens of JSON is free, up to `MAX_WHITESPACE` characters in each place, so
that no model can go on with white space for ever.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import gbnf_to_lark

from baton.services.grammar.errors import BadGrammar

MAX_WHITESPACE = 32
MAX_GBNF_BYTES = 65536  #: converted in Python, before any check
MAX_INT = 1 << 63
GBNF_RULE = re.compile(r"\s*[\w-]+\s*::=")
GUIDANCE_KEY = "x-guidance"  #: where the library looks for options inside a schema

#: strict JSON whose keywords are all understood; an approximation would let invalid answers pass
JSON_OPTIONS: dict[str, Any] = {
    "whitespace_pattern": rf"[ \n\r\t]{{0,{MAX_WHITESPACE}}}",
    "item_separator": ",",
    "key_separator": ":",
    "json_allowed_escapes": '"\\bfnrt',  # one spelling for each character: "\u0061" would pass for another key than "a"
    "lenient": False,
    "coerce_one_of": False,
}


class Alternative(NamedTuple):
    """One way to fill a place of `tagged_json`: fixed text, a value of the schema, fixed text."""

    opening: str
    schema: dict[str, Any]
    closing: str = ""


def json_object() -> str:
    """Any JSON object."""
    return json_schema({"type": "object"})


def json_schema(schema: dict[str, Any] | bool) -> str:
    """JSON that is valid under the schema."""
    return _dump({"grammars": [{"json_schema": _guided(schema)}]})


def regex(pattern: str) -> str:
    """Text that the regular expression matches as a whole (no look-around, no backreferences)."""
    return LLMatcher.grammar_from_regex(_text(pattern, "regular expression"))


def choice(options: Sequence[str]) -> str:
    """Exactly one of the strings."""
    if not options:
        raise BadGrammar("there is nothing to choose from")
    texts = dict.fromkeys(_text(option, "choice") for option in options)
    return _lark("start: CHOICE\nCHOICE: " + " | ".join(map(_literal, texts)))


def lark(text: str) -> str:
    """A grammar in the library's dialect of Lark, as it is, which begins at the rule `start`; or one of
    `name ::= …` rules (GBNF), which begins at `root`.
    """
    _text(text, "grammar")
    is_gbnf = any(GBNF_RULE.match(line) for line in text.splitlines())
    return _gbnf(text) if is_gbnf else _lark(text)


def _gbnf(text: str) -> str:
    if len(text.encode()) > MAX_GBNF_BYTES:
        raise BadGrammar(f"the grammar is longer than {MAX_GBNF_BYTES} bytes")
    try:
        return _lark(gbnf_to_lark(text))
    except RecursionError as error:
        raise BadGrammar("the grammar is too deeply nested") from error
    except Exception as error:  # the converter's own class, or this one itself
        raise BadGrammar(f"the grammar cannot be read: {error}") from error


def tagged_json(
    alternatives: Sequence[Alternative],
    *,
    before: str = "",
    after: str = "",
    separator: str = "",
    max_times: int | None = 1,
) -> str:
    """`before`, then 1 … `max_times` alternatives (None: any number) with `separator` between, then `after`."""
    if not alternatives:
        raise BadGrammar("there is nothing to choose from")
    more = "*" if max_times is None else f"{{0,{max_times - 1}}}"
    repeated = "" if max_times == 1 else f" ({_optional(separator)} item){more}"
    rules = [f"start: {_optional(before)} item{repeated} {_optional(after)}"]
    rules.append("item: " + " | ".join(f"item_{index}" for index in range(len(alternatives))))
    for index, (opening, schema, closing) in enumerate(alternatives):
        rules.append(f"item_{index}: {_optional(opening)} %json {_dump(_guided(schema))} {_optional(closing)}")
    return _lark("\n".join(rules))


def _guided(schema: dict[str, Any] | bool) -> dict[str, Any]:
    """The schema with our options, whatever options it brings."""
    if schema is False:
        raise BadGrammar("nothing is valid under the schema")
    if schema is not True and not isinstance(schema, dict):
        raise BadGrammar("the schema is not a JSON object")
    if _has_huge_number(schema):
        raise BadGrammar("the schema holds a whole number of more than 64 bits")
    return {**({} if schema is True else schema), GUIDANCE_KEY: JSON_OPTIONS}


def _has_huge_number(value: Any) -> bool:
    """Whether there is one that the library would round or cut off without a word."""
    pending = [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, dict):
            pending.extend(inner.values())
        elif isinstance(inner, list):
            pending.extend(inner)
        elif isinstance(inner, int) and not -MAX_INT <= inner < MAX_INT:
            return True
    return False


def _lark(text: str) -> str:
    return _dump({"grammars": [{"lark_grammar": text}]})


def _dump(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise BadGrammar("the schema is too deeply nested") from error
    except (TypeError, ValueError) as error:
        raise BadGrammar(f"the schema is not JSON: {error}") from error


def _text(text: str, what: str) -> str:
    if not isinstance(text, str):
        raise BadGrammar(f"a {what} is text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadGrammar(f"the {what} has characters that cannot be written as UTF-8") from error
    return text


def _literal(text: str) -> str:
    """As a string of Lark, whose escapes are those of JSON."""
    return json.dumps(_text(text, "text"), ensure_ascii=False)


def _optional(text: str) -> str:
    return _literal(text) if text else ""
