"""Reads one ZeroMQ socket from the event loop: whatever has come is taken at once, nothing is ever awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

_NOBLOCK = int(zmq.NOBLOCK)  # arithmetic on the library's enumerations costs more than a receive
MESSAGES_PER_CALL = 256  #: then others get their share of the loop


class SocketReader:
    """Hands every message of `socket` to `receive`, in order.

    The socket's descriptor signals edges only, and a send may swallow one: whoever sends must `nudge` afterwards.
    No receive is ever pending, so none can be cancelled with a message in it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        socket: zmq.Socket[bytes],
        receive: Callable[[list[zmq.Frame]], None],
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._receive = receive
        self._is_due = False
        self._is_closed = False
        self._descriptor = int(socket.getsockopt(zmq.FD))
        loop.add_reader(self._descriptor, self._take)
        self.nudge()

    def nudge(self) -> None:
        """Look for messages soon."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._take_due)

    def close(self) -> None:
        """Read nothing more. The socket stays open."""
        self._is_closed = True
        self._loop.remove_reader(self._descriptor)

    def _take_due(self) -> None:
        self._is_due = False
        self._take()

    def _take(self) -> None:
        for _ in range(MESSAGES_PER_CALL):
            if self._is_closed:
                return
            try:
                frames = [self._socket.recv(_NOBLOCK, copy=False)]
            except zmq.Again:
                return
            while frames[-1].more:  # a message comes whole
                frames.append(self._socket.recv(_NOBLOCK, copy=False))
            self._receive(frames)
        self.nudge()
