"""What the machines decide with about KV memory: block hashes, the block pool with its prefix index, queue and ledger."""
