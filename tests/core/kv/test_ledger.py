"""What the ledger promises, one example each."""

import pytest

from baton.core.kv.ledger import Ledger


def test_spending_takes_both_amounts_or_neither() -> None:
    ledger = Ledger()
    ledger.open(1, 10, 2)
    assert not ledger.try_spend(1, 5, 3)
    assert ledger.available(1) == (10, 2)
    assert ledger.try_spend(1, 10, 1)
    assert ledger.available(1) == (0, 1)


def test_a_grant_adds_and_opening_again_starts_anew() -> None:
    ledger = Ledger()
    ledger.open(1, 10, 2)
    ledger.grant(1, 5, 1)
    assert ledger.available(1) == (15, 3)
    ledger.open(1, 1, 1)
    assert ledger.available(1) == (1, 1)


def test_the_most_available_is_taken_for_each_resource_alone() -> None:
    ledger = Ledger()
    assert ledger.max_available() == (0, 0)
    ledger.open(1, 10, 2)
    ledger.open(9, 3, 7)
    assert ledger.max_available() == (10, 7)
    ledger.close(1)
    assert (ledger.max_available(), ledger.executors()) == ((3, 7), [9])


def test_an_executor_without_an_account_is_a_key_error() -> None:
    ledger = Ledger()
    ledger.open(1, 1, 1)
    ledger.close(1)
    for call in (ledger.close, ledger.available):
        with pytest.raises(KeyError):
            call(1)
    for call in (ledger.grant, ledger.try_spend):
        with pytest.raises(KeyError):
            call(1, 1, 1)


def test_negative_amounts_and_executors_out_of_range_are_refused() -> None:
    ledger = Ledger()
    ledger.open(1, 5, 5)
    for call in (ledger.open, ledger.grant, ledger.try_spend):
        with pytest.raises(ValueError, match="not negative"):
            call(1, -1, 0)
    with pytest.raises(ValueError, match="65536"):
        ledger.open(65536, 1, 1)
    assert ledger.available(1) == (5, 5)
