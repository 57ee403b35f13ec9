"""How the block pool refuses: for want of blocks, or because its caller's books are wrong."""


class PoolExhausted(Exception):
    """Fewer blocks are free than were asked for; nothing was allocated."""

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(f"{needed} blocks needed, {free} free")
        self.needed = needed
        self.free = free


class PoolCorrupt(RuntimeError):
    """A bug: a block released twice, an id or hash that the pool does not know, or a broken invariant."""
