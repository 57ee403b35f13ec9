"""Groups of requests that begin alike."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from baton.services.loadgen.draws import Purpose, generator
from baton.services.loadgen.groups import group_prefixes
from baton.services.loadgen.plan import Prefix


@given(st.integers(0, 300), st.integers(1, 20))
def test_groups_are_of_one_size_give_or_take_one(count: int, num_groups: int) -> None:
    prefixes = group_prefixes(generator(0, Purpose.GROUPS), count, num_groups, 64)
    sizes = Counter(prefix.group for (prefix,) in prefixes)
    assert sum(sizes.values()) == count
    assert len(sizes) == min(count, num_groups)
    assert not sizes or max(sizes.values()) - min(sizes.values()) <= 1
    assert all(prefix == Prefix(prefix.group, 64) for (prefix,) in prefixes)


def test_without_groups_nothing_begins_alike() -> None:
    assert group_prefixes(generator(0, Purpose.GROUPS), 3, 0, 0) == [(), (), ()]
