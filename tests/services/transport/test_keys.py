"""The key folder: what `baton keys` makes, who is known by it, and what is refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from zmq.utils import z85

from baton.services.transport.keys import KeyRing, KeysUnusable, make_keys


def test_making_keys_twice_keeps_what_is_there(tmp_path: Path) -> None:
    assert make_keys(tmp_path / "k", ["decode", "router"]) == ["decode", "router"]
    before = KeyRing(tmp_path / "k", "decode")
    assert make_keys(tmp_path / "k", ["decode", "prefill"]) == ["prefill"]
    after = KeyRing(tmp_path / "k", "decode")
    assert (before.public, before.secret, before.hash_key) == (after.public, after.secret, after.hash_key)


def test_all_services_share_one_hash_key_and_nothing_else(tmp_path: Path) -> None:
    make_keys(tmp_path, ["decode", "router"])
    decode, router = KeyRing(tmp_path, "decode"), KeyRing(tmp_path, "router")
    assert decode.hash_key == router.hash_key
    assert len(decode.hash_key) == 16
    assert decode.secret != router.secret
    assert decode.public_key_of("router") == router.public


def test_nothing_in_the_folder_can_be_read_by_others(tmp_path: Path) -> None:
    make_keys(tmp_path / "k", ["decode"])
    for path in [tmp_path / "k", *(tmp_path / "k").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_key_that_is_added_later_is_known_without_a_restart(tmp_path: Path) -> None:
    make_keys(tmp_path, ["scheduler"])
    ring = KeyRing(tmp_path, "scheduler")
    stranger = z85.decode(b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7")
    assert ring.name_of(stranger) is None
    make_keys(tmp_path, ["decode7"])
    assert ring.name_of(z85.decode(KeyRing(tmp_path, "decode7").public)) == "decode7"


@pytest.mark.parametrize("name", ["", "a/b", "../x", "Decode", "1a", "a" * 64, "a.b", "a b"])
def test_a_name_that_could_mean_something_else_is_no_service_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeysUnusable):
        make_keys(tmp_path, [name])


def test_a_missing_key_says_how_to_make_it(tmp_path: Path) -> None:
    make_keys(tmp_path, ["decode"])
    with pytest.raises(KeysUnusable, match=r"baton keys .* prefill"):
        KeyRing(tmp_path, "prefill")


@pytest.mark.parametrize("content", ["", "short", "x" * 40 + "y", "\\" * 40])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, content: str) -> None:
    make_keys(tmp_path, ["decode"])
    (tmp_path / "public" / "decode.key").write_text(content)
    with pytest.raises(KeysUnusable):
        KeyRing(tmp_path, "decode")
