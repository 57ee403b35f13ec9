"""Other systems, started and asked as ours are."""
