"""The C ledger against a dictionary."""

import random

import pytest

from baton.core.kv.ledger import Ledger
from tests.support.outcomes import same_outcome
from tests.support.twins.ledger import LedgerTwin

EXECUTORS = [-1, 0, 1, 2, 40, 65535, 65536]


@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_calls_agree_with_the_dictionary(seed: int) -> None:
    rng = random.Random(seed)
    real, twin = Ledger(), LedgerTwin()
    for _ in range(3000):
        executor = rng.choice(EXECUTORS)
        amounts = (rng.randrange(-1, 30), rng.randrange(-1, 8))
        method = rng.choices(["open", "close", "grant", "try_spend", "available"], [2, 1, 5, 8, 2])[0]
        same_outcome(real, twin, method, executor, *(amounts if method not in ("close", "available") else ()))
        same_outcome(real, twin, "max_available")
        same_outcome(real, twin, "executors")
        real.check_invariants()
