"""The parser of each format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.hermes import HermesParser
from baton.services.router.tools.llama3_json import Llama3JsonParser
from baton.services.router.tools.mistral import MistralParser
from baton.services.router.tools.pythonic import PythonicParser
from baton.services.router.tools.qwen3_coder import Qwen3CoderParser
from baton.services.router.tools.stream import ToolParser


def new_parser(tool_format: ToolFormat, schemas: Mapping[str, Any]) -> ToolParser:
    """A parser for one choice's output. `schemas`: JSON schema of the parameters, by function."""
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
