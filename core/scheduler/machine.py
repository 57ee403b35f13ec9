"""The scheduler's machine: which request goes where, and when. Sees neither tokens nor block ids.

It spends only credit that executors granted, so what it places always fits. Its own death loses nothing: routers submit
again, executors say what they hold.
"""

from __future__ import annotations

from typing import Any

from baton.core.config import SchedulerConfig
from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Note, PeerDown, PeerUp, Received, Send, Wake, each_of
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.scheduler.executors import Executor
from baton.core.scheduler.fleet import Fleet
from baton.core.scheduler.placed import Placed
from baton.core.scheduler.placement import MakePlacement, Placement
from baton.core.scheduler.placer import Placer
from baton.core.scheduler.queue import Waiting
from baton.core.scheduler.waits import line
from baton.core.wire import messages as m


class SchedulerCore:
    """Decides about requests: queue, credit, placement."""

    def __init__(self, own: Peer, config: SchedulerConfig, make_placement: MakePlacement = Placement) -> None:
        config.validate()
        self.own = own
        self.config = config
        self.next_wake: float | None = None
        self._now = 0.0
        self._out: list[Any] = []
        self._fleet = Fleet(config.strict_pd)
        self._placer = Placer(self._fleet, config, make_placement)
        self._arrivals = self._placer.arrivals
        self._handoffs = self._placer.handoffs
        self._placed = self._placer.placed
        self._prefixes = self._placer.prefixes
        self._peers: dict[str, Peer] = {}  #: everyone whose session is up
        self._exited: dict[str, int] = {}  #: newest epoch of each name whose exit was seen
        self._said_can_serve = False  #: in the last roster
        self._absent_since: float | None = None  #: since when no executor could serve anything
        self._alone: dict[AttemptId, float] = {}  #: handoffs without any possible partner, and since when
        self.counters: dict[str, int] = {}

    def handle(self, event: Any, now: float) -> list[Any]:
        """Apply what has come; returns the commands in order."""
        self._now = now
        self._out = []
        for happened in each_of(event):
            self._apply(happened)
        self._finish_turn()
        return self._out

    def _apply(self, event: Any) -> None:
        match event:
            case Received():
                self._on_received(event.peer, event.message)
            case PeerUp():
                self._on_peer_up(event.peer)
            case PeerDown():
                self._on_peer_down(event.peer)
            case Wake():
                pass
            case _:
                raise InvariantViolated(f"a scheduler has no event {type(event).__name__}")

    def check_invariants(self) -> None:
        """Raises RuntimeError or InvariantViolated when the books do not balance."""
        self._fleet.check_invariants()
        self._arrivals.check_invariants()
        self._handoffs.check_invariants()
        self._prefixes.check_invariants(self._now)
        if any(self._placed.get(work_id) is None for work_id in self._prefixes.producers.attempts()):
            raise InvariantViolated("an attempt that ended counts as computing its prompt")
        for waiting in self._handoffs.all():
            placed = self._placed.get(waiting.submit.id)
            if placed is None or placed.decode is not None:
                raise InvariantViolated(f"{waiting.submit.id} waits for a decode executor without being placed so")

    def quiescent(self) -> bool:
        """Whether nothing waits or is placed."""
        return not len(self._arrivals) and not len(self._placed)

    def gauges(self) -> dict[str, float]:
        """Values by name, for `/metrics`."""
        values: dict[str, float] = {
            "queued": len(self._arrivals),
            "prefix_waiting": self._arrivals.num_aside,
            "handoffs": len(self._handoffs),
            "placed": len(self._placed),
            "executors": len(self._fleet),
            "directory_blocks": len(self._fleet.directory),
        }
        values["placements_total"] = self._placer.num_placed
        values |= {f"placed_{why}_total": count for why, count in self._placer.num_by_reason.items()}
        counted = self.counters | self._placer.waits.counters | self._prefixes.counted()
        values.update({f"{name}_total": count for name, count in counted.items()})
        return values

    def readiness(self) -> str:
        """Empty when a request would be placed now, else why not."""
        return "" if self._fleet.can_serve() else "no pair of executors is ready"

    def unfinished(self) -> list[Note]:
        """When those that wait came, and why they wait."""
        return [line(waiting, {}) for waiting in (*self._arrivals.all(), *self._handoffs.all())]

    # ---- messages

    def _on_received(self, peer: Peer, message: Any) -> None:
        match message:
            case m.Submit():
                self._on_submit(peer, message)
            case m.Abort():
                self._on_abort(message.id)
            case m.Exited():
                self._on_exited(message.life)
            case m.ExecutorInventory():
                self._on_inventory(peer, message)
            case _:
                executor = self._fleet.get(peer.name)
                if executor is not None:
                    self._on_report(executor, message)

    def _on_report(self, executor: Executor, message: Any) -> None:
        match message:
            case m.Credit():
                self._fleet.ledger.grant(executor.index, message.num_blocks, message.num_slots)
                self._on_computed(executor, message.num_prompt_tokens)
            case m.Ended():
                self._on_ended(executor, message.id)
            case m.Pace():
                self._fleet.measured(executor, message)
            case m.Due():
                self._handoffs.on_due(message.id)
            case m.PairReady():
                self._fleet.pair(executor, message.prefill)
                self._watch_partners()
            case m.PairLost():
                self._fleet.unpair(executor, message.prefill)
                self._prefixes.on_pair_lost(message.prefill, self._now)
                self._watch_partners()
            case m.CacheChanged():
                self._fleet.directory.change(executor.index, message.published, message.evicted)
                self._prefixes.on_published(executor, message.published, self._now)
            case m.Draining():
                self._fleet.drain(executor)
                self._prefixes.on_executor_ended(executor.index, self._now)
                self._watch_partners()
            case m.Reclaim():
                self._on_reclaim(executor, message.num_blocks)

    def _on_computed(self, executor: Executor, num_tokens: int) -> None:
        executor.num_pending_tokens -= num_tokens
        if num_tokens:
            executor.progressed_at = self._now
        if not executor.num_pending_tokens:
            self._prefixes.on_all_computed(executor, self._now)

    def _on_submit(self, peer: Peer, message: m.Submit) -> None:
        """An attempt that is known already is placed once, however often it is submitted."""
        placed = self._placed.get(message.id)
        if placed is not None:
            self._tell(peer.name, placed.message())
            return
        if message.id in self._arrivals:
            return
        is_first = message.id.attempt == 0 and not message.work.num_prior
        if is_first and len(self._arrivals) >= self.config.max_queued:
            self._walk()  # of what came in this turn, some may have a place
        if is_first and len(self._arrivals) >= self.config.max_queued:
            self._refuse(peer.name, message.id, Reason.QUEUE_FULL, queued=len(self._arrivals))
            return
        waiting = self._arrivals.push(message, self._fleet.least_demand(message.work), self._now)
        self._refuse_if_never_fits(waiting)

    def _on_abort(self, work_id: AttemptId) -> None:
        waiting = self._arrivals.find(work_id)
        if waiting is not None:
            self._arrivals.remove(waiting)
        self._handoffs.remove(work_id)
        self._prefixes.on_ended(work_id, self._now)
        placed = self._placed.get(work_id)
        if placed is not None:
            for life in list(placed.holders):
                if self._is_up(life):
                    self._tell_life(life, m.Abort(work_id))
                else:
                    self._placed.end_at(work_id, life)  # if it comes back, its router aborts what it still holds

    def _on_ended(self, executor: Executor, work_id: AttemptId) -> None:
        placed = self._placed.end_at(work_id, executor.life)
        if placed is None:
            return
        self._prefixes.on_ended(work_id, self._now)
        if placed.decode is None:
            self._handoffs.remove(work_id)
        elif placed.decode == executor.life:
            executor.num_attempts -= 1
            for other in placed.holders:
                self._tell_life(other, m.Abort(work_id))  # nobody would take what it computes

    def _on_reclaim(self, executor: Executor, wanted: int) -> None:
        blocks, _ = self._fleet.ledger.available(executor.index)
        given = min(blocks, wanted)
        self._fleet.ledger.try_spend(executor.index, given, 0)
        self._tell(executor.peer.name, m.Returned(given))

    # ---- executors come and go

    def _on_peer_up(self, peer: Peer) -> None:
        self._peers[peer.name] = peer
        if peer.role is Role.ROUTER or peer.role is Role.LAUNCHER:
            self._tell(peer.name, self._fleet.roster())
        else:
            for name, epoch in sorted(self._exited.items()):
                self._tell(peer.name, m.Exited(Life(name, epoch)))

    def _on_peer_down(self, peer: Peer) -> None:
        self._peers.pop(peer.name, None)
        if peer.role is Role.ROUTER:
            for waiting in self._arrivals.all():
                if waiting.submit.work.router == peer.life:
                    self._arrivals.remove(waiting)  # its router submits again what it still wants
            for waiting in self._handoffs.all():
                if waiting.submit.work.router == peer.life:
                    self._on_abort(waiting.submit.id)  # and knows nothing of a place that was not told
        executor = self._fleet.get(peer.name)
        if executor is not None:
            self._prefixes.on_executor_ended(executor.index, self._now)
            self._fleet.leave(peer.name)
            self._handoffs.sleep(peer.name)
            self._watch_partners()
            self._announce()

    def _on_inventory(self, peer: Peer, message: m.ExecutorInventory) -> None:
        """A session with an executor begins: adopt what it holds, fail what it should hold and does not."""
        if peer.capacity is None or self._fleet.is_foreign(peer):
            self._out.append(Note("not used: another KV layout than the executors here", peer=peer.name))
            return
        former = self._fleet.get(peer.name)
        if former is not None:
            self._prefixes.on_executor_ended(former.index, self._now)
        executor = self._fleet.join(peer, message)
        self._absent_since = None  # someone has come: requests wait for the pair that may form
        live = dict(message.live)
        for placed in self._placed.at_name(peer.name):
            for life in [h for h in placed.holders if h.name == peer.name]:
                if life != peer.life or placed.id not in live:
                    self._lose(placed, life)
        executor.num_pending_tokens = sum(live.values())
        executor.num_attempts = sum(1 for p in self._placed.at_name(peer.name) if p.decode == peer.life)
        self._handoffs.wake(executor.life)
        self._watch_partners()
        self._refuse_never_fitting()
        self._announce()

    def _on_exited(self, life: Life) -> None:
        """The launcher has seen it: whatever was there is over; everyone may free what waited for this proof."""
        self._exited[life.name] = max(life.epoch, self._exited.get(life.name, 0))
        for name, peer in sorted(self._peers.items()):
            if peer.role.is_executor and peer.life != life:
                self._tell(name, m.Exited(life))
        for placed in self._placed.at_name(life.name):
            for holder in [h for h in placed.holders if h.name == life.name and h.epoch <= life.epoch]:
                self._placed.end_at(placed.id, holder)
                self._fail(placed, holder.name)

    def _lose(self, placed: Placed, holder: Life) -> None:
        """That executor no longer holds the attempt. If it decoded it, or would have been asked for it, the router
        resumes it; a prefill executor may have done its part: whoever decodes knows whether something is missing."""
        self._placed.end_at(placed.id, holder)
        self._prefixes.on_ended(placed.id, self._now)
        if placed.decode is None or placed.decode == holder:
            self._fail(placed, holder.name)

    def _fail(self, placed: Placed, detail: str) -> None:
        """The attempt cannot go on: its router resumes it, and whoever holds something of it drops that."""
        self._handoffs.remove(placed.id)
        self._prefixes.on_ended(placed.id, self._now)
        self._tell_life(placed.router, m.AttemptFailed(placed.id, Reason.PEER_LOST, detail))
        for other in placed.holders:
            self._tell_life(other, m.Abort(placed.id))

    def _watch_partners(self) -> None:
        """The pairs changed: who waits for a decode executor that is not there, and since when. A pair may close for a
        moment (quarantine), so a computed prompt is not given up at once."""
        self._alone = {w.submit.id: self._alone.get(w.submit.id, self._now) for w in self._placer.stranded()}

    def _fail_alone(self) -> None:
        """Prompts that no partner of their prefill executor could decode for too long go elsewhere."""
        for work_id, since in list(self._alone.items()):
            placed = self._placed.get(work_id)
            if placed is None or placed.decode is not None:
                del self._alone[work_id]
            elif self._now - since >= self.config.absent_s:
                del self._alone[work_id]
                self._fail(placed, "no partner")

    def _announce(self) -> None:
        roster = self._fleet.roster()
        self._said_can_serve = roster.can_serve
        for name, peer in sorted(self._peers.items()):
            if peer.role in (Role.ROUTER, Role.PREFILL, Role.LAUNCHER):
                self._tell(name, roster)

    # ---- the end of each turn

    def _finish_turn(self) -> None:
        self._expire()
        self._fail_alone()
        self._prefixes.expire(self._now)
        self._walk()
        self._out.extend(self._prefixes.take())
        self._out.extend(self._placer.waits.take())
        self._watch_absence()
        deadlines = self._arrivals.deadlines
        wakes = [at for at in (deadlines.first, self._prefixes.next_decision()) if at is not None]
        since = list(self._alone.values())
        if self._absent_since is not None and len(self._arrivals):
            since.append(self._absent_since)
        if since:
            wakes.append(min(since) + self.config.absent_s)
        self.next_wake = min(wakes) if wakes else None

    def _walk(self) -> None:
        for life, message in self._placer.walk(self._now):
            self._tell_life(life, message)

    def _expire(self) -> None:
        for handle in self._arrivals.deadlines.due(self._now):
            waiting = self._arrivals.get(handle)
            if waiting is not None:
                self._drop(waiting, Reason.DEADLINE, waited_s=self._now - waiting.arrived_at)

    # ---- refusing

    def _refuse_if_never_fits(self, waiting: Waiting) -> None:
        numbers = self._fleet.never_fits(waiting.submit.work)
        if numbers is not None:
            self._drop(waiting, Reason.NEVER_FITS, **numbers)

    def _refuse_never_fitting(self) -> None:
        """Executors changed: demands are computed again, and what fits nowhere any more is refused."""
        for waiting in self._arrivals.all():
            self._arrivals.set_demand(waiting, self._fleet.least_demand(waiting.submit.work))
            self._refuse_if_never_fits(waiting)
        for queue in (self._handoffs.due, self._handoffs.early):
            for waiting in queue.all():
                queue.set_demand(waiting, self._fleet.least_demand(waiting.submit.work))

    def _watch_absence(self) -> None:
        can_serve = self._fleet.can_serve()
        if can_serve != self._said_can_serve:
            self._announce()
        if can_serve:
            self._absent_since = None
            return
        if self._absent_since is None:
            self._absent_since = self._now
        if self._now - self._absent_since >= self.config.absent_s:
            for waiting in self._arrivals.all():
                self._drop(waiting, Reason.NO_EXECUTOR, absent_s=self._now - self._absent_since)

    def _drop(self, waiting: Waiting, reason: Reason, **numbers: float) -> None:
        self._arrivals.remove(waiting)
        self._refuse(waiting.submit.work.router.name, waiting.submit.id, reason, **numbers)

    def _refuse(self, router: str, work_id: AttemptId, reason: Reason, **numbers: float) -> None:
        self._count(f"refused_{reason.name.lower()}")
        self._tell(router, m.Refusal(work_id, reason, numbers))

    # ---- saying

    def _tell(self, name: str, message: Any) -> None:
        self._out.append(Send(name, message))

    def _tell_life(self, life: Life, message: Any) -> None:
        if self._is_up(life):
            self._tell(life.name, message)

    def _is_up(self, life: Life) -> bool:
        peer = self._peers.get(life.name)
        return peer is not None and peer.epoch == life.epoch

    def _count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1
