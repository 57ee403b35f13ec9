"""Frames over one end of a socket pair: a length of four bytes, then the bytes."""

from __future__ import annotations

import select
import socket
import struct
import threading

import msgspec

_LENGTH = struct.Struct("<I")


class Channel:
    """`send` may be called from several threads, `receive` from one.

    `send_timeout_s` bounds a `send` to an end that does not read: it raises OSError, and the channel is worth nothing.
    """

    def __init__(self, end: socket.socket, send_timeout_s: float) -> None:
        seconds = int(send_timeout_s)
        limit = struct.pack("ll", seconds, max(1, int((send_timeout_s - seconds) * 1e6)))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._socket = end
        self._lock = threading.Lock()

    def send(self, frame: bytes) -> None:
        """Raises OSError."""
        with self._lock:
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def tell(self, message: msgspec.Struct) -> None:
        """Raises OSError."""
        self.send(msgspec.msgpack.encode(message))

    def receive(self) -> bytes | None:
        """The next frame; None when the other end is closed or gone."""
        head = self._read(_LENGTH.size)
        return None if head is None else self._read(_LENGTH.unpack(head)[0])

    def is_silent(self, timeout_s: float) -> bool:
        """Whether neither a frame nor the end comes within so long."""
        return not select.select([self._socket], [], [], timeout_s)[0]

    def shut(self) -> None:
        """The other end, and a `receive` here, come to the end of the stream. Idempotent."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _read(self, length: int) -> bytes | None:
        parts = []
        while length:
            try:
                part = self._socket.recv(length, socket.MSG_WAITALL)
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def channel_pair(send_timeout_s: float) -> tuple[Channel, socket.socket]:
    """This end, and the one for another process."""
    own, other = socket.socketpair()
    return Channel(own, send_timeout_s), other


def inherited_channel(descriptor: int, send_timeout_s: float) -> Channel:
    return Channel(socket.socket(fileno=descriptor), send_timeout_s)
