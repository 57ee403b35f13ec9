"""What a writer has posted and not heard of, by books of the simulator's own, and the bounds that it must keep.

Every bound is of bytes, and each pair may always have one piece on its way, however small the bound.
"""

from __future__ import annotations

from baton.core.config import ExecutorConfig
from baton.core.executor.events import Piece
from baton.core.layout import KvLayout
from baton.core.sim.env import Env

Key = tuple[str, int]  #: a life of a peer


class InFlight:
    """The books of one writer's life."""

    def __init__(self, env: Env, own: Key, layout: KvLayout, config: ExecutorConfig) -> None:
        self.windows: dict[Key, int] = {}  #: bytes that a peer allows
        self._env = env
        self._own = own
        self._layout = layout
        self._config = config
        self._pieces: dict[int, tuple[Key, int]] = {}  #: posted and not heard of: whereto, bytes
        self._posted: dict[Key, list[int]] = {}  #: the same by peer: [pieces, bytes]
        self._measured: set[Key] = set()  #: peers at whose agent of now a piece has landed

    def opens(self, key: Key) -> None:
        """There will be a new agent: nothing is known of it."""
        self._measured.discard(key)

    def sent(self, piece: Piece) -> None:
        """The machine posts a piece."""
        key = (piece.peer, piece.peer_epoch)
        length = (piece.end_slot - piece.first_slot) * (piece.end_plane - piece.first_plane)
        num_bytes = length * self._layout.slot_bytes
        if not 0 < num_bytes <= self._config.piece_bytes:
            self._fail("piece size", f"{piece} has {num_bytes} bytes of at most {self._config.piece_bytes}")
        if piece.piece_id in self._pieces:
            self._fail("piece ids are unique", f"{piece}")
        self._pieces[piece.piece_id] = (key, num_bytes)
        posted = self._posted.setdefault(key, [0, 0])
        posted[0] += 1
        posted[1] += num_bytes
        self._check(key, posted)

    def heard(self, piece_id: int, has_landed: bool) -> None:
        """The machine is about to hear the end of this piece."""
        key, num_bytes = self._pieces.pop(piece_id)
        if has_landed:
            self._measured.add(key)
        self._posted[key][0] -= 1
        self._posted[key][1] -= num_bytes

    def bytes_to(self, key: Key) -> int:
        """Bytes on their way to that peer, but for a single piece: that one may always go."""
        num_pieces, num_bytes = self._posted.get(key, (0, 0))
        return num_bytes if num_pieces > 1 else 0

    def _check(self, key: Key, posted: list[int]) -> None:
        window = self.windows.get(key)
        if window is None:
            self._fail("window", f"posts to {key} without a grant")
        elif posted[0] > 1 and posted[1] > window:
            self._fail("window", f"{posted} in flight to {key}, window {window}")
        elif self._config.window == "adaptive" and key not in self._measured and posted[1] > self._config.piece_bytes:
            self._fail("window", f"{posted} in flight to {key}, which is not measured")
        total = sum([num_bytes for _, num_bytes in self._posted.values()])
        if len(self._pieces) > 1 and total > self._config.total_window_bytes:
            self._fail("window", f"{total} bytes in flight of {self._config.total_window_bytes}")

    def _fail(self, law: str, detail: str) -> None:
        self._env.fail(law, f"{self._own[0]}/{self._own[1]}: {detail}")
