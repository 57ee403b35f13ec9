"""The machine that decides about steps: pool, sequences, walk, transfers, outbox."""
