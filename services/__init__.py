"""Baton's processes: sockets, threads and tensors around the machines of `baton.core`, whose commands they perform."""
