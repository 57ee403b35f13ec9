"""Each notation: calls come out as they were written, and what is around and between them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.parsers import new_parser
from tests.services.router.tools.outputs import CUTS, Call, Parsed, collected, pieces_of, read
from tests.services.router.tools.written import CALLS, TEXTS, WRITTEN, Calls, write_llama, write_python, write_xml

JSON_TYPES = {type(None): "null", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


@given(WRITTEN, CALLS, CUTS, st.sampled_from(["", "well: ", "\n"]), st.sampled_from(["", "\n", " \n "]))
def test_what_was_written_is_read(
    written: tuple[ToolFormat, Callable[[Calls], str]], calls: Calls, cuts: list[int], before: str, after: str
) -> None:
    tool_format, write = written
    if write in (write_llama, write_python):
        before = before.strip("wel: ")  # such calls are the whole output
    if write is write_xml:
        #: one function for each call, since types are a function's
        calls = [(f"f{index}", arguments) for index, (_, arguments) in enumerate(calls)]
    schemas = {
        name: {"properties": {key: {"type": JSON_TYPES.get(type(value), "string")} for key, value in arguments.items()}}
        for name, arguments in calls
    }
    parser = new_parser(tool_format, schemas)
    events = [event for piece in pieces_of(before + write(calls) + after, cuts) for event in parser.push(piece)]
    parsed = collected(events + parser.finish())
    assert parsed.text == before.removeprefix("\n")
    assert [(call.name, json.loads(call.arguments)) for call in parsed.calls] == calls
    assert all(call.is_complete for call in parsed.calls)


@given(TEXTS)
def test_json_arguments_are_the_models_own_text(value: str) -> None:
    arguments = f'{{ "a":{json.dumps(value)},\n"b" : [ 1e3 ]}}'
    assert read("hermes", f'<tool_call>{{"name":"f","arguments" : {arguments} }}').calls == [Call("f", arguments, True)]


def call(arguments: str, name: str = "f", is_complete: bool = True) -> Call:
    return Call(name, arguments, is_complete)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('<tool_call>{"name": "f"}</tool_call>', Parsed("", [call("{}")])),
        ('<tool_call>{"arguments": {"a": 1}, "name": "f"}', Parsed("", [call('{"a": 1}')])),
        ('<tool_call>{"name": "f", "parameters": {}, "name": "g", "arguments": {"x": 1}}', Parsed("", [call("{}")])),
        ('<tool_call>{"arguments": {"a": 1}, "arguments": {}, "name": "f"}', Parsed("", [call('{"a": 1}')])),
        ('<tool_call>{"name": "f", "name": "g", "arguments": {}}', Parsed("", [call("{}")])),
        ('a\n<tool_call>{"name": "f"}</tool_call>\n b', Parsed("a\n\n b", [call("{}")])),
        ('<tool_call>\n<tool_call>{"name": "f"}', Parsed("<tool_call>\n", [call("{}")])),
        ("</tool_call> <tool_call", Parsed("</tool_call> <tool_call", [])),
        ('<tool_call>{"name": "f", "arguments": "{}"}', Parsed('<tool_call>{"name": "f", "arguments": "{}"}', [])),
        ('<tool_call>{"name": "f", "arguments": [1]}', Parsed('<tool_call>{"name": "f", "arguments": [1]}', [])),
        ('<tool_call>{"name": "", "arguments": {}}', Parsed('<tool_call>{"name": "", "arguments": {}}', [])),
        ('<tool_call>{"name": "\\ud800"}', Parsed('<tool_call>{"name": "\\ud800"}', [])),
        ("<tool_call>[]</tool_call>", Parsed("<tool_call>[]</tool_call>", [])),
        # broken in the middle of the arguments, by a character and by the end
        (
            '<tool_call>{"name": "f", "arguments": {"a": 1,} x<tool_call>{"name": "g"}',
            Parsed("} x", [call('{"a": 1,', is_complete=False), call("{}", "g")]),
        ),
        ('<tool_call>{"name": "f", "arguments": {"a": "x', Parsed("", [call('{"a": "x', is_complete=False)])),
        # broken before and behind them
        ('<tool_call>{"name": "f", "argu', Parsed('<tool_call>{"name": "f", "argu', [])),
        ('<tool_call>{"name": "f", "arguments": {}, "id', Parsed("", [call("{}")])),
        ('<tool_call>{"name": "f", "arguments": {}, 7', Parsed(", 7", [call("{}")])),
        ('<tool_call>{"name": "f", "arguments": {}}}', Parsed("}", [call("{}")])),
        ('<tool_call>{"name": "f", "arguments": {}}\n</tool_c', Parsed("\n</tool_c", [call("{}")])),
    ],
)
def test_hermes(output: str, expected: Parsed) -> None:
    assert read("hermes", output) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('{"name": "f", "parameters": {}}\n{"name": "g", "arguments": {}}', Parsed("", [call("{}"), call("{}", "g")])),
        ('<|python_tag|>{"name": "f", "parameters": {}};', Parsed("", [call("{}")])),
        ('one: <|python_tag|>{"name": "f", "parameters": {}}; two', Parsed("one: ; two", [call("{}")])),
        ('one: {"name": "f", "parameters": {}}', Parsed('one: {"name": "f", "parameters": {}}', [])),
        ('{"name": "Bob", "age": 3}', Parsed('{"name": "Bob", "age": 3}', [])),
        ("<|python_tag|>print(1)", Parsed("<|python_tag|>print(1)", [])),
    ],
)
def test_llama3_json(output: str, expected: Parsed) -> None:
    assert read("llama3_json", output) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('[TOOL_CALLS]f{"a": 1}', Parsed("", [call('{"a": 1}')])),
        ("[TOOL_CALLS]f[CALL_ID]x{}", Parsed("", [call("{}")])),
        ("[TOOL_CALLS]f[ARGS][]", Parsed("[TOOL_CALLS]f[ARGS][]", [])),
        ("[TOOL_CALLS]f[1]", Parsed("[TOOL_CALLS]f[1]", [])),
        ("[TOOL_CALLS][]", Parsed("[TOOL_CALLS][]", [])),
        ('[TOOL_CALLS][{"name": "f", "arguments": {}}, ', Parsed("", [call("{}")])),
        ('[TOOL_CALLS][{"name": "f", "arguments": {}}, x', Parsed(", x", [call("{}")])),
    ],
)
def test_mistral(output: str, expected: Parsed) -> None:
    assert read("mistral", output) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("<function=f></function>", Parsed("", [call("{}")])),
        ("<function=h>\n<parameter=a>12</parameter></function>", Parsed("", [call('{"a": "12"}', "h")])),
        ("<function=f><parameter=a>\n12\n</parameter>\n</function>\n</tool_call>", Parsed("", [call('{"a": 12}')])),
        ("<function=f><parameter=a>twelve</parameter></function>", Parsed("", [call('{"a": "twelve"}')])),
        ("<function=f><parameter=c>\nNone\n</parameter></function>", Parsed("", [call('{"c": null}')])),
        (
            "<function=f><parameter=b>\n\n x\n</para\n\n</parameter></function>",
            Parsed("", [call('{"b": "\\n x\\n</para\\n"}')]),
        ),
        ("<tool_call>\n<function=>", Parsed("<tool_call>\n<function=>", [])),
        ("<tool_call>\n{}", Parsed("<tool_call>\n{}", [])),
        ("<function=f>\n<parameter=b>x", Parsed("", [call('{"b": "x', is_complete=False)])),
        ("<function=f>\n<parameter=a>\n12", Parsed("\n12", [call('{"a": ', is_complete=False)])),
        ("<function=f>\n<parameter=b>x</parameter>y", Parsed("y", [call('{"b": "x"', is_complete=False)])),
        (
            "<function=f><parameter=a>1</parameter><parameter=a>2</parameter>",
            Parsed("<parameter=a>2</parameter>", [call('{"a": 1', is_complete=False)]),
        ),
    ],
)
def test_qwen3_coder(output: str, expected: Parsed) -> None:
    assert read("qwen3_coder", output) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (" [ a.b ( x = [1, ], ) ]\n", Parsed("", [call('{"x": [1]}', "a.b")])),
        ("<|python_start|>[f()]<|python_end|> done", Parsed(" done", [call("{}")])),
        ("[f(x)]", Parsed("[f(x)]", [])),
        ("[f(x==1)]", Parsed("[f(x==1)]", [])),
        ("[1, 2]", Parsed("[1, 2]", [])),
        ("so [f()]", Parsed("so [f()]", [])),
        ("[f(x=1, 2)]", Parsed(", 2)]", [call('{"x": 1', is_complete=False)])),
        ("[f(x=1, x=2)]", Parsed(", x=2)]", [call('{"x": 1', is_complete=False)])),
        ("[f(x=nope)]", Parsed("nope)]", [call('{"x": ', is_complete=False)])),
        ("[f(x='\\u12", Parsed("\\u12", [call('{"x": "', is_complete=False)])),
        ("[f(), g(x=12", Parsed("12", [call("{}"), call('{"x": ', "g", False)])),
        ("[f(), g", Parsed(", g", [call("{}")])),
        ("[f(), ", Parsed("", [call("{}")])),
    ],
)
def test_pythonic(output: str, expected: Parsed) -> None:
    assert read("pythonic", output) == expected
