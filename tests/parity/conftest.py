"""Model folders, their references, and stacks of real processes that compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.services.model.fetch import fetch

pytest.importorskip("nixl", reason="the transport library is not installed")
pytest.importorskip("transformers", reason="the reference needs transformers")

import torch

from tests.parity.live import LiveStack
from tests.support.reference import Reference

torch.set_num_threads(1)  # of the reference: beside a stack that computes, more threads wait for each other

PAIR = ("scheduler", "prefill", "decode", "router")
ALONE = ("scheduler", "unified", "router")
CPU = ("--device", "cpu")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch("tiny", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def tiny_reference(tiny: Path) -> Reference:
    return Reference(tiny, round_bits=20)


@pytest.fixture(scope="module", params=[PAIR, ALONE], ids=["pair", "alone"])
def tiny_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny: Path
) -> Iterator[LiveStack]:
    stack = LiveStack(
        tmp_path_factory.mktemp("run"), tiny, request.param, dict.fromkeys(("prefill", "decode", "unified"), CPU)
    )
    yield stack
    stack.close()
