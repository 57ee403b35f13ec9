"""Messages to bytes and back: one strict decoder for each link and direction."""

from __future__ import annotations

from typing import Any

import msgspec

from baton.core.errors import BadMessage
from baton.core.ids import Peer, Role
from baton.core.wire import messages as m

_encoder = msgspec.msgpack.Encoder()

_PREFILL_LIKE = (Role.PREFILL,)
_DECODE_LIKE = (Role.DECODE, Role.UNIFIED)


def _directions() -> dict[tuple[Role, Role], Any]:
    """(sender, receiver) → the union that may be said. A pair that is not here has no link."""
    table: dict[tuple[Role, Role], Any] = {
        (Role.ROUTER, Role.SCHEDULER): m.RouterToScheduler,
        (Role.SCHEDULER, Role.ROUTER): m.SchedulerToRouter,
        (Role.LAUNCHER, Role.SCHEDULER): m.LauncherToScheduler,
        (Role.SCHEDULER, Role.LAUNCHER): m.SchedulerToLauncher,
    }
    for executor in (*_PREFILL_LIKE, *_DECODE_LIKE):
        table[executor, Role.SCHEDULER] = m.ExecutorToScheduler
        table[Role.SCHEDULER, executor] = m.SchedulerToExecutor
        table[executor, Role.ROUTER] = m.ExecutorToRouter
        table[Role.ROUTER, executor] = m.RouterToExecutor
    for decode in _DECODE_LIKE:
        table[Role.PREFILL, decode] = m.PrefillToDecode
        table[decode, Role.PREFILL] = m.DecodeToPrefill
    return table


_NUM_ROLES = max(Role) + 1
#: by sender · roles + receiver, since a member of an enum is hashed slowly
_decoders: list[msgspec.msgpack.Decoder[Any] | None] = [None] * (_NUM_ROLES * _NUM_ROLES)
for (_sender, _receiver), _union in _directions().items():
    _decoders[_sender * _NUM_ROLES + _receiver] = msgspec.msgpack.Decoder(_union)
_peer_decoder = msgspec.msgpack.Decoder(Peer)
_ERRORS = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)


def may_link(sender: Role, receiver: Role) -> bool:
    """Whether processes of these roles have a link at all."""
    return _decoders[sender * _NUM_ROLES + receiver] is not None


def encode_message(message: m.Message) -> bytes:
    return _encoder.encode(message)


def decode_message(body: bytes, sender: Role, receiver: Role) -> Any:
    """The message that `sender` said to `receiver`. Raises BadMessage."""
    decoder = _decoders[sender * _NUM_ROLES + receiver]
    if decoder is None:
        raise BadMessage(f"no link from {sender.name} to {receiver.name}")
    try:
        return decoder.decode(body)
    except _ERRORS as error:
        raise BadMessage(f"no message from {sender.name} to {receiver.name}: {error}") from error


def encode_peer(peer: Peer) -> bytes:
    return _encoder.encode(peer)


def decode_peer(body: bytes) -> Peer:
    """Raises BadMessage."""
    try:
        return _peer_decoder.decode(body)
    except _ERRORS as error:
        raise BadMessage(f"no identity: {error}") from error
