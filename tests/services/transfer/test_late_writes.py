"""After a writer died in the middle of its writes, closing the receiver's agent for it ends them (design, rule 6).

The receiver may then reuse the blocks. Two controls show what is no proof: over TCP bytes go on landing from the
receiver's socket while its agent lives, after the writer's death and also after a living writer closed its own agent.
"""

import os
import signal

import numpy as np
import pytest

from baton.core.executor.events import (
    CloseTransport,
    Drive,
    OpenTransport,
    Piece,
    PieceFailed,
    PieceLanded,
    Post,
    TransportClosed,
    TransportFailed,
    TransportOpened,
)

NUM_BLOCKS = 8  # of 4 MiB
NUM_LOOKS = 20  #: over all of the memory, each a pass of some milliseconds

LAST = 1000  #: id of a piece that fails by injection


def whole_blocks(layout, count):
    """`count` pieces of 4 MiB, over and over the same blocks."""
    return tuple(
        Piece(i, "decode", 1, i % NUM_BLOCKS, i % NUM_BLOCKS, 0, layout.block_size, 0, layout.num_planes)
        for i in range(count)
    )


def stage_writes(stage, layout, fill):
    writer = stage.start("prefill", layout, NUM_BLOCKS, faults={LAST: "fail"})
    receiver = stage.start("decode", layout, NUM_BLOCKS)
    fill(writer, 1)
    receiver.memory[:] = 0
    stage.connect(writer, receiver)
    return writer, receiver


def changed_bytes(receiver):
    """Poison all of the memory, look at it again and again, and count what did not stay poisoned."""
    receiver.memory[:] = 0xA5
    return sum(int(np.count_nonzero(receiver.memory != 0xA5)) for _ in range(NUM_LOOKS))


def close(receiver, peer="prefill", epoch=1):
    """Close and wait for the word; that the connection broke may have been reported before."""
    receiver.send(CloseTransport(peer, epoch))
    event = receiver.expect(TransportClosed | TransportFailed)
    return event if isinstance(event, TransportClosed) else receiver.expect(TransportClosed)


@pytest.mark.parametrize("stops_first", [False, True], ids=["killed", "stopped-then-killed"])
@pytest.mark.parametrize("num_landed", [1, 20])
def test_no_byte_of_a_dead_writer_lands_once_its_agent_is_closed(stage, large_layout, fill, stops_first, num_landed):
    writer, receiver = stage_writes(stage, large_layout, fill)
    writer.send(Post(whole_blocks(large_layout, 400)))
    for _ in range(num_landed):
        writer.expect(PieceLanded)
    if stops_first:
        os.kill(writer.process.pid, signal.SIGSTOP)
    writer.kill()
    assert close(receiver) == TransportClosed("prefill", 1)
    assert changed_bytes(receiver) == 0


def test_no_byte_lands_after_closing_an_agent_whose_socket_is_still_full(tcp_stage, large_layout, fill):
    writer, receiver = stage_writes(tcp_stage, large_layout, fill)
    rest(receiver)
    fill_sockets(writer, receiver, large_layout)
    writer.kill()
    assert close(receiver) == TransportClosed("prefill", 1)
    assert changed_bytes(receiver) == 0


def test_bytes_of_a_dead_writer_do_land_while_its_agent_lives(tcp_stage, large_layout, fill):
    writer, receiver = stage_writes(tcp_stage, large_layout, fill)
    rest(receiver)
    fill_sockets(writer, receiver, large_layout)
    writer.kill()
    await_late_bytes(receiver)


def test_bytes_do_land_after_the_writer_alone_closed_its_agent(tcp_stage, large_layout, fill):
    writer, receiver = stage_writes(tcp_stage, large_layout, fill)
    rest(receiver)
    fill_sockets(writer, receiver, large_layout)
    close_with_pieces(writer)
    await_late_bytes(receiver)


def test_no_byte_lands_once_both_ends_closed_their_agents(stage, large_layout, fill):
    writer, receiver = stage_writes(stage, large_layout, fill)
    rest(receiver)
    fill_sockets(writer, receiver, large_layout)
    close_with_pieces(writer)
    assert close(receiver) == TransportClosed("prefill", 1)
    assert changed_bytes(receiver) == 0


def test_a_living_writer_learns_that_the_receiver_closed_and_answers_for_every_piece(stage, large_layout, fill):
    writer, receiver = stage_writes(stage, large_layout, fill)
    writer.send(Post(whole_blocks(large_layout, 400)))
    writer.expect(PieceLanded)
    close(receiver)
    answered = [0]
    while not isinstance(event := writer.expect(PieceLanded | PieceFailed | TransportFailed), TransportFailed):
        answered.append(event.piece_id)
    assert answered == list(range(400))


def rest(receiver):
    """Drive no more, and come back when that is so: it opens agents after what it was told before."""
    receiver.send(Drive("prefill", 1, False))
    receiver.send(OpenTransport("nobody", 1))
    receiver.expect(TransportOpened)


def close_with_pieces(writer):
    """Close the writer's end; whatever was not proven is reported as failed before the agent is said to be gone."""
    writer.send(CloseTransport("decode", 1))
    event = writer.expect(PieceLanded | PieceFailed | TransportClosed)
    while not isinstance(event, TransportClosed):
        event = writer.expect(PieceLanded | PieceFailed | TransportClosed)


def await_late_bytes(receiver):
    """Poison the memory, drive, and come back when some of it changed; the test's time limit bounds it."""
    receiver.memory[:] = 0xA5
    receiver.send(Drive("prefill", 1, True))
    while (receiver.memory == 0xA5).all():
        pass


def fill_sockets(writer, receiver, layout):
    """Post without the receiver driving, up to a last piece that fails when its turn comes: the posts were made."""
    last = Piece(LAST, "decode", 1, 0, 0, 0, layout.block_size, 0, layout.num_planes)
    writer.send(Post((*whole_blocks(layout, 8), last)))
    while isinstance(event := writer.expect(PieceLanded | PieceFailed), PieceLanded):
        pass  # shared memory needs no driving
    assert event.piece_id == LAST
