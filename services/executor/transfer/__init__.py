"""KV transfer over NIXL: one thread moves KV bytes, and nothing else in the executor touches a transport.

`thread.TransferThread` takes the transport commands of `baton.core.executor.events` and answers with its events.
It decides nothing about requests: which bytes go where, and in which order, is in the pieces.
"""
