"""The machine of one link: handshake, numbering, heartbeats; and the node that joins it to a deciding machine."""
