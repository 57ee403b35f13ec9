"""The ready queue as a sorted list that is scanned from its start."""


class ReadyQueueTwin:
    def __init__(self) -> None:
        self.entries: dict[int, tuple[tuple[int, int, int], tuple[int, int]]] = {}  # handle -> key, demands

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, handle: int) -> bool:
        return handle in self.entries

    def push(self, handle: int, cls: int, vstart: int, arrival: int, demand_a: int, demand_b: int) -> None:
        if handle < 0 or handle in self.entries:
            raise ValueError(handle)
        self.entries[handle] = ((cls, vstart, arrival), (demand_a, demand_b))

    def remove(self, handle: int) -> bool:
        return self.entries.pop(handle, None) is not None

    def handles(self) -> list[int]:
        return sorted(self.entries, key=lambda handle: (self.entries[handle][0], handle))

    def first(self) -> int:
        return next(iter(self.handles()), -1)

    def first_fit(self, max_a: int, max_b: int, after: int = -1) -> int:
        order = self.handles()
        if after != -1:
            if after not in self.entries:
                raise KeyError(after)
            order = order[order.index(after) + 1 :]
        return next((handle for handle in order if self._fits(handle, max_a, max_b)), -1)

    def _fits(self, handle: int, max_a: int, max_b: int) -> bool:
        demand_a, demand_b = self.entries[handle][1]
        return demand_a <= max_a and demand_b <= max_b

    def key(self, handle: int) -> tuple[int, int, int]:
        return self.entries[handle][0]

    def demand(self, handle: int) -> tuple[int, int]:
        return self.entries[handle][1]

    def set_demand(self, handle: int, demand_a: int, demand_b: int) -> None:
        self.entries[handle] = (self.entries[handle][0], (demand_a, demand_b))
