"""What crosses a process: messages, codec, handshake."""
