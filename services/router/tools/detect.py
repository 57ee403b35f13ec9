"""Which notation a model's calls have, read from its chat template, and which control tokens that notation needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from baton.core.errors import Incompatible

#: `mistral` writes an array of calls, `mistral_args` a name and `[ARGS]`; both are read by the same parser
ToolFormat: TypeAlias = Literal["hermes", "llama3_json", "mistral", "mistral_args", "qwen3_coder", "pythonic"]
FORMATS: tuple[ToolFormat, ...] = get_args(ToolFormat)

#: in this order, the first whose spellings all occur in a template; several rows for one format are alternatives
SIGNS: tuple[tuple[ToolFormat, tuple[str, ...]], ...] = (
    ("mistral_args", ("[TOOL_CALLS]", "[ARGS]")),
    ("mistral", ("[TOOL_CALLS]",)),
    ("qwen3_coder", ("<function=", "<parameter=")),
    ("hermes", ("<tool_call>",)),
    ("pythonic", ("<|python_start|>",)),
    ("pythonic", ("[func_name1(",)),
    ("llama3_json", ("<|python_tag|>",)),
    ("llama3_json", ("ipython", '"parameters"')),
)
MARKERS: dict[ToolFormat, frozenset[str]] = {
    "hermes": frozenset({"<tool_call>", "</tool_call>"}),
    "llama3_json": frozenset({"<|python_tag|>"}),
    "mistral": frozenset({"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}),
    "mistral_args": frozenset({"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}),
    "qwen3_coder": frozenset(
        {"<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"}
    ),
    "pythonic": frozenset({"<|python_start|>", "<|python_end|>"}),
}
COMMENT = re.compile(r"\{#[^#]*(?:#(?!\})[^#]*)*#\}")


def detect_format(template: str | None, setting: str = "auto") -> ToolFormat | None:
    """The format of a template's tool calls; None if it has no place for tools, or its calls are of no known format.

    `setting` is "auto", "none" or a format, which then wins; Incompatible if it is anything else.
    """
    if setting == "none":
        return None
    if setting != "auto":
        for tool_format in FORMATS:
            if setting == tool_format:
                return tool_format
        raise Incompatible(f"tool format {setting!r} is none of auto, none, {', '.join(FORMATS)}")
    source = COMMENT.sub("", template or "")
    if re.search(r"\btools\b", source) is None:
        return None
    spelled = source.replace('\\"', '"')
    return next((name for name, signs in SIGNS if all(sign in spelled for sign in signs)), None)


def visible_tokens(tool_format: ToolFormat, control: Mapping[int, str]) -> dict[int, str]:
    """Of a tokenizer's control tokens, by id, those that the parser has to see in the text by their names."""
    return {token: name for token, name in control.items() if name in MARKERS[tool_format]}
