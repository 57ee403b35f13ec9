"""X8 over ranks (C25): the tiny model through HTTP by executors of two ranks, SmolLM2 by three on the device itself.

SmolLM2-135M has 9 attention heads, 3 KV heads and 1,536 MLP columns: 3 ranks divide them, 2 do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.core.errors import Incompatible
from baton.core.wire.sampling import SamplingParams
from baton.services.model.fetch import DEFAULT_MODEL, fetch
from tests.parity.conftest import ALONE, CPU, PAIR
from tests.parity.live import LiveStack
from tests.parity.test_smollm2 import EPSILON
from tests.parity.tiny import check_exact, questions
from tests.services.engine.conftest import Runner
from tests.support.rank_threads import threaded_group
from tests.support.reference import Reference

RANKS = (*CPU, "--num-ranks", "2")
LENGTHS = (1, 15, 16, 17, 63, 64, 65, 130)  #: around blocks of 16 and steps of 64 tokens


@pytest.fixture(scope="module", params=[ALONE, PAIR], ids=["alone", "pair"])
def ranks_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny: Path
) -> Iterator[LiveStack]:
    flags = dict.fromkeys(("prefill", "decode", "unified"), RANKS)
    stack = LiveStack(tmp_path_factory.mktemp("ranks"), tiny, request.param, flags)
    yield stack
    stack.close()


def test_x8_c25_two_ranks_are_exact_cold_warm_and_together(
    ranks_stack: LiveStack, tiny_reference: Reference
) -> None:
    asked = questions(LENGTHS, 11)
    cold = ranks_stack.ask(*asked)
    warm = [ranks_stack.ask(question)[0] for question in asked]
    for question, first, again in zip(asked, cold, warm, strict=True):
        check_exact(tiny_reference, question, first)
        assert (again.tokens, again.logprobs) == (first.tokens, first.logprobs)


@pytest.mark.timeout(600)  # the reference computes in float64
def test_x8_c25_three_ranks_of_smollm2_are_within_the_margin(tmp_path: Path) -> None:
    try:
        folder = fetch(DEFAULT_MODEL)
    except Incompatible as error:
        pytest.skip(f"SmolLM2 cannot be had here: {error}")
    prompt = [(7 * place * place + 31) % 49000 for place in range(45)]
    params = SamplingParams(max_tokens=6, temperature=0.0, num_logprobs=0)
    with threaded_group(folder, 3, tmp_path, num_blocks=8) as group:
        sampled = Runner(group.device).generate(1, prompt, params, [20, 25], [5, 3, 7, 1])
    logprobs = [token.logprobs.logprob for token in sampled if token.logprobs is not None]
    judgement = Reference(folder).judge(prompt, [token.token for token in sampled], logprobs)
    assert judgement.num_tokens == 6
    assert judgement.worst_gap < EPSILON
    assert judgement.worst_logprob_error < EPSILON
