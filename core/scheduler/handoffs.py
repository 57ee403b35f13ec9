"""Prompts that are computed, or being computed, and have no decode executor yet."""

from __future__ import annotations

from baton.core.ids import AttemptId, Life
from baton.core.scheduler.queue import Waiting, WaitingQueue


class Handoffs:
    """Each in one of three places. `due`: its prefill executor has said that its end is near, so a decode executor is
    reserved as soon as one has room. `early`: not yet; it takes room only where enough is left. Asleep: the session
    with its prefill executor is over, so nobody knows what became of it."""

    def __init__(self) -> None:
        self.due = WaitingQueue()
        self.early = WaitingQueue()
        self._asleep: dict[AttemptId, Waiting] = {}

    def __len__(self) -> int:
        return len(self.due) + len(self.early) + len(self._asleep)

    def all(self) -> list[Waiting]:
        return [*self.due.all(), *self.early.all(), *self._asleep.values()]

    def add(self, waiting: Waiting) -> None:
        self.early.insert(waiting)

    def on_due(self, work_id: AttemptId) -> None:
        """Its end is near, or it has come; said twice it changes nothing."""
        waiting = self.early.find(work_id)
        if waiting is not None:
            self.early.remove(waiting)
            self.due.insert(waiting)

    def remove(self, work_id: AttemptId) -> None:
        """It waits no more, if it did."""
        self._asleep.pop(work_id, None)
        for queue in (self.due, self.early):
            waiting = queue.find(work_id)
            if waiting is not None:
                queue.remove(waiting)

    def sleep(self, name: str) -> None:
        """The session with that prefill executor is over."""
        for queue in (self.due, self.early):
            for waiting in queue.all():
                if waiting.prefill is not None and waiting.prefill.name == name:
                    queue.remove(waiting)
                    self._asleep[waiting.submit.id] = waiting

    def wake(self, life: Life) -> None:
        """A session with it begins; what is due it says again."""
        for waiting in [w for w in self._asleep.values() if w.prefill == life]:
            del self._asleep[waiting.submit.id]
            self.early.insert(waiting)

    def check_invariants(self) -> None:
        """Raises RuntimeError when a queue's tree and its entries disagree."""
        self.due.check_invariants()
        self.early.check_invariants()
