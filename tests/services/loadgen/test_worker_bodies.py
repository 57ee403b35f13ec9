"""Bodies are made ahead, within bounds, and each once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from baton.services.loadgen import worker_bodies
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import Turn
from baton.services.loadgen.worker_bodies import PreparedBodies


class Maker:
    def __init__(self) -> None:
        self.made: list[int] = []

    def __call__(self, request: PlannedRequest, history: Sequence[Turn]) -> bytes:
        self.made.append(request.index)
        return f"{request.index}:{len(history)}".encode()


def requests(count: int, **fields: bool) -> list[PlannedRequest]:
    return [PlannedRequest(index=index, max_tokens=1, **fields) for index in range(count)]


def test_a_body_is_made_once_whether_it_was_prepared_or_taken_first() -> None:
    maker = Maker()
    planned = requests(4)
    bodies = PreparedBodies(maker, planned)
    assert bodies.take(planned[1], ()) == b"1:0"
    assert bodies.prepare_one()
    assert bodies.prepare_one()
    assert maker.made == [1, 0, 2]
    assert [bodies.take(planned[index], ()) for index in (2, 0, 3)] == [b"2:0", b"0:0", b"3:0"]
    assert maker.made == [1, 0, 2, 3]
    assert not bodies.prepare_one()


def test_a_body_that_follows_answers_is_made_when_they_are_there() -> None:
    maker = Maker()
    planned = requests(1, is_next_message=True)
    bodies = PreparedBodies(maker, planned)
    assert not bodies.prepare_one()
    assert bodies.take(planned[0], (Turn(planned[0], "x"),)) == b"0:1"


def test_no_more_than_the_bounds_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_bodies, "MAX_PREPARED_BYTES", 7)
    planned = requests(9)
    bodies = PreparedBodies(Maker(), planned)
    assert [bodies.prepare_one() for _ in range(5)] == [True, True, True, False, False]
    bodies.take(planned[0], ())
    assert [bodies.prepare_one() for _ in range(2)] == [True, False]
    monkeypatch.setattr(worker_bodies, "MAX_PREPARED", 2)
    bodies.take(planned[1], ())
    assert not bodies.prepare_one()
