"""The machine that decides about requests: queue, credit, placement."""
