"""What tests of clients ask for, and what a scripted model answers to it."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

MESSAGES: Any = [{"role": "user", "content": "how is it?"}]
FUNCTION = {
    "name": "weather",
    "description": "Of a town.",
    "parameters": {
        "type": "object",
        "properties": {"town": {"type": "string", "maxLength": 8}},
        "required": ["town"],
        "additionalProperties": False,
    },
}
TOOL: Any = {"type": "function", "function": FUNCTION | {"strict": True}}
RESPONSES_TOOL: Any = {"type": "function", **FUNCTION, "strict": True}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Köln 😀"}}\n</tool_call>'
TEXT = "Köln is a town 😀, and it rains."


class Point(pydantic.BaseModel):
    """Every value is short, so that a model of random weights comes to an end."""

    model_config = pydantic.ConfigDict(extra="forbid")

    side: Literal["left", "right"]
    is_far: bool


POINT = '{"side": "left", "is_far": true}'
RESULT = "rain, 9 degrees"
