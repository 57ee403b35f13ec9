"""Calls as a well-behaved model writes them, in every notation."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from baton.services.router.tools.detect import ToolFormat
from tests.services.router.tools.outputs import FRAGMENTS, values

Calls = list[tuple[str, dict[str, Any]]]
TEXTS = st.text("ab \n\"'\\{}[]()<>,:=;|/é😀\x01", max_size=8)
KEYS = st.text("abk_9", min_size=1, max_size=3)
CALLS: st.SearchStrategy[Calls] = st.lists(
    st.tuples(st.sampled_from(["f", "g", "get-it_9"]), st.dictionaries(KEYS, values(TEXTS), max_size=3)),
    min_size=1,
    max_size=3,
)


def write_hermes(calls: Calls) -> str:
    blocks = (json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) for name, arguments in calls)
    return "\n".join(f"<tool_call>\n{block}\n</tool_call>" for block in blocks)


def write_hermes_array(calls: Calls) -> str:
    return f"<tool_call>{json.dumps([{'arguments': arguments, 'name': name} for name, arguments in calls])}</tool_call>"


def write_llama(calls: Calls) -> str:
    return "; ".join(json.dumps({"name": name, "parameters": arguments}) for name, arguments in calls)


def write_llama_tagged(calls: Calls) -> str:
    return "".join("<|python_tag|>" + write_llama([call]) for call in calls)


def write_mistral(calls: Calls) -> str:
    objects = [{"name": name, "arguments": arguments, "id": "x]"} for name, arguments in calls]
    return f"[TOOL_CALLS] {json.dumps(objects, indent=1)}"


def write_mistral_args(calls: Calls) -> str:
    return "".join(f"[TOOL_CALLS]{name}[CALL_ID]Ab1[ARGS]{json.dumps(arguments)}" for name, arguments in calls)


def write_xml(calls: Calls) -> str:
    """Strings bare, all else as JSON."""
    written = []
    for name, arguments in calls:
        bare = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
        parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in bare.items())
        written.append(f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>")
    return "\n".join(written)


def write_python(calls: Calls) -> str:
    return f"[{', '.join(python_call(name, arguments) for name, arguments in calls)}]"


def python_call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


WRITERS = {
    "hermes": (write_hermes, write_hermes_array),
    "llama3_json": (write_llama, write_llama_tagged),
    "mistral": (write_mistral, write_mistral_args),
    "qwen3_coder": (write_xml,),
    "pythonic": (write_python,),
}
WRITTEN = st.sampled_from([(name, write) for name, writers in WRITERS.items() for write in writers])


@st.composite
def broken_outputs(draw: st.DrawFn) -> tuple[ToolFormat, str]:
    """Calls of which a part is missing, or replaced by pieces of the notation, or by what comes from elsewhere."""
    tool_format, write = draw(WRITTEN)
    text = draw(st.sampled_from(["", " ", "x "])) + write(draw(CALLS))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        num_lost = draw(st.sampled_from([0, 1, 2, 5, 20, 1000]))
        new = draw(st.sampled_from(["", ",", "}", '"', "\\", "x", *FRAGMENTS[tool_format]]))
        text = text[:at] + new + text[at + num_lost :]
    return tool_format, text
