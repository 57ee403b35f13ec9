"""OpenAI's client, langchain-openai and litellm, unmodified, against the router."""

from __future__ import annotations

from tests.accept.commands import run
from tests.accept.row import Options, Row, cannot_run, judged
from tests.accept.suites import PYTEST, counts, is_good
from tests.support.environment import CLIENTS

LIMIT_S = 1200.0


def measure(_: Options) -> Row:
    asked = "openai (blocking and asyncio), langchain-openai and litellm, unmodified: every test of tests/clients"
    why_not = CLIENTS.install()
    if why_not:
        return cannot_run(asked, why_not)
    done = run([*PYTEST, "tests/clients", "-rs"], LIMIT_S)
    found = counts(done)
    is_met = is_good(done) and not found.get("skipped")
    if not is_met:
        print(done.output)
    return judged(asked, done.last_line, is_met, counts=found)
