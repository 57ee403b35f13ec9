"""Requests made from the document: none gets a 5xx, hangs or is answered otherwise than the document says."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.key_file import parse_keys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.conftest import threaded_rig
from tests.support.openapi_run import run_cases

pytest.importorskip("schemathesis", reason="schemathesis is not installed")
KEY = "sk-0123456789abcdef"
NUM_ROUTES = 14
LIMIT_S = 240.0  #: bounds a run that hangs


def test_every_answer_is_as_the_document_says(model: RouterModel, tmp_path: Path) -> None:
    with threaded_rig(model, stop_grace_s=0.5, default_max_tokens=16) as rig:
        rig.machine.chunk = 64
        cases = run_cases(rig.url, tmp_path, phases="examples,coverage,fuzzing", max_examples=20, limit_s=LIMIT_S)
        assert cases.is_good, cases.output
        assert (cases.num_operations, cases.num_cases > 2000) == (NUM_ROUTES, True)


def test_keys_are_needed_where_the_document_says_so(model: RouterModel, tmp_path: Path) -> None:
    keys = ApiKeys(parse_keys(KEY, "test", 9), bytes(16))
    with threaded_rig(model, keys, stop_grace_s=0.5, default_max_tokens=16) as rig:
        # the document needs the key, too
        cases = run_cases(rig.url, tmp_path, phases="examples,fuzzing", max_examples=3, limit_s=LIMIT_S, key=KEY)
        assert cases.is_good, cases.output
        assert cases.num_operations == NUM_ROUTES


def test_an_answer_that_the_document_does_not_have_is_found(model: RouterModel, tmp_path: Path) -> None:
    with threaded_rig(model, stop_grace_s=0.5) as rig:
        rig.machine.script = lambda arrive, choice: ([65], "stopped early")  # no such finish
        cases = run_cases(rig.url, tmp_path, phases="examples", max_examples=1, limit_s=LIMIT_S)
        assert cases.num_failures > 0, cases.output
        assert "SSE event violates schema" in cases.output
        assert "stopped early" in cases.output
