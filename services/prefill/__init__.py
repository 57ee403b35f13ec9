"""Entry point of the prefill executor."""
