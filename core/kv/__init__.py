"""What the machines decide with about KV memory: block hashes, the block pool with its prefix index, queue and ledger.

The work is done by extensions built from `csrc/`; there is no Python fallback.
"""

from importlib.util import find_spec

EXTENSIONS = ("_block_hash", "_block_pool", "_ledger", "_prefix_compare", "_ready_queue")


def require(extensions: tuple[str, ...]) -> None:
    """Raise ImportError, with the command that builds them, if one of these extensions is not built."""
    missing = [name for name in extensions if find_spec(f"{__name__}.{name}") is None]
    if missing:
        raise ImportError(f"{__name__} lacks its extensions {', '.join(missing)}: build them with `make install`")


require(EXTENSIONS)
