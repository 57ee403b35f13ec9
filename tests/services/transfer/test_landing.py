"""Landed bytes equal sent bytes, for every shape of piece, and nothing else in the receiver's memory changes."""

import numpy as np

from baton.core.executor.events import Piece, PieceLanded, Post


def piece(piece_id, source, destination, slots=(0, 16), planes=(0, 8), peer="decode", epoch=1):
    return Piece(piece_id, peer, epoch, source, destination, *slots, *planes)


def as_planes(memory, layout):
    """uint8[block, plane, slot, bytes of a slot]."""
    return memory.reshape(len(memory), layout.num_planes, layout.block_size, layout.slot_bytes)


def expected_memory(source, poisoned, pieces, layout):
    """What the receiver's memory must hold after these pieces, applied in order."""
    expected = np.array(poisoned)
    there, here = as_planes(expected, layout), as_planes(np.array(source), layout)
    for p in pieces:
        part = (slice(p.first_plane, p.end_plane), slice(p.first_slot, p.end_slot))
        there[p.destination_block][part] = here[p.source_block][part]
    return expected


def send(stage, layout, fill, pieces, num_blocks=32):
    writer, receiver = (stage.start(name, layout, num_blocks) for name in ("prefill", "decode"))
    fill(writer, 1)
    receiver.memory[:] = 0xA5
    stage.connect(writer, receiver)
    writer.send(Post(tuple(pieces)))
    assert writer.outcomes(len(pieces)) == {p.piece_id: None for p in pieces}
    return writer, receiver


def test_w13_whole_blocks_land_bit_for_bit_in_the_blocks_that_were_named(stage, layout, fill):
    pieces = [piece(i, source=i, destination=31 - 2 * i) for i in range(12)]
    writer, receiver = send(stage, layout, fill, pieces)
    expected = expected_memory(writer.memory, np.full_like(receiver.memory, 0xA5), pieces, layout)
    np.testing.assert_array_equal(receiver.memory, expected)


def test_whole_blocks_that_stand_behind_each_other_go_in_one_write_no_larger_than_a_piece_may_be(stage, layout, fill):
    writer = stage.start("prefill", layout, 32, max_piece_bytes=3 * layout.block_bytes)
    receiver = stage.start("decode", layout, 32)
    fill(writer, 1)
    stage.connect(writer, receiver)
    parts = {4: (0, 5), 9: (3, 16)}
    writer.send(Post(tuple(piece(i, i, 31 - i, parts.get(i, (0, 16))) for i in range(12))))
    posted_at = [writer.expect(PieceLanded).posted_at for _ in range(12)]
    assert [posted_at.index(at) for at in posted_at] == [0, 0, 0, 3, 4, 5, 5, 5, 8, 9, 10, 10]


def test_parts_of_blocks_that_stand_behind_each_other_go_in_one_write_too(stage, layout, fill):
    writer = stage.start("prefill", layout, 32, max_piece_bytes=layout.block_bytes)
    receiver = stage.start("decode", layout, 32)
    fill(writer, 1)
    receiver.memory[:] = 0xA5
    stage.connect(writer, receiver)
    shapes = [((0, 16), (0, 4)), ((0, 16), (4, 7)), ((0, 5), (4, 8)), ((0, 16), (7, 8)), ((0, 16), (0, 8))]
    pieces = [piece(i, i, 31 - i, *shape) for i, shape in enumerate(shapes)]
    writer.send(Post(tuple(pieces)))
    posted_at = [writer.expect(PieceLanded).posted_at for _ in pieces]
    assert [posted_at.index(at) for at in posted_at] == [0, 0, 2, 2, 4]  # four and three of eight planes; the whole
    expected = expected_memory(writer.memory, np.full_like(receiver.memory, 0xA5), pieces, layout)
    np.testing.assert_array_equal(receiver.memory, expected)


def test_w13_part_of_the_slots_lands_in_every_plane_and_nowhere_else(stage, layout, fill):
    pieces = [piece(1, 3, 7, slots=(0, 5)), piece(2, 4, 8, slots=(15, 16)), piece(3, 5, 9, slots=(2, 14))]
    writer, receiver = send(stage, layout, fill, pieces)
    expected = expected_memory(writer.memory, np.full_like(receiver.memory, 0xA5), pieces, layout)
    np.testing.assert_array_equal(receiver.memory, expected)


def test_a_block_that_is_split_by_planes_lands_whole(stage, layout, fill):
    pieces = [piece(i, 3, 7, planes=planes) for i, planes in enumerate([(0, 3), (3, 4), (4, 8)])]
    writer, receiver = send(stage, layout, fill, pieces)
    np.testing.assert_array_equal(receiver.memory[7], writer.memory[3])
    assert (receiver.memory[[6, 8]] == 0xA5).all()


def test_pieces_of_any_shape_land_as_if_they_were_copied_in_order(stage, layout, fill):
    rng = np.random.default_rng(7)
    pieces = []
    for piece_id in range(200):
        slots = np.sort(rng.choice(17, 2, replace=False)).tolist()
        planes = np.sort(rng.choice(9, 2, replace=False)).tolist()
        # each destination block once: the order between two writes to the same bytes is nobody's promise
        pieces.append(piece(piece_id, int(rng.integers(256)), piece_id, slots, planes))
    writer, receiver = send(stage, layout, fill, pieces, num_blocks=256)
    expected = expected_memory(writer.memory, np.full_like(receiver.memory, 0xA5), pieces, layout)
    np.testing.assert_array_equal(receiver.memory, expected)


def test_pieces_of_the_largest_size_land_bit_for_bit(stage, large_layout, fill):
    end = {"slots": (0, large_layout.block_size), "planes": (0, large_layout.num_planes)}
    pieces = [piece(i, i, 7 - i, **end) for i in range(8)]
    writer, receiver = send(stage, large_layout, fill, pieces, num_blocks=8)
    np.testing.assert_array_equal(receiver.memory, writer.memory[::-1])
