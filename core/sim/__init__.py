"""The world that the machines run in without a socket, a thread or a clock."""
