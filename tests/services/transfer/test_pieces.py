"""Geometry, metadata and faults: what is decided before a transport is touched."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import BadMessage
from baton.core.executor.events import OpenTransport, Piece, Post
from baton.core.layout import KvLayout
from baton.services.executor.transfer.errors import TransferQueueFull
from baton.services.executor.transfer.faults import NO_FAULT, Fault, parse_fault
from baton.services.executor.transfer.metadata import AgentMetadata, decode_metadata, encode_metadata
from baton.services.executor.transfer.region import KvRegion, is_whole_block, piece_bytes, piece_fault
from baton.services.executor.transfer.thread import TransferThread

LAYOUT = KvLayout(2, 1, 4, "float32", 8, "model", "tokenizer")
REGION = KvRegion(1 << 20, 5, LAYOUT)


@st.composite
def pieces(draw):
    first_slot = draw(st.integers(0, LAYOUT.block_size - 1))
    first_plane = draw(st.integers(0, LAYOUT.num_planes - 1))
    end_slot = draw(st.integers(first_slot + 1, LAYOUT.block_size))
    end_plane = draw(st.integers(first_plane + 1, LAYOUT.num_planes))
    return Piece(1, "d", 1, draw(st.integers(0, 4)), 0, first_slot, end_slot, first_plane, end_plane)


@given(pieces())
def test_descriptors_lie_in_their_block_do_not_overlap_and_hold_the_bytes_of_the_piece(piece):
    descriptors = REGION.descriptors(piece.source_block, piece)
    block_start = REGION.base_address + piece.source_block * LAYOUT.block_bytes
    end = block_start
    for address, length, device in descriptors:
        assert end <= address
        assert device == 0
        end = address + length
    assert end <= block_start + LAYOUT.block_bytes
    assert sum(length for _, length, _ in descriptors) == piece_bytes(piece, LAYOUT)
    assert is_whole_block(piece, LAYOUT) == (piece_bytes(piece, LAYOUT) == LAYOUT.block_bytes)


@given(pieces())
def test_a_piece_inside_both_regions_has_no_fault_unless_it_is_too_large(piece):
    num_bytes = piece_bytes(piece, LAYOUT)
    assert piece_fault(piece, REGION, REGION, num_bytes) is None
    assert piece_fault(piece, REGION, REGION, num_bytes - 1) is not None


def test_metadata_comes_back_as_it_was_sent():
    metadata = AgentMetadata(b"agent", 4096, "DRAM", 0)
    assert decode_metadata(encode_metadata(metadata)) == metadata


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80",
        bytes(1 << 17),
        msgspec.msgpack.encode(["text", 1, "DRAM", 0]),
        msgspec.msgpack.encode([b"agent", -1, "DRAM", 0]),
        msgspec.msgpack.encode([b"agent", 1, "FILE", 0]),
        msgspec.msgpack.encode([b"", 1, "DRAM", 0]),
        msgspec.msgpack.encode([b"agent", 1, "DRAM"]),
    ],
)
def test_metadata_of_another_form_is_a_bad_message(raw):
    with pytest.raises(BadMessage):
        decode_metadata(raw)


def test_faults_are_named_or_refused():
    assert parse_fault(None) == NO_FAULT
    assert parse_fault("fail") == Fault(is_failed=True)
    assert parse_fault("delay:0.5") == Fault(delay_s=0.5)
    for text in ("", "delay", "delay:soon", "later"):
        with pytest.raises(ValueError, match=r"fault|float"):
            parse_fault(text)


def test_more_unfinished_pieces_than_the_bound_are_refused_whole():
    thread = TransferThread(REGION, "prefill", print, print, max_piece_bytes=1 << 20, max_unfinished_pieces=2)
    piece = Piece(1, "d", 1, 0, 0, 0, 8, 0, 4)
    thread.submit(OpenTransport("d", 1))
    thread.submit(Post((piece,)))
    with pytest.raises(TransferQueueFull, match="3 unfinished pieces, at most 2"):
        thread.submit(Post((piece, piece)))
    assert thread.counters.num_submitted_pieces == 1
