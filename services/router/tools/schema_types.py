"""Which JSON types a schema lets a value have: formats that write values bare need it to tell `"1"` from `1`."""

from __future__ import annotations

import json
from typing import Any

from baton.services.router.tools.json_scan import SPACE, is_json

MAX_SCHEMAS = 32  #: that are looked at for one property, its alternatives and references included
BARE_WORDS = {"true": ("boolean", "true"), "false": ("boolean", "false"), "null": ("null", "null")}
BARE_WORDS["none"] = BARE_WORDS["null"]  #: as Python spells it
STRING = frozenset({"string"})
NAMES = ("string", "number", "integer", "boolean", "null", "object", "array")


def property_types(parameters: Any) -> dict[str, frozenset[str]]:
    """The types of each property of an arguments' schema. Whatever cannot be understood counts as a string."""
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(properties, dict):
        return {}
    reader = _Reader(parameters)
    return {key: reader.types(schema) or STRING for key, schema in properties.items()}


class _Reader:
    """Reads each part of a schema once, however many references lead there."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._read: dict[int, tuple[set[str], list[Any]]] = {}  #: by the identity of a part, which the root keeps

    def types(self, schema: Any) -> frozenset[str]:
        """Names of JSON types; empty if the schema does not say. References may be circular."""
        types: set[str] = set()
        unread = [schema]
        for _ in range(MAX_SCHEMAS):
            if not unread:
                break
            one = unread.pop()
            if not isinstance(one, dict):
                continue
            if id(one) not in self._read:
                self._read[id(one)] = _part(one, self._root)
            found, others = self._read[id(one)]
            types |= found
            unread += others
        return frozenset(types)


def _part(schema: dict[str, Any], root: dict[str, Any]) -> tuple[set[str], list[Any]]:
    """Types that it has by itself, and the schemas that say more."""
    stated = schema.get("type")
    if stated is not None:
        return {name for name in (stated if isinstance(stated, list) else [stated]) if name in NAMES}, []
    alternatives = [schema[key] for key in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(key), list)]
    others = [other for several in alternatives for other in several[:MAX_SCHEMAS]]
    others += [_referred(schema["$ref"], root)] if "$ref" in schema else []
    return _implied(schema), others


def _referred(reference: Any, root: dict[str, Any]) -> Any:
    """What a reference within the same schema, such as `#/$defs/Place`, points to; None for any other."""
    found: Any = root
    path = reference.split("/") if isinstance(reference, str) else [""]
    for key in path[1:]:
        found = found.get(key) if isinstance(found, dict) else None
    return found if path[0] == "#" else None


def _implied(schema: dict[str, Any]) -> set[str]:
    """Types of a schema that names values or parts instead of a type."""
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    names = {bool: "boolean", int: "number", float: "number", str: "string", dict: "object", list: "array"}
    types = {names.get(type(value), "null") for value in values}
    types |= {"object"} if "properties" in schema else {"array"} if "items" in schema else set()
    return types


def bare_value_json(value: str, types: frozenset[str]) -> str:
    """JSON of a value that a model wrote bare and whose schema has these types, `string` not among them.

    What is JSON, or a word in Python's spelling that the types allow, stands for itself; anything else is a string.
    """
    stripped = value.strip(SPACE)
    word_type, word = BARE_WORDS.get(stripped.lower(), ("", ""))
    if word_type in types:
        return word
    return stripped if is_json(stripped) else json.dumps(value, ensure_ascii=False)
