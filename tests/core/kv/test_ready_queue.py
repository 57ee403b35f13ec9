"""What the ready queue promises, one example each."""

import pytest

from baton.core.kv.ready_queue import ReadyQueue

NUM_WAITING = 20_000


def test_order_is_class_then_virtual_start_then_arrival_then_handle() -> None:
    queue = ReadyQueue()
    for handle, key in [(1, (1, 0, 0)), (2, (0, 5, 0)), (3, (0, 4, 9)), (5, (0, 4, 8)), (4, (0, 4, 8))]:
        queue.push(handle, *key, 1, 1)
    assert queue.handles() == [4, 5, 3, 2, 1]
    assert queue.first() == 4


def test_a_walk_skips_what_does_not_fit_and_goes_on_after_it() -> None:
    queue = ReadyQueue()
    for handle, demand in enumerate([9, 2, 9, 3]):
        queue.push(handle, 0, 0, handle, demand, 1)
    assert queue.first_fit(5, 1) == 1
    assert queue.first_fit(5, 1, after=1) == 3
    assert queue.first_fit(5, 1, after=3) == -1
    assert queue.first_fit(9, 0) == -1


def test_a_turn_in_which_nothing_fits_looks_at_one_node_however_many_wait() -> None:
    queue = ReadyQueue()
    for handle in range(NUM_WAITING):
        queue.push(handle, 0, handle * 7919 % NUM_WAITING, handle, 100 + handle % 50, 1)
    assert queue.first_fit(99, 4) == -1
    assert queue.num_visited == 1


@pytest.mark.parametrize("limit", [500, 700, 999])
def test_entries_that_each_lack_another_resource_are_not_visited_either(limit: int) -> None:
    queue = ReadyQueue()
    for handle in range(NUM_WAITING):
        queue.push(handle, 0, 0, handle, *((1, 1000) if handle % 3 else (1000, 1)))
    assert queue.first_fit(limit, limit) == -1
    assert queue.num_visited <= 2


def test_finding_one_small_entry_among_many_large_ones_visits_about_one_path() -> None:
    queue = ReadyQueue()
    for handle in range(NUM_WAITING):
        queue.push(handle, 0, handle, handle, 100, 1)
    queue.set_demand(NUM_WAITING - 3, 1, 1)
    assert queue.first_fit(50, 1) == NUM_WAITING - 3
    assert queue.num_visited < 150


def test_a_changed_demand_is_seen_by_the_next_search() -> None:
    queue = ReadyQueue()
    queue.push(7, 0, 0, 0, 10, 10)
    assert queue.first_fit(9, 9) == -1
    queue.set_demand(7, 9, 9)
    assert (queue.first_fit(9, 9), queue.demand(7), queue.key(7)) == (7, (9, 9), (0, 0, 0))


def test_unknown_and_repeated_handles_are_refused() -> None:
    queue = ReadyQueue()
    queue.push(1, 0, 0, 0, 1, 1)
    for handle in (1, -1):
        with pytest.raises(ValueError, match=str(handle)):
            queue.push(handle, 0, 0, 0, 1, 1)
    for call in (queue.key, queue.demand, lambda handle: queue.first_fit(1, 1, handle)):
        with pytest.raises(KeyError):
            call(2)
    assert not queue.remove(2)
    assert queue.remove(1)
    assert (len(queue), 1 in queue, queue.first()) == (0, False, -1)
