"""Planting defects: the patched module is what everybody imports, and a text that moved is noticed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from baton.core.sim.mutation import Mutation, MutationMissed, install

PLANT = """
from baton.core.sim.mutation import Mutation, install
install(Mutation("a test", "baton.core.sim.step_time.fuzzed", "base_s: float = 4e-3", "base_s: float = 7.0", ""))
from baton.core.sim.step_time.fuzzed import StepTime
print(StepTime().base_s)
"""


def test_a_planted_defect_is_what_everybody_imports() -> None:
    done = subprocess.run([sys.executable, "-c", PLANT], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "7.0"


def test_a_text_that_is_not_there_is_noticed() -> None:
    with pytest.raises(MutationMissed, match="0 times"):
        install(Mutation("a test", "this", "no such text", "", ""))
