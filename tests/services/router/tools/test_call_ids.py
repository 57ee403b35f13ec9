"""Ids of calls."""

from __future__ import annotations

import random
import re

from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.tools.call_ids import new_call_id
from baton.services.router.tools.detect import FORMATS, ToolFormat

SHAPES = {name: r"[a-zA-Z0-9]{9}" if name.startswith("mistral") else r"call_[0-9a-f]{24}" for name in FORMATS}


@given(st.sampled_from(FORMATS), st.integers())
def test_ids_come_from_the_source_alone(tool_format: ToolFormat, seed: int) -> None:
    first, again = random.Random(seed), random.Random(seed)
    ids = [new_call_id(tool_format, first.randbytes) for _ in range(20)]
    assert ids == [new_call_id(tool_format, again.randbytes) for _ in range(20)]
    assert len(set(ids)) == 20
    assert all(re.fullmatch(SHAPES[tool_format], call_id) for call_id in ids)
