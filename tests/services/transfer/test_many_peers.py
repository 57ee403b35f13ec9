"""One writer and several receivers; and what a process on loopback listens on."""

from pathlib import Path

from baton.core.executor.events import CloseTransport, Piece, PieceLanded, Post, TransportClosed

LISTENING = "0A"


def test_every_peer_gets_its_own_pieces_in_order(stage, layout, fill):
    writer = stage.start("prefill", layout, 32)
    receivers = [stage.start(f"decode-{i}", layout, 32) for i in range(3)]
    fill(writer, 1)
    for receiver in receivers:
        stage.connect(writer, receiver)
    pieces = [
        Piece(100 * i + n, receiver.name, 1, (7 * i + n) % 32, n, 0, 16, 0, 8)
        for i, receiver in enumerate(receivers)
        for n in range(20)
    ]
    writer.send(Post(tuple(pieces)))
    outcomes = writer.outcomes(60)
    assert set(outcomes.values()) == {None}
    for i, receiver in enumerate(receivers):
        assert [n for n in outcomes if n // 100 == i] == [100 * i + n for n in range(20)]
        for n in range(20):
            assert (receiver.memory[n] == writer.memory[(7 * i + n) % 32]).all()


def test_closing_one_peer_touches_no_other(stage, layout, fill):
    writer, one, other = (stage.start(name, layout, 32) for name in ("prefill", "one", "other"))
    fill(writer, 1)
    stage.connect(writer, one)
    stage.connect(writer, other)
    writer.send(CloseTransport("one", 1))
    writer.send(Post((Piece(1, "other", 1, 5, 6, 0, 16, 0, 8),)))
    events = [writer.expect(TransportClosed | PieceLanded) for _ in range(2)]
    assert {type(event) for event in events} == {TransportClosed, PieceLanded}
    assert (other.memory[6] == writer.memory[5]).all()


def test_nothing_listens_beyond_loopback(stage, layout):
    writer, receiver = (stage.start(name, layout, 32) for name in ("prefill", "decode"))
    stage.connect(writer, receiver)
    addresses = listening_addresses(writer.process.pid) + listening_addresses(receiver.process.pid)
    assert addresses, "the transport listens for its peers"
    assert set(addresses) == {"127.0.0.1"}


def listening_addresses(pid):
    """Local addresses of the process's listening TCP sockets, as the kernel lists them."""
    links = [descriptor.readlink().name for descriptor in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                found.append(as_address(fields[1].partition(":")[0]))
    return found


def as_address(digits):
    """Dotted IPv4 of the kernel's hexadecimal host-order digits; anything longer as it stands."""
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(digits))) if len(digits) == 8 else digits
