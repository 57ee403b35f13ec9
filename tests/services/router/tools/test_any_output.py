"""Whatever the model writes, and however it is cut: the same events, nothing raised, nothing lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import InvariantViolated
from baton.services.router.tools.call_object import JsonCallParser
from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.events import ArgumentsDelta, CallBegun, CallEnded, TextDelta
from baton.services.router.tools.hermes import HermesParser
from baton.services.router.tools.llama3_json import Llama3JsonParser
from baton.services.router.tools.markers import Markers
from baton.services.router.tools.mistral import MistralParser
from baton.services.router.tools.parsers import new_parser
from baton.services.router.tools.stream import Reading
from tests.services.router.tools.outputs import CUTS, FRAGMENTS, is_object, parse, pieces_of, read, soups
from tests.services.router.tools.written import broken_outputs

JSON_PARSERS: dict[ToolFormat, type[JsonCallParser]] = {
    "hermes": HermesParser,
    "llama3_json": Llama3JsonParser,
    "mistral": MistralParser,
}
OUTPUTS = broken_outputs() | st.sampled_from(sorted(FRAGMENTS)).flatmap(
    lambda name: st.tuples(st.just(name), soups(name))
)


@given(OUTPUTS, CUTS)
def test_events_do_not_depend_on_the_cuts(output: tuple[ToolFormat, str], cuts: list[int]) -> None:
    tool_format, text = output
    whole = parse(tool_format, [text])
    assert parse(tool_format, pieces_of(text, cuts)) == whole
    assert parse(tool_format, list(text)) == whole


@given(OUTPUTS)
def test_a_call_is_complete_exactly_if_its_arguments_are_an_object(output: tuple[ToolFormat, str]) -> None:
    for call in read(*output).calls:
        assert call.name
        assert call.is_complete is is_object(call.arguments)


@given(OUTPUTS)
def test_an_output_without_calls_is_text_verbatim(output: tuple[ToolFormat, str]) -> None:
    parsed = read(*output)
    if not parsed.calls:
        assert parsed.text == output[1]


@given(OUTPUTS.filter(lambda output: output[0] in JSON_PARSERS), CUTS)
def test_every_character_becomes_text_or_arguments_or_is_dropped_as_markup(
    output: tuple[ToolFormat, str], cuts: list[int]
) -> None:
    tool_format, text = output
    told: list[str] = []

    class Recording(JSON_PARSERS[tool_format]):  # type: ignore[misc]
        """Notes each character once, where the parser leaves it."""

        def drop(self) -> None:
            told.append("".join(self._held))
            super().drop()

        def give_up(self, is_markup_at_end: bool = False) -> None:
            told.append("".join(self._held))
            super().give_up(is_markup_at_end)

        def plain(self, markers: Markers, give: Callable[[str], None]) -> Reading[str]:
            return (yield from super().plain(markers, noting(give)))

        def json_value(self, give: Callable[[str], None]) -> Reading[bool]:
            return (yield from super().json_value(noting(give) if give == self.arguments else give))

    def noting(give: Callable[[str], None]) -> Callable[[str], None]:
        def note(piece: str) -> None:
            told.append(piece)
            give(piece)

        return note

    parser = Recording()
    for piece in pieces_of(text, cuts):
        parser.push(piece)
    parser.finish()
    assert "".join(told) == text


BEGINNINGS: dict[ToolFormat, tuple[str, ...]] = {
    "hermes": ("<tool_call>",),
    "llama3_json": ("<|python_tag|>",),
    "mistral": ("[TOOL_CALLS]",),
    "qwen3_coder": ("<tool_call>", "<function="),
    "pythonic": ("<|python_start|>",),
}
PROSE = st.lists(st.sampled_from(["<", "<to", "<tool_call", "<func", "<|", "<|py", "[T", "[TOOL_CALLS", " ", "a", "é"]))


@given(st.sampled_from(sorted(BEGINNINGS)), PROSE)
def test_only_what_may_begin_a_call_is_held_back(tool_format: ToolFormat, pieces: list[str]) -> None:
    parser = new_parser(tool_format, {})
    read, given_text = "a", "".join(event.text for event in parser.push("a") if isinstance(event, TextDelta))
    for piece in pieces:
        read += piece
        if any(marker in read for marker in BEGINNINGS[tool_format]):
            return
        given_text += "".join(event.text for event in parser.push(piece) if isinstance(event, TextDelta))
        beginnings = [marker[:length] for marker in BEGINNINGS[tool_format] for length in range(len(marker))]
        num_held = max(len(beginning) for beginning in beginnings if read.endswith(beginning))
        assert given_text == read[: len(read) - num_held]


@pytest.mark.parametrize("tool_format", ["hermes", "llama3_json", "mistral"])
def test_json_arguments_are_passed_on_as_they_come(tool_format: ToolFormat) -> None:
    opening = {
        "hermes": '<tool_call>{"name": "f", "arguments": ',
        "llama3_json": '{"name": "f", "parameters": ',
        "mistral": "[TOOL_CALLS]f[ARGS]",
    }[tool_format]
    parser = new_parser(tool_format, {})
    assert parser.push(opening + "{") == [CallBegun(0, "f"), ArgumentsDelta(0, "{")]
    for char in '"a": [1.5e3, "x\\u00e9"]':
        assert parser.push(char) == [ArgumentsDelta(0, char)]
    assert parser.push("}") == [ArgumentsDelta(0, "}"), CallEnded(0, True)]


def test_strings_of_other_notations_are_passed_on_as_they_come() -> None:
    parser = new_parser("qwen3_coder", {})
    parser.push("<function=f><parameter=a>\n")
    assert [parser.push(char) for char in 'x"<'] == [[ArgumentsDelta(0, "x")], [ArgumentsDelta(0, '\\"')], []]
    parser = new_parser("pythonic", {})
    parser.push("[f(a='")
    assert [parser.push(char) for char in 'x"\\'] == [[ArgumentsDelta(0, "x")], [ArgumentsDelta(0, '\\"')], []]


def test_nothing_may_come_after_the_end() -> None:
    parser = new_parser("hermes", {})
    assert parser.finish() == []
    with pytest.raises(InvariantViolated):
        parser.push("x")
