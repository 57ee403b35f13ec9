"""What the output must match, from the fields that say so."""

from __future__ import annotations

from typing import Any, NamedTuple

from baton.services.grammar import sources
from baton.services.grammar.errors import BadGrammar
from baton.services.router.api.bodies import CommonBody, JsonObjectFormat, JsonSchemaFormat
from baton.services.router.api.ranges import at_most
from baton.services.router.config import HttpConfig
from baton.services.router.errors import bad_grammar, invalid
from baton.services.router.http.body import decode_body

GUIDED = ("guided_json", "guided_regex", "guided_choice", "guided_grammar")


class Structure(NamedTuple):
    """A grammar, not yet checked, and the field that it comes from; both empty when any text will do."""

    grammar: str = ""
    param: str = ""


def structure_of(body: CommonBody, config: HttpConfig) -> Structure:
    """What the output must match."""
    given = [name for name in GUIDED if getattr(body, name) is not None]
    if body.response_format is not None and isinstance(body.response_format, (JsonObjectFormat, JsonSchemaFormat)):
        given.append("response_format")
    if not given:
        return Structure()
    if len(given) > 1:
        raise invalid(f"{given[0]} and {given[1]} exclude each other", given[1], "conflict")
    check_goes_with(body, given[0])
    try:
        return Structure(_build(body, given[0], config), given[0])
    except BadGrammar as error:
        raise bad_grammar(str(error), given[0]) from None


def check_goes_with(body: CommonBody, param: str) -> None:
    """A grammar decides where the output ends, so nothing else may keep it from ending."""
    for other in ("ignore_eos", "min_tokens"):
        if getattr(body, other):
            raise invalid(f"{other} does not go with {param}", other, "conflict")


def _build(body: CommonBody, param: str, config: HttpConfig) -> str:
    if body.guided_choice is not None:
        at_most(param, len(body.guided_choice), config.max_guided_choices, "choices")
        return sources.choice(body.guided_choice)
    if body.guided_regex is not None:
        return sources.regex(body.guided_regex)
    if body.guided_grammar is not None:
        return sources.lark(body.guided_grammar)
    schema = _schema(body)
    return sources.json_object() if schema is None else sources.json_schema(schema)


def _schema(body: CommonBody) -> dict[str, Any] | None:
    if isinstance(body.response_format, JsonSchemaFormat):
        return body.response_format.json_schema.schema
    if not isinstance(body.guided_json, str):
        return body.guided_json
    return decode_body(body.guided_json.encode(), dict[str, Any], "guided_json")
