"""The HTTP side: connections, bodies, keys, errors and the access log."""
