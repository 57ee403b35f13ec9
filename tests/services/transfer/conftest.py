"""Real processes at both ends of real transports; the test stands where the control link is."""

from __future__ import annotations

import importlib.util
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from baton.core.executor.events import (
    ConnectTransport,
    Drive,
    OpenTransport,
    PieceFailed,
    PieceLanded,
    ThreadEvent,
    TransportConnected,
    TransportOpened,
)
from baton.core.layout import KvLayout

IS_NIXL_INSTALLED = any(importlib.util.find_spec(name) is not None for name in ("nixl_cu13", "nixl_cu12"))
collect_ignore_glob = [] if IS_NIXL_INSTALLED else ["test_*.py"]

TRANSPORTS = {"tcp": "tcp,self", "shared-memory": "tcp,sm,self"}
PEER_PROCESS = Path(__file__).with_name("peer_process.py")
PATIENCE_S = 60.0  #: bounds a test that hangs; nothing is measured against it
POISON = 0xA5
Event = TypeVar("Event")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # annotations of its structs are resolved there
    spec.loader.exec_module(module)
    return module


peer_process = _load(PEER_PROCESS)


class PeerProcess:
    """A running end: `send` commands, `expect` events in order, `memory` is its KV memory: uint8[num_blocks, bytes]."""

    def __init__(self, options: peer_process.Options, transports: str) -> None:  # type: ignore[name-defined]
        self.options = options
        self.name: str = options.name
        shape = (options.num_blocks, options.layout.block_bytes)
        self.memory = np.memmap(options.memory_path, np.uint8, "w+", shape=shape)
        self.events: queue.Queue[ThreadEvent | peer_process.Crashed | None] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, str(PEER_PROCESS), msgspec.json.encode(options).decode()],
            env={**os.environ, "UCX_TLS": transports},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, command: msgspec.Struct) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(command) + b"\n")
        self.process.stdin.flush()

    def expect(self, kind: type[Event]) -> Event:
        event = self.events.get(timeout=PATIENCE_S)
        assert isinstance(event, kind), f"{self.name}: {event}, not {kind.__name__}"
        return event

    def outcomes(self, count: int) -> dict[int, str | None]:
        """What became of the next `count` pieces, in the order of their reports: None if landed, else why not."""
        found: dict[int, str | None] = {}
        while len(found) < count:
            event = self.expect(PieceLanded | PieceFailed)  # type: ignore[arg-type]
            assert event.piece_id not in found, "a piece was reported twice"
            found[event.piece_id] = event.detail if isinstance(event, PieceFailed) else None
        return found

    def end(self) -> None:
        """Let it stop by itself if it still runs; kill it if it cannot."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            self.process.kill()
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            self.process.stdout.close()

    def kill(self) -> None:
        """End it at once, and return when its exit was seen."""
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(ThreadEvent | peer_process.Crashed)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.put(decoder.decode(line))
        self.events.put(None)


class Stage:
    """Starts peers on one transport and joins them; ends them all."""

    def __init__(self, folder: Path, transports: str) -> None:
        self.folder = folder
        self.transports = transports
        self.peers: list[PeerProcess] = []

    def start(self, name: str, layout: KvLayout, num_blocks: int, **options: object) -> PeerProcess:
        path = self.folder / f"{name}-{len(self.peers)}.kv"
        peer = PeerProcess(peer_process.Options(name, str(path), num_blocks, layout, **options), self.transports)
        self.peers.append(peer)
        return peer

    def connect(self, writer: PeerProcess, receiver: PeerProcess, epoch: int = 1) -> None:
        """The handshake: both open, the receiver is driven, the writer connects and proves it."""
        receiver.send(OpenTransport(writer.name, epoch))
        opened = receiver.expect(TransportOpened)
        receiver.send(Drive(writer.name, epoch, True))
        writer.send(OpenTransport(receiver.name, epoch))
        writer.expect(TransportOpened)
        num_blocks = receiver.options.num_blocks
        writer.send(ConnectTransport(receiver.name, epoch, opened.metadata, opened.base_address, num_blocks))
        assert writer.expect(TransportConnected) == TransportConnected(receiver.name, epoch)


@pytest.fixture(params=list(TRANSPORTS))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Over each transport."""
    yield from _staged(Stage(tmp_path, TRANSPORTS[request.param]))


@pytest.fixture
def tcp_stage(tmp_path: Path) -> Iterator[Stage]:
    """Over TCP, where nothing lands unless the receiver is driven."""
    yield from _staged(Stage(tmp_path, TRANSPORTS["tcp"]))


@pytest.fixture(scope="module")
def module_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """For tests that leave the peers as they were."""
    yield from _staged(Stage(tmp_path_factory.mktemp("stage"), TRANSPORTS["tcp"]))


def _staged(stage: Stage) -> Iterator[Stage]:
    yield stage
    for peer in stage.peers:
        peer.end()
        while not peer.events.empty():
            event = peer.events.get()
            assert not isinstance(event, peer_process.Crashed), event


@pytest.fixture(scope="module")
def layout() -> KvLayout:
    """Small: 4 KV layers, 8 planes of 16 slots of 64 bytes: 8 KiB a block."""
    return KvLayout(4, 2, 8, "float32", 16, "model", "tokenizer")


@pytest.fixture
def large_layout() -> KvLayout:
    """4 MiB a block: whole blocks are pieces of the largest size."""
    return KvLayout(16, 16, 64, "float32", 32, "model", "tokenizer")


@pytest.fixture
def fill() -> Callable[[PeerProcess, int], None]:
    """Random bytes into all of a peer's memory."""

    def fill_memory(peer: PeerProcess, seed: int) -> None:
        peer.memory[:] = np.random.default_rng(seed).integers(0, 256, peer.memory.shape, np.uint8)

    return fill_memory
