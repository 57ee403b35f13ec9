"""The admission ledger: what each executor granted and nobody spent yet.

`Ledger()` keeps one account for each executor id (0 … 65,535) in two resources, blocks and slots. Nothing is ever
below zero. An executor without an open account raises KeyError, a negative amount ValueError.

- `open(executor, blocks, slots)`: starts the account with exactly this credit, whatever it held before.
- `close(executor)`: forgets it. `grant(executor, blocks, slots)`: adds to it.
- `try_spend(executor, blocks, slots)`: takes both amounts, or neither and returns False.
- `available(executor)`: (blocks, slots). `executors()`: the open accounts, ascending.
- `max_available()`: for each resource the most that one executor has, not necessarily the same one for both: nothing
  that demands more fits anywhere. (0, 0) without executors.
- `check_invariants()`: raises RuntimeError when an account is overdrawn.
"""

from baton.core.kv._ledger import Ledger

__all__ = ["Ledger"]
