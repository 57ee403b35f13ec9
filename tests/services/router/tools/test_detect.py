"""Which notation a template's calls have."""

from __future__ import annotations

import pytest

from baton.core.errors import Incompatible
from baton.services.router.tools.detect import FORMATS, MARKERS, ToolFormat, detect_format, visible_tokens
from tests.services.router.tools.templates import HERMES, LLAMA

PYTHONIC = "{% if tools %}Answer with [func_name1(param=value), func_name2()].{{ tools | tojson }}{% endif %}"
MISTRAL = "{% if tools %}[AVAILABLE_TOOLS]{% endif %}{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}"
CODER = r"{% if tools %}<tool_call>\n<function=example>\n<parameter=one>\n{% endif %}"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (HERMES, "hermes"),
        (LLAMA, "llama3_json"),
        (LLAMA.replace("<|python_tag|>", ""), "llama3_json"),
        (MISTRAL, "mistral"),
        (MISTRAL + "[ARGS]", "mistral_args"),
        (CODER, "qwen3_coder"),
        (PYTHONIC, "pythonic"),
        ("{{ tools }}<|python_start|>", "pythonic"),
        ("{{ messages[0].content }}", None),
        ("{{ tools | tojson }}", None),
        ("{{ messages }}<tool_call>", None),
        ("{# tools: #<tool_call># #}{{ messages }}{{ tools }}", None),
        ("", None),
        (None, None),
    ],
)
def test_detected(template: str | None, expected: ToolFormat | None) -> None:
    assert detect_format(template) == expected


@pytest.mark.parametrize("tool_format", FORMATS)
def test_a_setting_wins(tool_format: ToolFormat) -> None:
    assert detect_format(HERMES, tool_format) == tool_format
    assert detect_format(None, tool_format) == tool_format
    assert detect_format(HERMES, "none") is None


def test_a_setting_that_is_no_format() -> None:
    with pytest.raises(Incompatible, match="'xml' is none of auto, none, hermes"):
        detect_format(HERMES, "xml")


def test_control_tokens_that_must_be_seen() -> None:
    control = {1: "<|eos|>", 2: "[TOOL_CALLS]", 3: "<tool_call>", 4: "[ARGS]"}
    assert visible_tokens("mistral", control) == {2: "[TOOL_CALLS]", 4: "[ARGS]"}
    assert visible_tokens("hermes", control) == {3: "<tool_call>"}
    assert set(MARKERS) == set(FORMATS)
