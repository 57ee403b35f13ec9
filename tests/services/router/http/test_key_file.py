"""Keys as text: what a line may say, and that no error shows any of it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.http.auth import ApiKeys, Client, load_api_keys, own_tenant
from baton.services.router.http.key_file import FIELDS, ApiKeysInvalid, KeyEntry, NoApiKeys, parse_keys, read_key_file
from baton.services.runtime.secret import Secret

KEY = "sk-0123456789abcdef"
MAX_PRIORITY = 9
HASH_KEY = bytes(range(16))


def only(text: str) -> KeyEntry:
    (entry,) = parse_keys(text, "test", MAX_PRIORITY)
    return entry


def test_a_key_alone_has_no_limits() -> None:
    entry = only(f"\n# a comment\n  {KEY}  # who has it\n")
    assert (entry.key.reveal(), entry.place) == (KEY, "test, line 3")
    assert (entry.tenant, entry.rate, entry.burst, entry.concurrency, entry.priority) == ("", None, None, None, 0)


def test_fields_come_in_any_order() -> None:
    entry = only(f"{KEY}#not-a-comment\tpriority=3 rate=0.5 tenant=team-a.x_1 concurrency=4 burst=7")
    assert entry.key.reveal() == f"{KEY}#not-a-comment"
    assert (entry.tenant, entry.rate, entry.burst, entry.concurrency, entry.priority) == ("team-a.x_1", 0.5, 7, 4, 3)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("too-short", "the key has 9 characters, at least 16 are needed"),
        (f"tenant=long-enough-name {KEY}", "the key comes first"),
        (f"{KEY} {KEY}", "field 1 after the key is unknown; there are tenant, rate, burst, concurrency, priority"),
        (f"{KEY} rate=1 rates=2", "field 2 after the key is unknown"),
        (f"{KEY} rate=1 rate=2", "rate is given twice"),
        (f"{KEY} rate=many", "rate must be a number of requests per second from 1e-06 to 1e+06"),
        (f"{KEY} rate=0", "rate must be"),
        (f"{KEY} rate=-1", "rate must be"),
        (f"{KEY} rate=nan", "rate must be"),
        (f"{KEY} rate=inf", "rate must be"),
        (f"{KEY} rate", "rate must be"),
        (f"{KEY} burst=2", "burst has no effect without rate"),
        (f"{KEY} rate=1 burst=0", "burst must be a whole number from 1"),
        (f"{KEY} concurrency=0", "concurrency must be a whole number from 1"),
        (f"{KEY} concurrency=1.5", "concurrency must be"),
        (f"{KEY} concurrency=²", "concurrency must be"),
        (f"{KEY} concurrency={'9' * 5000}", "concurrency must be"),
        (f"{KEY} priority=10", "priority must be a whole number from 0 to 9"),
        (f"{KEY} priority=-1", "priority must be"),
        (f"{KEY} tenant=", "tenant must have from 1 to 64"),
        (f"{KEY} tenant=key:1", "tenant must have"),
        (f"{KEY} tenant={'x' * 65}", "tenant must have"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(line: str, says: str) -> None:
    with pytest.raises(ApiKeysInvalid, match=r"^test, line 2: ") as refused:
        parse_keys(f"another-key-0123456789\n{line}\n", "test", MAX_PRIORITY)
    assert says in str(refused.value)


@given(
    st.lists(st.sampled_from([KEY, "tenant=a", "rate=", "burst=1", "=", "x", *(f"{name}={KEY}" for name in FIELDS)])),
    st.sampled_from([" ", "  ", "\t", "=", ","]),
)
def test_no_error_shows_a_key_wherever_it_stands(parts: list[str], blank: str) -> None:
    text = f"{KEY}{blank}tenant=a\n{blank.join(parts)}\n{KEY} rate=x"
    with pytest.raises(ApiKeysInvalid) as refused:
        parse_keys(text, "test", MAX_PRIORITY)
    assert KEY not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_key_that_stands_twice_is_refused_with_both_lines() -> None:
    entries = parse_keys(f"{KEY} tenant=a\nanother-key-0123456789\n", "file", MAX_PRIORITY)
    entries += parse_keys(f"{KEY} tenant=b", "variable", MAX_PRIORITY)
    with pytest.raises(ApiKeysInvalid) as refused:
        ApiKeys(entries, HASH_KEY)
    assert str(refused.value) == "variable, line 1: the key of file, line 1 again"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{KEY}\r\n", encoding="utf-8-sig")
    assert [entry.key.reveal() for entry in read_key_file(path, MAX_PRIORITY)] == [KEY]


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ApiKeysInvalid, match="nowhere cannot be read: No such file"):
        read_key_file(tmp_path / "nowhere", MAX_PRIORITY)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ApiKeysInvalid, match="binary cannot be read: it is not UTF-8"):
        read_key_file(tmp_path / "binary", MAX_PRIORITY)


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, False), (0o644, True), (0o604, True)])
def test_a_file_that_every_user_may_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warns: bool
) -> None:
    path = tmp_path / "keys"
    path.write_text(KEY)
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        read_key_file(path, MAX_PRIORITY)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warns
    assert KEY not in caplog.text


def test_keys_of_the_file_and_of_the_environment_count_together(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(KEY)
    path.chmod(0o600)
    assert load_api_keys("", None, HASH_KEY, MAX_PRIORITY) is None
    assert load_api_keys(str(path), Secret("another-key-0123456789 rate=1; # none"), HASH_KEY, MAX_PRIORITY) is not None
    with pytest.raises(ApiKeysInvalid, match=r"^BATON_API_KEYS, line 2: the key of .*keys, line 1 again"):
        load_api_keys(str(path), Secret(f"another-key-0123456789;{KEY}"), HASH_KEY, MAX_PRIORITY)


@pytest.mark.parametrize("text", ["", " ", ";", "# none"])
def test_a_variable_that_is_set_and_holds_no_key_does_not_open_the_server(text: str) -> None:
    with pytest.raises(NoApiKeys, match="BATON_API_KEYS holds no key"):
        load_api_keys("", Secret(text), HASH_KEY, MAX_PRIORITY)


def test_a_key_without_a_tenant_has_one_of_its_own_that_is_the_same_under_the_same_deployments_key() -> None:
    own = own_tenant(KEY, HASH_KEY)
    assert own == own_tenant(KEY, HASH_KEY) == "key:9aafc260075ee4e3a36734ec1cdc2636"
    assert own != own_tenant(KEY, bytes(16))
    assert own != own_tenant(KEY + "0", HASH_KEY)
    with pytest.raises(ApiKeysInvalid):  # no file can claim it
        only(f"another-key-0123456789 tenant={own}")


NAMES = st.text(max_size=70)


@given(NAMES, st.text(max_size=20), NAMES, st.text(max_size=20))
def test_no_two_tenants_share_a_salt_whatever_their_clients_choose(a: str, salt: str, b: str, other: str) -> None:
    one, two = Client(a).salt_prefix + salt.encode(), Client(b).salt_prefix + other.encode()
    assert (one == two) == ((a, salt) == (b, other))


def test_without_a_tenant_the_salt_is_the_clients_alone() -> None:
    assert Client().salt_prefix == b""
