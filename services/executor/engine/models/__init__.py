"""Decoder models as flat functions of packed tokens over paged KV."""
