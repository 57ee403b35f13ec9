"""Entry point of the executor that prefills and decodes."""
