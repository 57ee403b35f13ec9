"""Which JSON types a schema lets a value have: formats that write values bare need it to tell `"1"` from `1`."""

from __future__ import annotations

import json
from typing import Any

from baton.services.router.tools.json_scan import SPACE, is_json

MAX_SCHEMAS = 32  #: that are looked at for one property, its alternatives and references included
BARE_WORDS = {"true": ("boolean", "true"), "false": ("boolean", "false"), "null": ("null", "null")}
BARE_WORDS["none"] = BARE_WORDS["null"]  #: as Python spells it
STRING = frozenset({"string"})


def property_types(parameters: Any) -> dict[str, frozenset[str]]:
    """The types of each property of an arguments' schema. Whatever cannot be understood counts as a string."""
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {key: _schema_types(schema, parameters) or STRING for key, schema in properties.items()}


def _schema_types(schema: Any, root: dict[str, Any]) -> frozenset[str]:
    """Names of JSON types; empty if the schema does not say. References are found in `root` and may be circular."""
    types: set[str] = set()
    unread = [schema]
    for _ in range(MAX_SCHEMAS):
        if not unread:
            break
        one = unread.pop()
        if not isinstance(one, dict):
            continue
        stated = one.get("type")
        if stated is not None:
            types.update(name for name in (stated if isinstance(stated, list) else [stated]) if isinstance(name, str))
            continue
        alternatives = [one[key] for key in ("anyOf", "oneOf", "allOf") if isinstance(one.get(key), list)]
        unread += [other for several in alternatives for other in several[:MAX_SCHEMAS]]
        unread += [_referred(one["$ref"], root)] if "$ref" in one else []
        types |= _implied(one)
    return frozenset(types)


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
