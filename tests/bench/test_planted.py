"""What benchmarks compare with is planted into texts that are there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from bench.planted import environment
from bench.planted.plants import PLANTS


@pytest.mark.parametrize("name", PLANTS)
def test_each_text_stands_in_its_module_once(name: str) -> None:
    sources: dict[str, str] = {}
    for module, old, new in PLANTS[name]:
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        source = sources.get(module, Path(spec.origin).read_text())
        assert source.count(old) == 1, f"{module}: {old}"
        sources[module] = source.replace(old, new)
        compile(sources[module], module, "exec")


def test_a_program_that_is_started_with_it_has_the_plant() -> None:
    """Only services: whatever else starts with that environment is as it was."""
    look = "from baton.core.executor.machine import ExecutorCore as C; print(C._finish_turn.__code__.co_code.hex())"

    def code(*arguments: str) -> str:
        command = [sys.executable, "-c", look, *arguments]
        done = subprocess.run(command, env=environment("launch_first"), capture_output=True, text=True, check=True)
        return done.stdout

    assert code("baton.services.prefill") != code() == code("elsewhere")
