"""The parser of each format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.events import TextDelta, ToolEvent
from baton.services.router.tools.hermes import HermesParser
from baton.services.router.tools.llama3_json import Llama3JsonParser
from baton.services.router.tools.mistral import MistralParser
from baton.services.router.tools.pythonic import PythonicParser
from baton.services.router.tools.qwen3_coder import Qwen3CoderParser
from baton.services.router.tools.stream import ToolParser


class OneCall:
    """Of an output that may have one call only: further ones are dropped, text stays."""

    def __init__(self, parser: ToolParser) -> None:
        self._parser = parser

    def push(self, text: str) -> list[ToolEvent]:
        return [event for event in self._parser.push(text) if _belongs_to_first(event)]

    def finish(self) -> list[ToolEvent]:
        return [event for event in self._parser.finish() if _belongs_to_first(event)]


def _belongs_to_first(event: ToolEvent) -> bool:
    return isinstance(event, TextDelta) or event.index == 0


def new_parser(tool_format: ToolFormat, schemas: Mapping[str, Any], is_parallel: bool = True) -> ToolParser | OneCall:
    """A parser for one choice's output. `schemas`: JSON schema of the parameters, by function; not every format asks.
    `is_parallel`: whether several calls count."""
    parser = _parser_of(tool_format, schemas)
    return parser if is_parallel else OneCall(parser)


def _parser_of(tool_format: ToolFormat, schemas: Mapping[str, Any]) -> ToolParser:
    match tool_format:
        case "hermes":
            return HermesParser()
        case "llama3_json":
            return Llama3JsonParser()
        case "mistral" | "mistral_args":
            return MistralParser()
        case "qwen3_coder":
            return Qwen3CoderParser(schemas)
        case "pythonic":
            return PythonicParser()
        case _:
            assert_never(tool_format)
