"""The ready queue: what waits, in order, and the first of it that fits what is free.

`ReadyQueue()` orders its entries by (cls, vstart, arrival) ascending, then by handle. A handle is a number ≥ 0 that the
owner chose; -1 stands for none. Each entry has two demands and lies with those of like demands, powers of two apart, in
a tree that knows their minima; so `first_fit` never visits what cannot fit. All numbers are signed 64-bit.

- `push(handle, cls, vstart, arrival, demand_a, demand_b)`: ValueError for a handle that is negative or in the queue.
- `remove(handle)`: whether it was there. `first()`: the first handle, or -1.
- `first_fit(max_a, max_b, after=-1)`: the first handle, strictly after `after` unless that is -1, with
  demand_a ≤ max_a and demand_b ≤ max_b; -1 when there is none. A walk goes on with `after` = the entry that it skipped;
  when it removes an entry it goes on from the one before, since what did not fit then does not fit into less.
- `key(handle)`, `demand(handle)`, `set_demand(handle, a, b)`; KeyError when it is not there, as for `after`.
- `handles()`: all, in order (sorts them: not for every turn). `num_visited`: nodes that the last `first_fit` looked at.
- `check_invariants()`: raises RuntimeError when order, minima or handles are wrong.
"""

from baton.core.kv._ready_queue import ReadyQueue

__all__ = ["ReadyQueue"]
