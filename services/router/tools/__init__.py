"""Tool calling, the pure part: what a request may ask for, what templates get, what a model's output means."""
