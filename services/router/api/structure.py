"""What the output must match, from the fields that say so."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

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


def check_size(sent: Any, config: HttpConfig, what: str) -> None:
    """BadGrammar where there is more than a client may send: bytes of texts in UTF-8, or of anything else as JSON."""
    texts = [sent] if isinstance(sent, str) else sent if isinstance(sent, list) else None
    if texts is None:
        num_bytes, unit = len(msgspec.json.encode(sent)), "bytes as JSON"
    else:
        num_bytes, unit = sum(len(text.encode(errors="surrogatepass")) for text in texts), "bytes"
    if num_bytes > config.max_grammar_bytes:
        raise BadGrammar(f"{what} has {num_bytes} {unit}, the limit is {config.max_grammar_bytes}")


def _build(body: CommonBody, param: str, config: HttpConfig) -> str:
    if body.guided_choice is not None:
        at_most(param, len(body.guided_choice), config.max_guided_choices, "choices")
        check_size(body.guided_choice, config, "it")
        return sources.choice(body.guided_choice)
    if body.guided_regex is not None:
        check_size(body.guided_regex, config, "it")
        return sources.regex(body.guided_regex)
    if body.guided_grammar is not None:
        check_size(body.guided_grammar, config, "it")
        return sources.lark(body.guided_grammar)
    schema = _schema(body, config)
    return sources.json_object() if schema is None else sources.json_schema(schema)


def _schema(body: CommonBody, config: HttpConfig) -> dict[str, Any] | None:
    """None: any object."""
    wanted = body.response_format
    schema = wanted.json_schema.schema if isinstance(wanted, JsonSchemaFormat) else body.guided_json
    if schema is None:
        return None
    check_size(schema, config, "the schema")
    return decode_body(schema.encode(), dict[str, Any], "guided_json") if isinstance(schema, str) else schema
