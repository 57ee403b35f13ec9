"""Which types a schema allows, and what a bare value then is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.tools.schema_types import bare_value_json, property_types
from tests.services.router.tools.outputs import values


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"anyOf": [{"type": "integer"}, {"oneOf": [{"type": "null"}]}]}, {"integer", "null"}),
        ({"$ref": "#/$defs/Place"}, {"object"}),
        ({"$ref": "#/$defs/Loop"}, {"string"}),
        ({"$ref": "https://example.org/x"}, {"string"}),
        ({"$ref": 1}, {"string"}),
        ({"enum": ["a", 1, True, None]}, {"string", "number", "boolean", "null"}),
        ({"const": []}, {"array"}),
        ({"properties": {}}, {"object"}),
        ({"items": {}}, {"array"}),
        ({}, {"string"}),
        (True, {"string"}),
        ({"type": [1]}, {"string"}),
        ({"anyOf": 3, "enum": 4}, {"string"}),
    ],
)
def test_types(schema: Any, expected: set[str]) -> None:
    definitions = {"Place": {"type": "object"}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}] * 9}}
    root = {"properties": {"x": schema}, "$defs": definitions}
    assert property_types(root) == {"x": expected}


@given(values(st.text(max_size=3)))
def test_no_schema_raises(schema: Any) -> None:
    root = {"properties": {"x": schema}}
    assert property_types(root)["x"]
    property_types(schema)


@pytest.mark.parametrize(
    ("value", "types", "expected"),
    [
        (" 12 ", {"integer"}, 12),
        ("True", {"boolean"}, True),
        ("None", {"integer", "null"}, None),
        ("None", {"integer"}, "None"),
        ("twelve", {"integer"}, "twelve"),
        ("[1, {}]", {"array"}, [1, {}]),
        ("NaN", {"number"}, "NaN"),
        ("", {"object"}, ""),
    ],
)
def test_bare_values(value: str, types: set[str], expected: Any) -> None:
    assert json.loads(bare_value_json(value, frozenset(types))) == expected
