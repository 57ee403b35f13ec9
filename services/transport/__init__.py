"""Control links between processes: ZeroMQ sockets, their keys and who may connect."""
