"""Grammars that outputs must match: built and checked by the router, turned into token masks by the executor."""
