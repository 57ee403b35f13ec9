"""The ledger as a dictionary."""


class LedgerTwin:
    def __init__(self) -> None:
        self.accounts: dict[int, tuple[int, int]] = {}

    def open(self, executor: int, blocks: int, slots: int) -> None:
        if executor < 0 or executor >= 65536 or blocks < 0 or slots < 0:
            raise ValueError(executor)
        self.accounts[executor] = (blocks, slots)

    def close(self, executor: int) -> None:
        del self.accounts[executor]

    def grant(self, executor: int, blocks: int, slots: int) -> None:
        have_blocks, have_slots = self.accounts[executor]
        if blocks < 0 or slots < 0:
            raise ValueError((blocks, slots))
        self.accounts[executor] = (have_blocks + blocks, have_slots + slots)

    def try_spend(self, executor: int, blocks: int, slots: int) -> bool:
        have_blocks, have_slots = self.accounts[executor]
        if blocks < 0 or slots < 0:
            raise ValueError((blocks, slots))
        if blocks > have_blocks or slots > have_slots:
            return False
        self.accounts[executor] = (have_blocks - blocks, have_slots - slots)
        return True

    def available(self, executor: int) -> tuple[int, int]:
        return self.accounts[executor]

    def max_available(self) -> tuple[int, int]:
        credits = list(self.accounts.values())
        return max((blocks for blocks, _ in credits), default=0), max((slots for _, slots in credits), default=0)

    def executors(self) -> list[int]:
        return sorted(self.accounts)
