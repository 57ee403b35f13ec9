"""The machine that owns the client's stream, its attempts, its deadline and its end."""
