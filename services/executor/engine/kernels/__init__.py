"""Attention over paged KV memory."""
