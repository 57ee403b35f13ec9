"""One end of a transfer as a process of its own: commands on stdin, events on stdout, one JSON document a line.

Its KV memory is a shared mapping of a file, so that the test fills and checks it without asking, even after a kill.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import msgspec

from baton.core.executor.events import Piece, ThreadEvent
from baton.core.layout import KvLayout
from baton.services.executor.transfer.environment import configure_transport_environment


class Options(msgspec.Struct, frozen=True):
    name: str
    memory_path: str
    num_blocks: int
    layout: KvLayout
    faults: dict[int, str] = {}  #: by piece id
    max_unfinished_pieces: int = 1 << 16
    max_piece_bytes: int = 4 << 20


class Crashed(msgspec.Struct, frozen=True, tag=100):
    detail: str


def run(options: Options) -> None:
    configure_transport_environment(loopback=True)
    from baton.services.executor.transfer.region import KvRegion
    from baton.services.executor.transfer.thread import TransferCommand, TransferThread

    with Path(options.memory_path).open("r+b") as file:
        memory = mmap.mmap(file.fileno(), options.num_blocks * options.layout.block_bytes)
    region = KvRegion(ctypes.addressof(ctypes.c_char.from_buffer(memory)), options.num_blocks, options.layout)

    def report(event: ThreadEvent | Crashed) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
        sys.stdout.buffer.flush()

    def fault_of(piece: Piece) -> str | None:
        return options.faults.get(piece.piece_id)

    thread = TransferThread(
        region,
        options.name,
        report,
        lambda error: report(Crashed(repr(error))),
        max_piece_bytes=options.max_piece_bytes,
        faults=fault_of,
        max_unfinished_pieces=options.max_unfinished_pieces,
    )
    thread.start()
    decoder = msgspec.json.Decoder(TransferCommand)
    for line in sys.stdin.buffer:
        thread.submit(decoder.decode(line))
    thread.stop()


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Options))
