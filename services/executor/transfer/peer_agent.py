"""One NIXL agent for one peer and epoch, so that closing it ends everything of that peer and touches no other.

Not thread-safe: whoever holds the object is the only one to call it. No progress thread: a write completes only while
this end polls it and, over sockets, while the other end drives its own agent.
"""

from __future__ import annotations

import ctypes
import enum
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from baton.core.errors import InvariantViolated
from baton.core.executor.events import Piece
from baton.services.executor.transfer.errors import PieceRefused, TransportBroken
from baton.services.executor.transfer.metadata import SCRATCH_BYTES, AgentMetadata, decode_metadata, encode_metadata
from baton.services.executor.transfer.nixl_library import ERRORS as NIXL_ERRORS
from baton.services.executor.transfer.nixl_library import api as nixl
from baton.services.executor.transfer.region import KvRegion, is_whole_block

LOCAL = "NIXL_INIT_AGENT"


class WriteState(enum.Enum):
    IN_PROGRESS = "PROC"
    DONE = "DONE"


class Write:
    """One posted write. `handle` is NIXL's; it is released only when proven over, or with the agent."""

    __slots__ = ("handle", "num_bytes", "piece_ids", "post_s", "posted_at", "state")

    def __init__(self, piece_ids: tuple[int, ...], num_bytes: int, handle: Any) -> None:
        self.piece_ids = piece_ids  #: none for the first write of a connection
        self.num_bytes = num_bytes
        self.handle = handle
        self.posted_at = 0.0  #: when the post was called, on the clock of the events
        self.post_s = 0.0  #: how long the post itself took
        self.state = WriteState.IN_PROGRESS


class Scratch:
    """A page of this process that holds nothing; the first write of every connection goes from and to such pages.

    It lives as long as the process's transfers: a late first write of any peer must find it still there.
    """

    def __init__(self) -> None:
        self._page = ctypes.create_string_buffer(SCRATCH_BYTES)
        self.address = ctypes.addressof(self._page)


class PeerAgent:
    """Open on construction; then `connect`, `prepare`, `start`, `poll` (writer) or `drive` (receiver); `close` last.

    After TransportBroken only `close` makes sense.
    """

    def __init__(self, name: str, region: KvRegion, scratch: Scratch) -> None:
        self._region = region
        self._scratch = scratch
        self._lists: list[Any] = []  #: prepared descriptor lists: all blocks here, all blocks there
        self._remote_name: Any = None
        self._remote: KvRegion | None = None
        self._started: set[Write] = set()  #: not proven over
        try:
            self._agent = nixl.nixl_agent(name, nixl.nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
            kv = (region.base_address, region.num_bytes, region.device_id, "")
            self._registrations = [
                self._agent.register_memory([kv], region.memory_type),
                self._agent.register_memory([(scratch.address, SCRATCH_BYTES, 0, "")], "DRAM"),
            ]
        except NIXL_ERRORS as error:
            raise TransportBroken(f"opening the agent: {error}") from error

    def metadata(self) -> bytes:
        region = self._region
        agent = self._agent.get_agent_metadata()
        return encode_metadata(AgentMetadata(agent, self._scratch.address, region.memory_type, region.device_id))

    def connect(self, metadata: bytes, base_address: int, num_blocks: int) -> Write:
        """Load the peer's agent, prepare both lists and the first write. Raises BadMessage or TransportBroken."""
        peer = decode_metadata(metadata)
        layout = self._region.layout
        remote = KvRegion(base_address, num_blocks, layout, peer.memory_type, peer.device_id)
        try:
            self._remote_name = self._agent.add_remote_agent(peer.agent)
            self._lists = [self._prepare_blocks(LOCAL, self._region), self._prepare_blocks(self._remote_name, remote)]
            source = self._agent.get_xfer_descs([(self._scratch.address, SCRATCH_BYTES, 0)], "DRAM")
            target = self._agent.get_xfer_descs([(peer.scratch_address, SCRATCH_BYTES, 0)], "DRAM")
            handle = self._agent.initialize_xfer("WRITE", source, target, self._remote_name)
        except NIXL_ERRORS as error:
            raise TransportBroken(f"connecting: {error}") from error
        self._remote = remote
        return Write((), SCRATCH_BYTES, handle)

    @property
    def remote(self) -> KvRegion:
        """The peer's memory, once connected."""
        if self._remote is None:
            raise PieceRefused("the transport is not connected")
        return self._remote

    def prepare(self, pieces: Sequence[Piece], num_bytes: int) -> Write:
        """One write of pieces that were checked, all whole blocks or all parts; nothing moves yet. Raises
        PieceRefused."""
        try:
            return Write(tuple([piece.piece_id for piece in pieces]), num_bytes, self._make(pieces))
        except NIXL_ERRORS as error:
            raise PieceRefused(f"preparing the write: {error}") from error

    def start(self, write: Write) -> None:
        """Post the write; this may copy inside the call. Raises TransportBroken: the write may be under way."""
        self._started.add(write)
        write.posted_at = time.monotonic()
        state = self._call("posting", self._agent.transfer, write.handle)
        write.post_s = time.monotonic() - write.posted_at
        self._settle(write, state)

    def poll(self, write: Write) -> WriteState:
        """Make progress and look at the write; a DONE one is released. Raises TransportBroken."""
        if write.state is WriteState.IN_PROGRESS:
            self._settle(write, self._call("polling", self._agent.check_xfer_state, write.handle))
        return write.state

    def drive(self) -> None:
        """Make progress for what the peer writes here. Notices of peers mean nothing and are dropped."""
        self._call("driving", self._agent.get_new_notifs)

    def close(self) -> None:
        """End the agent with whatever is in progress.

        Order: handles, descriptor lists, remote agent, memory, agent. Errors of a dead peer are expected and ignored.
        """
        self._release_handles()
        if self._remote_name is not None:
            self._try(self._agent.remove_remote_agent, self._remote_name)
        for registration in self._registrations:
            self._try(self._agent.deregister_memory, registration)
        native = weakref.ref(self._agent.agent)
        self._agent = None
        if native() is not None:
            raise InvariantViolated("a closed agent is still referenced: its connections live on")

    def _release_handles(self) -> None:
        """A method of its own: every handle refers to the agent, and its locals end here."""
        for write in self._started:
            self._try(self._agent.release_xfer_handle, write.handle)
            write.handle = None
        self._started.clear()
        for prepared in self._lists:
            self._try(prepared.release)
        self._lists = []

    def _prepare_blocks(self, owner: Any, region: KvRegion) -> Any:
        rows = np.array([region.block_rows()], dtype=np.uint64)
        return self._agent.prep_xfer_dlist(owner, rows, region.memory_type)

    def _make(self, pieces: Sequence[Piece]) -> Any:
        """A handle for the pieces: from the prepared lists if they are whole blocks, else from their runs."""
        remote = self.remote
        if is_whole_block(pieces[0], self._region.layout):
            local_list, remote_list = self._lists
            sources = [piece.source_block for piece in pieces]
            targets = [piece.destination_block for piece in pieces]
            return self._agent.make_prepped_xfer("WRITE", local_list, sources, remote_list, targets)
        source = [run for piece in pieces for run in self._region.descriptors(piece.source_block, piece)]
        target = [run for piece in pieces for run in remote.descriptors(piece.destination_block, piece)]
        return self._agent.initialize_xfer(
            "WRITE",
            self._agent.get_xfer_descs(source, self._region.memory_type),
            self._agent.get_xfer_descs(target, remote.memory_type),
            self._remote_name,
        )

    def _settle(self, write: Write, state: str) -> None:
        if state == "ERR":
            raise TransportBroken("a write ended in an error")
        if state == "DONE":
            write.state = WriteState.DONE
            self._started.discard(write)
            self._agent.release_xfer_handle(write.handle)
            write.handle = None

    def _call(self, what: str, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except NIXL_ERRORS as error:
            raise TransportBroken(f"{what}: {error}") from error

    def _try(self, function: Any, *args: Any) -> None:
        try:
            function(*args)
        except NIXL_ERRORS:
            return
