"""`first_difference(a, b)`: the first position where two token sequences differ, or the length of the shorter one.

Each is bytes of little-endian int32, or any contiguous buffer of 32-bit integers.
"""

from baton.core.kv._prefix_compare import first_difference

__all__ = ["first_difference"]
