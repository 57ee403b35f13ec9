"""Who may connect: answers the questions that ZeroMQ asks about each new connection (ZAP, RFC 27) from the key ring."""

from __future__ import annotations

import asyncio

import zmq

from baton.services.transport.keys import KeyRing
from baton.services.transport.reader import SocketReader

ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"baton"
_VERSION = b"1.0"
_NUM_FRAMES = 7  #: version, id, domain, address, identity, mechanism, key


class Doorkeeper:
    """Lets in whoever proves one of the deployment's keys, under the name of that key."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: zmq.Context[zmq.Socket[bytes]], ring: KeyRing) -> None:
        self.num_refused = 0
        self._ring = ring
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(ENDPOINT)
        self._reader = SocketReader(loop, self._socket, self._answer)

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def _answer(self, frames: list[zmq.Frame]) -> None:
        question = [frame.bytes for frame in frames]
        name = None
        if len(question) == _NUM_FRAMES and question[0] == _VERSION and question[5] == b"CURVE":
            name = self._ring.name_of(question[6])
        request_id = question[1] if len(question) > 1 else b""
        if name is None:
            self.num_refused += 1
            self._socket.send_multipart([_VERSION, request_id, b"400", b"unknown key", b"", b""])
        else:
            self._socket.send_multipart([_VERSION, request_id, b"200", b"OK", name.encode("ascii"), b""])
        self._reader.nudge()
