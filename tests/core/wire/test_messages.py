"""Messages on the wire: every one round-trips, and what is no message of its link is refused, never guessed."""

from __future__ import annotations

import re
import typing
from typing import Any

import msgpack
import msgspec
import pytest

from baton.core.errors import BadMessage, Reason
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.wire import messages as m
from baton.core.wire.codec import decode_message, decode_peer, encode_message, encode_peer, may_link
from baton.core.wire.placement import PlacementReason
from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import SampledToken, TokenLogprobs, pack_rows, pack_scores
from tests.support.machines import D, P, packed, prompt, work

ID, P_LIFE, D_LIFE = AttemptId(2**62, 3), P.life, D.life
ORDER = m.Order(1, 2, 3)
TOKEN = SampledToken(1, 7, TokenLogprobs(-0.5, (7, 8), (-0.5, -1.5)))
RECORD = m.Record(ID, 1, 4, (TOKEN,), "stop", 8)
SCORES = pack_scores(1, [TokenLogprobs(-0.5, (7, 8), (-0.25, -1.5)), TokenLogprobs(-2.0, (1, 2), (-0.125, -3.0))])
S, R, X, L = Role.SCHEDULER, Role.ROUTER, Role.PREFILL, Role.LAUNCHER
DEC = Role.DECODE

EVERY: list[tuple[Role, Role, m.Message]] = [
    (R, S, m.Submit(ID, work(prompt(10), num_choices=2, first_choice=1), 1000, 5, 1, "tenant")),
    (R, S, m.Abort(ID)),
    (S, R, m.Placed(ID, P_LIFE, None)),
    (S, R, m.Placed(ID, P_LIFE, D_LIFE, PlacementReason.PD)),
    (S, R, m.Refusal(ID, Reason.NEVER_FITS, {"blocks": 9.0})),
    (S, R, m.AttemptFailed(ID, Reason.PEER_LOST, "decode")),
    (S, R, m.Roster((P, D))),
    (S, X, m.Prefill(ID, work(prompt(10)), ORDER, 3, 1000)),
    (S, DEC, m.Decode(ID, work([*prompt(10), 1], prior=1), ORDER, P_LIFE, 4, 1000)),
    (S, Role.UNIFIED, m.Run(ID, work(prompt(10), stop=(1, 2)), ORDER, 4, 1000)),
    (S, X, m.Exited(P_LIFE)),
    (S, DEC, m.Returned(3)),
    (X, S, m.Credit(1, 2, 3)),
    (X, S, m.Ended(ID)),
    (DEC, S, m.PairReady(P_LIFE)),
    (DEC, S, m.PairLost(P_LIFE, Reason.QUARANTINE)),
    (X, S, m.CacheChanged(bytes(16), bytes(32))),
    (X, S, m.ExecutorInventory(((ID, 5),), 1, 2, (P_LIFE,), bytes(16), True)),
    (X, S, m.Draining()),
    (X, S, m.Due(ID)),
    (DEC, S, m.Reclaim(2)),
    (X, S, m.Pace(10.5, 400.0, 900.0, 300.0, 1e9)),
    (DEC, R, m.Records((RECORD,))),
    (DEC, R, m.Records((m.Record(ID, 0, 0, (TOKEN,), "", 0, SCORES),))),
    (DEC, R, m.Records((RECORD,), pack_rows([2**62, 3, 1, 4, 7, 5, 0, 0, 2, 9]))),
    (R, DEC, m.RouterInventory(((ID, ((0, 4), (1, 0))),))),
    (DEC, R, m.Holding((ID,))),
    (R, X, m.Stop(ID, 1, 4)),
    (X, DEC, m.TransportInfo(b"metadata", 2**40, 64)),
    (X, DEC, m.TransportProven()),
    (DEC, X, m.Receive(1, ID, 2, packed([1, 2]), 1 << 20)),
    (DEC, X, m.CloseTransfer(1)),
    (X, DEC, m.ChunkPosted(1, 2, 3)),
    (X, DEC, m.ChunkLanded(1, 2)),
    (X, DEC, m.Sealed(1, 2, (TOKEN,))),
    (X, DEC, m.Sealed(1, 2, (TOKEN,), SCORES)),
    (X, DEC, m.TransferClosed(1, None)),
    (X, DEC, m.TransferClosed(1, Reason.ABORTED, False)),
]


def every_kind() -> set[type]:
    unions = [value for name, value in vars(m).items() if re.search("To[A-Z]", name)]
    return {kind for union in unions for kind in (typing.get_args(union) or (union,))}


@pytest.mark.parametrize(("sender", "receiver", "message"), EVERY, ids=lambda value: type(value).__name__)
def test_every_message_round_trips(sender, receiver, message):
    assert decode_message(encode_message(message), sender, receiver) == message


def test_every_message_of_every_link_is_in_the_list_above():
    assert {type(message) for _, _, message in EVERY} == every_kind()


def test_tags_are_unique():
    tags = [kind.__struct_config__.tag for kind in every_kind()]
    assert len(tags) == len(set(tags))


@pytest.mark.parametrize(("sender", "receiver", "message"), EVERY, ids=lambda value: type(value).__name__)
def test_a_message_is_refused_on_every_link_that_does_not_say_it(sender, receiver, message):
    body = encode_message(message)
    for other in Role:
        for another in Role:
            if not may_link(other, another):
                with pytest.raises(BadMessage):
                    decode_message(body, other, another)
    with pytest.raises(BadMessage):
        decode_message(body, receiver, sender) if type(message) not in (m.TransportInfo,) else _refuse()


def _refuse() -> None:
    raise BadMessage("said both ways")


def raw(message: m.Message) -> list[Any]:
    return msgpack.unpackb(encode_message(message), use_list=True, strict_map_key=False)


@pytest.mark.parametrize(("sender", "receiver", "message"), EVERY, ids=lambda value: type(value).__name__)
def test_unknown_tags_short_arrays_and_wrong_types_are_refused(sender, receiver, message):
    fields = raw(message)
    needed = [f for f in msgspec.structs.fields(message) if f.required]
    broken: list[Any] = [[250, *fields[1:]], ["text", *fields[1:]], [], {"0": 1}, 7, None, [None], {}]
    broken += [fields[: len(needed)]] if needed else []
    broken += [[*fields[:i], {"what": [None]}, *fields[i + 1 :]] for i in range(1, len(needed) + 1)]
    for one in broken:
        with pytest.raises(BadMessage):
            decode_message(msgpack.packb(one, use_bin_type=True), sender, receiver)


@pytest.mark.parametrize(("sender", "receiver", "message"), EVERY, ids=lambda value: type(value).__name__)
def test_trailing_fields_may_be_left_out_and_unknown_later_ones_are_ignored(sender, receiver, message):
    """A peer of an older build leaves the last fields out, a newer one says more: both are understood."""
    fields = raw(message)
    longer = msgpack.packb([*fields, "from the future", 1], use_bin_type=True)
    assert decode_message(longer, sender, receiver) == message
    defaulted = [f for f in msgspec.structs.fields(message) if not f.required]
    shorter = decode_message(msgpack.packb(fields[: len(fields) - len(defaulted)], use_bin_type=True), sender, receiver)
    for field in defaulted:
        value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        assert getattr(shorter, field.name) == value


@pytest.mark.parametrize(
    "changes",
    [
        {"num_tokens": 9},
        {"num_prior": 10},
        {"num_prior": -1},
        {"root": b"short"},
        {"hashes": bytes(17)},
        {"num_choices": 0},
        {"first_choice": -1},
        {"sampling": SamplingParams(0)},
        {"prompt": b"abc"},
        {"sampling": SamplingParams(1 << 40)},
        {"sampling": SamplingParams(8, num_prompt_logprobs=1 << 20)},
    ],
    ids=str,
)
def test_work_whose_lengths_do_not_fit_together_is_a_decoding_error(changes):
    good = work(prompt(10))
    values = {name: getattr(good, name) for name in good.__struct_fields__} | changes
    submit = [1, list(ID), [msgspec.to_builtins(v, builtin_types=(bytes,)) for v in values.values()], 1000]
    with pytest.raises(BadMessage):
        decode_message(msgpack.packb(submit, use_bin_type=True), R, S)


def test_no_process_pair_talks_that_has_no_link():
    assert not may_link(Role.ROUTER, Role.ROUTER)
    assert not may_link(Role.PREFILL, Role.PREFILL)
    assert not may_link(Role.DECODE, Role.DECODE)
    assert not may_link(Role.LAUNCHER, Role.ROUTER)
    assert may_link(Role.PREFILL, Role.DECODE)


def test_a_peer_round_trips_and_anything_else_is_refused():
    assert decode_peer(encode_peer(D)) == D
    assert decode_peer(encode_peer(Peer("r", Role.ROUTER, 1))) == Peer("r", Role.ROUTER, 1)
    for body in (b"", b"\xc1", b"\x90", encode_message(m.Draining()), msgpack.packb(["name", 99, 1])):
        with pytest.raises(BadMessage):
            decode_peer(body)


def test_the_life_of_a_peer_is_its_name_and_epoch():
    assert D.life == Life("decode", 1)


@pytest.mark.parametrize(
    ("token", "number", "finish"),
    [(9, 1, ""), (5, 1, ""), (5, 2, "stop"), (9, 3, ""), (9, 4, "length"), (5, 4, "stop")],
)
def test_rtr_02_one_predicate_says_where_an_answer_ends(token, number, finish):
    sampling = SamplingParams(4, min_tokens=2, stop_token_ids=(5,))
    assert sampling.finish(token, number) == finish


def test_rows_of_tokens_are_read_as_they_were_written_and_only_whole():
    rows = [(2**62, 3, 1, 4, 7), (5, 0, 0, 2, 9)]
    message = m.Records((), pack_rows(number for row in rows for number in row))
    assert list(decode_message(encode_message(message), DEC, R).tokens) == rows
    short = msgpack.packb([*raw(message)[:2], [message.tokens.packed[:-8]]])
    with pytest.raises(BadMessage, match="whole rows"):
        decode_message(short, DEC, R)
