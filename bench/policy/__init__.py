"""What each scheduling policy does to the real stack: one module a question, asked by `bench/policies.py`."""
