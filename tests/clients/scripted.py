"""A model that answers by what it is asked, for clients that ask several things in one go."""

from __future__ import annotations

from baton.core.router.events import Arrive
from tests.clients.asked import CALL, POINT, RESULT, TEXT
from tests.services.router.rig import prompt_ids, say

AFTER_RESULT = "It rains."


POINT_CALL = f'<tool_call>\n{{"name": "Point", "arguments": {POINT}}}\n</tool_call>'


def converse(arrive: Arrive, choice: int) -> tuple[list[int], str]:
    """A value where a grammar demands one, a call where tools are shown, text otherwise and after a result."""
    prompt = bytes(token for token in prompt_ids(arrive) if token < 256).decode()
    grammar = arrive.sampling.grammar
    if "is_far" in grammar:
        text = POINT_CALL if "<tool_call>" in grammar else POINT
    elif RESULT in prompt:
        text = AFTER_RESULT
    else:
        text = CALL if prompt.startswith("tools\n") else TEXT
    return say(text)(arrive, choice)
