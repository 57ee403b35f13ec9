"""What a client is told of a JSON body that is not of its type: in JSON's words, with the field and what it may be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import msgspec.inspect as mi

from baton.services.router.errors import ApiError, invalid

PLACE = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")  #: last: what stands before may be the client's own words
FIELD = re.compile(r"Object (?:contains|missing) (unknown|required) field `(.*)`", re.DOTALL)
EXPECTED = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
VALUE = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
JSON_WORDS = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}
MAX_VALUE_CHARS = 100  #: of what the client sent


def type_error(text: str, body_type: Any, inside: str = "") -> ApiError:
    """`text`: msgspec's error on a value that should have been of `body_type`, a part of the field `inside`."""
    found = PLACE.search(text)
    path = found[1] if found else ""
    said = text[: found.start()] if found else text
    param = ".".join(filter(None, (inside, path.removesuffix("[...]"))))
    if named := FIELD.fullmatch(said):
        param = f"{param}.{named[2]}" if param else named[2]
        if named[1] == "unknown":
            return invalid(f"{param} is not supported", param, "unsupported_parameter")
        return invalid(f"{param} is missing", param, "invalid_type")
    wrong = EXPECTED.fullmatch(said)
    if wrong and wrong[1] == "null":  # of OpenAI's API, and not served
        return invalid(f"{param} is not supported", param, "unsupported_parameter")
    if wrong:
        said = f"expected {json_words(wrong[1])}, got {json_words(wrong[2])}"
    elif wrong := VALUE.fullmatch(said):
        said = f"{_shortened(wrong[1])} is not allowed"
        if allowed := allowed_values(body_type, path):
            said += f"; it may be {', '.join(map(_constant_text, allowed))}"
    return invalid(f"{param or 'the body'}: {said}", param or None, "invalid_type")


def json_words(types: str) -> str:
    """`int | null` → integer or null."""
    return " or ".join(JSON_WORDS.get(name, name) for name in types.split(" | "))


def allowed_values(body_type: Any, path: str) -> list[Any]:
    """What may stand at a path such as `messages[0].role`, where that is one of a few constants; else empty."""
    here = [mi.type_info(body_type)]
    for step in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        here = [below for kind in here for below in _below(kind, step)]
    return list(dict.fromkeys(value for kind in here for value in _constants(kind)))


def _plain(kind: mi.Type) -> Iterator[mi.Type]:
    """Without what only wraps it."""
    if isinstance(kind, mi.UnionType):
        for one in kind.types:
            yield from _plain(one)
    elif isinstance(kind, mi.Metadata):
        yield from _plain(kind.type)
    else:
        yield kind


def _below(kind: mi.Type, step: str) -> Iterator[mi.Type]:
    for one in _plain(kind):
        if isinstance(one, mi.StructType):
            yield from (field.type for field in one.fields if field.encode_name == step)
            if one.tag_field == step and one.tag is not None:
                yield mi.LiteralType((one.tag,))
        elif isinstance(one, mi.DictType) and step == "[...]":
            yield one.value_type
        elif isinstance(one, mi.ListType | mi.VarTupleType | mi.SetType | mi.FrozenSetType) and step.startswith("["):
            yield one.item_type


def _constants(kind: mi.Type) -> Iterator[Any]:
    for one in _plain(kind):
        if isinstance(one, mi.LiteralType):
            yield from one.values
        elif isinstance(one, mi.EnumType):
            yield from (member.value for member in one.cls)


def _constant_text(value: Any) -> str:
    return repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "…"
