"""Requests made from the document of a real deployment: processes, transport and the fake device behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.processes.conftest import Stage
from tests.support.openapi_run import run_cases
from tests.support.stack import Stack

pytest.importorskip("schemathesis", reason="schemathesis is not installed")
LIMIT_S = 100.0


def test_every_answer_of_real_processes_is_as_the_document_says(stage: Stage, tmp_path: Path) -> None:
    async def story(stack: Stack) -> None:
        cases = await asyncio.to_thread(
            run_cases, stack.url, tmp_path, phases="examples,fuzzing", max_examples=8, limit_s=LIMIT_S
        )
        assert cases.is_good, cases.output
        assert cases.num_cases > 50
        await stack.quiescent()

    stage.run(story, router=("--default-max-tokens", "16"))  # the tiny model's context has a million tokens
