"""What one end tells the other about its agent: NIXL's own binary description, and where a first write may go."""

from __future__ import annotations

from typing import Annotated

import msgspec

from baton.core.errors import BadMessage
from baton.services.executor.transfer.region import MemoryType

MAX_METADATA_BYTES = 1 << 16
SCRATCH_BYTES = 4096  #: a page of each process that holds nothing, for the first write of a connection

Address = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class AgentMetadata(msgspec.Struct, frozen=True, array_like=True):
    """Both ways, inside the handshake's `metadata`. Addresses are the sender's own and checked by NIXL's registry."""

    agent: Annotated[bytes, msgspec.Meta(min_length=1, max_length=MAX_METADATA_BYTES)]  #: NIXL's bytes, no pickle
    scratch_address: Address
    memory_type: MemoryType
    device_id: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]


_DECODER = msgspec.msgpack.Decoder(AgentMetadata, strict=True)


def encode_metadata(metadata: AgentMetadata) -> bytes:
    return msgspec.msgpack.encode(metadata)


def decode_metadata(raw: bytes) -> AgentMetadata:
    """Raise BadMessage if `raw` is no metadata of this version."""
    if len(raw) > MAX_METADATA_BYTES:
        raise BadMessage(f"{len(raw)} bytes of transport metadata, at most {MAX_METADATA_BYTES}")
    try:
        return _DECODER.decode(raw)
    except msgspec.MsgspecError as error:
        raise BadMessage(f"transport metadata: {error}") from error
