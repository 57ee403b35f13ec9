"""Schemas of the table's types: from the types themselves, their fields' notes and the ranges that are checked later.

What is read and what is written may have types of one name; those that are read are then called `Asked…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from baton.services.runtime.setting_texts import comments_of

REF = "#/components/schemas/"
Schema = dict[str, Any]
Narrowing = Mapping[str, Any]  #: keywords by JSON type; `items`, `values` narrow what is inside; `whole` replaces
KIND = {"integer": "number"}


def narrowed(schema: Schema, narrowing: Narrowing) -> Schema:
    """The schema with the keywords for its type; each branch of a union takes those of its own."""
    if "whole" in narrowing:
        return {**narrowing["whole"]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [narrowed(branch, narrowing) for branch in schema["anyOf"]]}
    kind: str = schema.get("type", "")
    result = {**schema, **narrowing.get(KIND.get(kind, kind), {})}
    if kind == "array" and "items" in narrowing:
        result["items"] = narrowed(schema["items"], narrowing["items"])
    if kind == "object" and "values" in narrowing:
        result["additionalProperties"] = narrowed(schema["additionalProperties"], narrowing["values"])
    return result


def structs_of(types: Iterable[Any]) -> dict[type, None]:
    """Every struct within these types, in the order in which they are met."""
    found: dict[type, None] = {}
    waiting = list(types)
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            if one in found:
                continue
            found[one] = None
            waiting += [field.type for field in msgspec.structs.fields(one)]
        waiting += get_args(one)
    return found


def schemas_of(types: Iterable[Any], narrowings: Mapping[type, Mapping[str, Narrowing]]) -> dict[str, Schema]:
    """By name. A field is narrowed as its struct says, and as those say that this inherits from."""
    structs = structs_of(types)
    _, schemas = msgspec.json.schema_components(structs, ref_template=REF + "{name}")
    for struct in structs:
        whole, notes = schemas[struct.__name__], comments_of(struct)
        for name, schema in whole["properties"].items():
            for base in reversed(struct.__mro__):
                narrowing = narrowings.get(base, {}).get(name, {})
                schema = narrowed(schema, narrowing)
                if narrowing.get("optional"):
                    whole["required"].remove(name)
            whole["properties"][name] = {**schema, "description": notes[name]} if name in notes else schema
    return schemas


def components(
    bodies: Iterable[Any], answers: Iterable[Any], narrowings: Mapping[type, Mapping[str, Narrowing]]
) -> dict[str, Schema]:
    """Both, by name."""
    asked, answered = schemas_of(bodies, narrowings), schemas_of(answers, {})
    for name in asked.keys() & answered.keys():
        if asked[name] != answered[name]:
            asked = renamed(asked, name, "Asked" + name)
    return dict(sorted((asked | answered).items()))


def reference(struct: type, schemas: Mapping[str, Schema]) -> Schema:
    """To the schema of a body."""
    asked = "Asked" + struct.__name__
    return {"$ref": REF + (asked if asked in schemas else struct.__name__)}


def renamed(schemas: dict[str, Schema], old: str, new: str) -> dict[str, Schema]:
    """The same with another name for one of them."""
    text = msgspec.json.encode({new if name == old else name: schema for name, schema in schemas.items()})
    pointing = text.replace(f'"{REF}{old}"'.encode(), f'"{REF}{new}"'.encode())
    result: dict[str, Schema] = msgspec.json.decode(pointing)
    result[new]["title"] = new
    return result
