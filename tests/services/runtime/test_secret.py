"""API keys in the environment: read, and shown by nothing that shows settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from baton.core.ids import Role
from baton.services.runtime.flags import flags_layer, service_parser
from baton.services.runtime.lifecycle import EXIT_REFUSED
from baton.services.runtime.settings import Settings, SettingsInvalid, load_settings
from baton.services.transport.keys import make_keys

KEY = "sk-0123456789abcdef"
NEEDED = ["--keys", "k", "--model", "m"]


def load(variables: dict[str, str], role: Role = Role.ROUTER, file: Path | None = None) -> Settings:
    return load_settings(role, file, variables, flags_layer(role, service_parser(role).parse_args(NEEDED)))


def test_the_variable_is_read_and_what_is_shown_says_only_that_there_is_one() -> None:
    settings = load({"BATON_API_KEYS": KEY})
    assert settings.http.api_keys is not None
    assert settings.http.api_keys.reveal() == KEY
    assert msgspec.json.decode(settings.as_line())["http"]["api_keys"] == "(secret)"
    for shown in (settings.as_line(), repr(settings), str(settings.http.api_keys)):
        assert KEY not in shown


def test_without_the_variable_there_is_none_and_an_empty_one_is_one() -> None:
    assert load({}).http.api_keys is None
    assert msgspec.json.decode(load({}).as_line())["http"]["api_keys"] is None
    empty = load({"BATON_API_KEYS": ""}).http.api_keys
    assert empty is not None
    assert empty.reveal() == ""


def test_the_variable_beats_the_file_and_the_key_of_its_section(tmp_path: Path) -> None:
    file = tmp_path / "baton.toml"
    file.write_text("[http]\napi_keys = 'of-the-file-0123456789'")
    for variables, expected in (
        ({}, "of-the-file-0123456789"),
        ({"BATON_API_KEYS": KEY}, KEY),
        ({"BATON_API_KEYS": KEY, "BATON_HTTP_API_KEYS": "other"}, KEY),
        ({"BATON_HTTP_API_KEYS": "other", "BATON_API_KEYS": KEY}, KEY),
    ):
        told = load(variables, file=file).http.api_keys
        assert told is not None
        assert told.reveal() == expected


@pytest.mark.parametrize("text", [f"[http]\napi_keys = ['{KEY}']", f"api_keys = '{KEY}'", f"[api_keys]\nx = '{KEY}'"])
def test_a_file_that_says_it_wrongly_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "baton.toml"
    file.write_text(text)
    with pytest.raises(SettingsInvalid, match="api_keys") as refused:
        load({}, file=file)
    assert KEY not in str(refused.value)


def test_other_roles_get_the_same_environment_and_show_nothing_of_it() -> None:
    settings = load_settings(Role.SCHEDULER, None, {"BATON_API_KEYS": KEY}, {"link": {"keys": "k"}})
    assert "api_keys" not in settings.as_line()


def test_no_flag_takes_keys_and_no_help_shows_any() -> None:
    text = service_parser(Role.ROUTER).format_help()
    assert "--api-keys-file" in text
    assert "--cors-allow-origins" in text
    assert "--api-keys " not in text
    for flag in ("--api-keys", "--api-key"):
        with pytest.raises(SystemExit):
            service_parser(Role.ROUTER).parse_args([*NEEDED, flag, KEY])


@pytest.mark.parametrize(("keys", "says"), [(f"{KEY} rate=x", "BATON_API_KEYS, line 1: rate must be"), ("", "no key")])
def test_a_router_with_keys_that_are_wrong_does_not_start_and_shows_none(tmp_path: Path, keys: str, says: str) -> None:
    make_keys(tmp_path / "keys", ["router"])
    command = [sys.executable, "-P", "-m", "baton.services.router", "--keys", str(tmp_path / "keys"), "--model", "m"]
    command += ["--journal-folder", str(tmp_path / "journal")]
    variables = os.environ | {"BATON_API_KEYS": keys}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert done.returncode == EXIT_REFUSED, done.stderr
    assert says in done.stderr
    assert "(secret)" in done.stderr
    assert KEY not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
