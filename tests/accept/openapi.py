"""Requests made from `/openapi.json`, against real processes with the fake device."""

from __future__ import annotations

import importlib.util
from tempfile import NamedTemporaryFile

from tests.accept.deployment import Deployment
from tests.accept.row import Options, Row, cannot_run, judged
from tests.support.openapi_run import Cases, run_cases

LIMIT_S = 3000.0
SEED = 1
#: the tiny model's context has a million tokens, and some requests want all of them
SETTINGS = "[http]\ndefault_max_tokens = 16\n[device]\nmax_model_len = 2048\n"


def measure(options: Options) -> Row:
    asked = "every request made from /openapi.json is answered as it says: no 5xx, none hangs, each answer valid"
    if importlib.util.find_spec("schemathesis") is None:
        return cannot_run(asked, "schemathesis is not installed")
    with NamedTemporaryFile("w", suffix=".toml") as settings:
        settings.write(SETTINGS)
        settings.flush()
        cases = run_all(settings.name, 30 if options.quick else 500)
    if not cases.is_good:
        print(cases.output)
    measured = f"{cases.num_cases:,} requests to {cases.num_operations} routes, {cases.num_failures} kinds of failures"
    return judged(asked, measured, cases.is_good, cases=cases.num_cases, failures=cases.num_failures)


def run_all(settings: str, max_examples: int) -> Cases:
    with Deployment("--device", "fake", "--config", settings, model="tiny") as up:
        cases = run_cases(
            up.url,
            up.folder,
            phases="examples,coverage,fuzzing",
            max_examples=max_examples,
            limit_s=LIMIT_S,
            seed=SEED,
        )
        up.wait_until_quiescent()
    return cases
