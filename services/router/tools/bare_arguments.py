"""Grammar rules for arguments that are not written as one JSON object: one after the other, in the schema's order.

Members that the schema does not list cannot be written. Of the schema of a string that stands bare only `enum` counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from baton.services.grammar.errors import BadGrammar
from baton.services.grammar.sources import GUIDANCE_KEY, JSON_OPTIONS
from baton.services.router.tools.schema_types import property_types

XML_KEY = re.compile(r'[^<>\n"]+')
PYTHON_KEY = re.compile(r"[A-Za-z0-9_]+")
END_VALUE = "</parameter>"
CLOSING = json.dumps(f"\n{END_VALUE}\n")
EMPTY = '""'  #: a rule that nothing is needed for
MAX_REPEATED_CHARS = 1 << 20  #: of the definitions, which are written out for each parameter


class Parameter(NamedTuple):
    key: str
    schema: dict[str, Any]  #: with the definitions that it may refer to
    is_text: bool  #: written bare in XML
    is_required: bool


def _parameters(schema: dict[str, Any], writable: re.Pattern[str]) -> Iterator[Parameter]:
    """Those that can be written. BadGrammar if a required one cannot."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadGrammar("properties must be an object and required a list")
    needed = {key for key in required if isinstance(key, str)}
    missing = sorted(key for key in needed if key not in properties or not writable.fullmatch(key))
    if missing:
        raise BadGrammar(f"the required parameter {missing[0]!r} cannot be written in this model's notation")
    definitions: dict[str, Any] = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    if definitions and len(_json_value(definitions)) * len(properties) > MAX_REPEATED_CHARS:
        raise BadGrammar("there are too many parameters for so large definitions")
    for key, types in property_types(schema).items():
        if writable.fullmatch(key):
            inner = properties[key] if isinstance(properties[key], dict) else {}
            yield Parameter(key, {**definitions, **inner}, "string" in types, key in needed)


def _json_value(schema: dict[str, Any]) -> str:
    try:
        return "%json " + json.dumps({**schema, GUIDANCE_KEY: JSON_OPTIONS}, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise BadGrammar(f"the schema is not JSON: {error}") from error


def xml_arguments(rule: str, schema: dict[str, Any]) -> list[str]:
    """`<parameter=KEY>\\nVALUE\\n</parameter>\\n` for each parameter."""
    rules, names = [], []
    for number, parameter in enumerate(_parameters(schema, XML_KEY)):
        name = f"{rule}_{number}"
        names.append(name if parameter.is_required else f"{name}?")
        opening = json.dumps(f"<parameter={parameter.key}>\n", ensure_ascii=False)
        allowed = parameter.schema.get("enum")
        texts = [text for text in allowed if isinstance(text, str)] if isinstance(allowed, list) else []
        if parameter.is_text and not texts:
            rules.append(f'{name}: {opening} {name}_text "\\n"')
            rules.append(f"{name}_text[suffix={json.dumps(END_VALUE)}]: /(.|\\n)*/")
            continue
        value = " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
        value = f"({value})" if parameter.is_text else _json_value(parameter.schema)
        rules.append(f"{name}: {opening} {value} {CLOSING}")
    return [f"{rule}: {' '.join(names) or EMPTY}", *rules]


def python_arguments(rule: str, schema: dict[str, Any]) -> list[str]:
    """`key=value` with commas between; values are JSON, which the parser of Python's notation reads too."""
    parameters = sorted(_parameters(schema, PYTHON_KEY), key=lambda parameter: not parameter.is_required)
    rules = []
    firsts: list[str] = []  #: what may begin the list
    for number, parameter in enumerate(parameters):
        value = f"{rule}_{number}"
        rules.append(f'{value}: "{parameter.key}=" {_json_value(parameter.schema)}')
        optional = "" if parameter.is_required else "?"
        rules.append(f'{value}_rest: (", " {value}){optional} {_rest_after(rule, number, len(parameters))}')
        if number == 0 or not parameters[0].is_required:
            firsts.append(f"{value} {_rest_after(rule, number, len(parameters))}")
    if not parameters or not parameters[0].is_required:
        firsts.append(EMPTY)
    return [f"{rule}: {' | '.join(firsts)}", *rules]


def _rest_after(rule: str, number: int, num_parameters: int) -> str:
    """The rule for what follows a parameter; none follows the last."""
    return f"{rule}_{number + 1}_rest" if number + 1 < num_parameters else ""
