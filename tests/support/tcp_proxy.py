"""A TCP link that a test can cut, freeze and heal."""

from __future__ import annotations

import asyncio


class TcpProxy:
    """Forwards connections to `target_port` on loopback: `start`, then `cut`, `freeze`, `heal`, then `close`."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_cut = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Reset every connection, and each new one at once."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def freeze(self) -> None:
        """Bytes stop on their way; no connection ends."""
        self._flowing.clear()

    def heal(self) -> None:
        self._is_cut = False
        self._flowing.set()

    async def close(self) -> None:
        self.cut()
        self._flowing.set()
        if self._server is not None:
            self._server.close()
        if self._pumps:
            await asyncio.wait(self._pumps)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            pump = asyncio.ensure_future(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
