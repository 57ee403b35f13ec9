"""The life of each peer's link: opened, connected, driven, broken, closed. Belongs to the transfer thread."""

from __future__ import annotations

from collections.abc import Callable

from baton.core.executor.events import (
    CloseTransport,
    ConnectTransport,
    Drive,
    OpenTransport,
    Piece,
    ThreadEvent,
    TransportClosed,
    TransportFailed,
    TransportOpened,
)
from baton.services.executor.transfer.counters import TransferCounters
from baton.services.executor.transfer.errors import TransportBroken
from baton.services.executor.transfer.link import Link, LinkCommand, LinkPhase, PeerKey
from baton.services.executor.transfer.peer_agent import PeerAgent, Scratch, Write
from baton.services.executor.transfer.region import KvRegion
from baton.services.executor.transfer.setup import SetupThread
from baton.services.executor.transfer.writer import PieceWriter


class Links:
    """Every link by (peer, epoch). An agent is with the set-up thread or with this one, never with both."""

    def __init__(
        self,
        region: KvRegion,
        name: str,
        counters: TransferCounters,
        post_event: Callable[[ThreadEvent], object],
        setup: SetupThread,
    ) -> None:
        self.writer: PieceWriter
        self._region = region
        self._name = name
        self._counters = counters
        self._post_event = post_event
        self._setup = setup
        self._scratch = Scratch()
        self._links: dict[PeerKey, Link] = {}
        self._driven: dict[PeerKey, Link] = {}
        self._num_names = 0  #: makes each agent's name its own, also for the same peer and epoch

    def __len__(self) -> int:
        return len(self._links)

    @property
    def has_driven(self) -> bool:
        return bool(self._driven)

    def of_piece(self, piece: Piece) -> Link | None:
        return self._links.get((piece.peer, piece.peer_epoch))

    def open(self, command: OpenTransport) -> None:
        key = (command.peer, command.peer_epoch)
        if key in self._links:
            self._post_event(TransportFailed(*key, "opened twice"))
            return
        link = self._links[key] = Link(key)
        self._num_names += 1
        name = f"{self._name}>{command.peer}#{command.peer_epoch}.{self._num_names}"
        link.is_in_setup = True
        self._setup.run(
            lambda: _open_agent(name, self._region, self._scratch),
            lambda opened: self._opened(link, *opened),
            lambda detail: self._ended(link, TransportFailed(*key, detail)),
        )

    def handle(self, command: LinkCommand) -> None:
        """What a link is told after its opening, in order; while its agent is away, it waits for it."""
        key = (command.peer, command.peer_epoch)
        link = self._links.get(key)
        if link is not None and link.is_in_setup:
            link.backlog.append(command)
        elif isinstance(command, Drive):
            self._set_driven(link, command.on)
        elif isinstance(command, ConnectTransport):
            self._connect(link, command)
        elif link is None:
            self._post_event(TransportClosed(*key))
        else:
            self._end(link, "its agent was closed", TransportClosed(*key))

    def break_(self, link: Link, detail: str) -> None:
        """The connection proves nothing any more: end its agent, then report its pieces and the failure."""
        self._end(link, detail, TransportFailed(*link.key, detail))

    def close_all(self) -> None:
        for key in list(self._links):
            self.handle(CloseTransport(*key))

    def drive(self) -> None:
        """Make progress for everything that peers write here now."""
        for link in list(self._driven.values()):
            detail = None
            try:
                link.connected_agent().drive()
            except TransportBroken as error:
                detail = str(error)
            if detail is not None:
                self.break_(link, detail)

    def _set_driven(self, link: Link | None, on: bool) -> None:
        if link is None or link.agent is None:
            return
        if on:
            self._driven[link.key] = link
        else:
            self._driven.pop(link.key, None)

    def _opened(self, link: Link, agent: PeerAgent, metadata: bytes) -> None:
        self._counters.num_agents_opened += 1
        link.agent = agent
        self._post_event(TransportOpened(*link.key, metadata, self._region.base_address))
        self._resume(link)

    def _connect(self, link: Link | None, command: ConnectTransport) -> None:
        if link is None or link.agent is None or link.phase is not LinkPhase.OPEN:
            self._post_event(TransportFailed(command.peer, command.peer_epoch, "connecting what is not open"))
            return
        agent = self._lend(link, LinkPhase.CONNECTING)
        self._setup.run(
            lambda: _first_write(agent, command),
            lambda write: self._first_write_started(link, write),
            lambda detail: self._connecting_failed(link, detail),
        )

    def _first_write_started(self, link: Link, write: Write) -> None:
        self.writer.watch(link, write)
        self._resume(link)

    def _connecting_failed(self, link: Link, detail: str) -> None:
        link.is_in_setup = False
        self.break_(link, detail)

    def _end(self, link: Link, reason: str, event: TransportClosed | TransportFailed) -> None:
        """Close the agent if there is one; when it is gone, report every piece that it had, and last `event`."""
        if link.agent is None:
            self._ended(link, event)
            return
        agent = self._lend(link, LinkPhase.FAILED)
        link.agent = None
        self._setup.run(agent.close, lambda _: self._agent_gone(link, reason, event), lambda detail: None)

    def _agent_gone(self, link: Link, reason: str, event: TransportClosed | TransportFailed) -> None:
        self._counters.num_agents_closed += 1
        for piece_id in link.take_unfinished():
            self.writer.fail(piece_id, reason)
        self._ended(link, event)

    def _ended(self, link: Link, event: TransportClosed | TransportFailed) -> None:
        link.phase = LinkPhase.FAILED
        if isinstance(event, TransportClosed):
            del self._links[link.key]
        self._post_event(event)
        self._resume(link)

    def _lend(self, link: Link, phase: LinkPhase) -> PeerAgent:
        """Give the agent to the set-up thread: nothing here touches it until `_resume`."""
        agent = link.connected_agent()
        link.phase = phase
        link.is_in_setup = True
        self._driven.pop(link.key, None)
        self.writer.forget(link)
        return agent

    def _resume(self, link: Link) -> None:
        """The agent is back, or gone: hear what was said meanwhile."""
        link.is_in_setup = False
        while link.backlog and not link.is_in_setup:
            self.handle(link.backlog.popleft())


def _open_agent(name: str, region: KvRegion, scratch: Scratch) -> tuple[PeerAgent, bytes]:
    agent = PeerAgent(name, region, scratch)
    return agent, agent.metadata()


def _first_write(agent: PeerAgent, command: ConnectTransport) -> Write:
    write = agent.connect(command.metadata, command.base_address, command.num_blocks)
    agent.start(write)
    return write
