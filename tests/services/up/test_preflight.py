"""What `baton up` refuses before it starts anything, and what it learns of the settings of its processes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from baton.services.model import fetch
from baton.services.runtime.lifecycle import EXIT_REFUSED
from baton.services.runtime.settings import SettingsInvalid
from baton.services.up import __main__ as command
from baton.services.up.plan import UpOptions
from baton.services.up.preflight import STOP_MARGIN_S, check_start, configured_model

ALONE = ["--prefill", "0", "--decode", "0", "--unified", "2"]


def options(tmp_path: Path, config: str = "", **given: object) -> UpOptions:
    (tmp_path / "up.toml").write_text(config)
    plain = UpOptions(Path("tiny"), port=0, cores=(0,), device="fake", config=tmp_path / "up.toml")
    return plain._replace(**given)  # type: ignore[arg-type]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was fetched or run: nothing, where a start is refused."""
    calls: list[str] = []
    monkeypatch.setattr(command, "fetch", lambda source: calls.append("fetch"))
    monkeypatch.setattr(command, "run_service", lambda *_: calls.append("run"))
    return calls


@pytest.mark.parametrize(
    ("flags", "config", "told"),
    [
        ([], "[device]\nblock_sise = 3", "device.block_sise is no setting"),
        ([], "[nothing]\na = 3", "[nothing] is no section"),
        ([], "[device", "up.toml"),
        ([], "[device]\nblock_size = 0", "device.block_size = 0: must be positive"),
        ([], "[decode]\ntoken_budget = 0", "token_budget = 0"),
        ([], "[unified]\nprotect_steps = 8", "[unified] has no effect: there is no unified executor"),
        (["--prefill", "0"], "[prefill]\nwindow = 'fixed'", "[prefill] has no effect: there is no prefill executor"),
        (["--port", "99999"], "", "http.port = 99999: must be at most 65535"),
        (["--host", "192.0.2.1"], "", "cannot listen on 192.0.2.1:8000 (--host, --port)"),
        (["--device", "cuda"], "", "device.kind = 'cuda' is none of cpu, fake"),
        (["--journal", "/proc/x"], "", "--journal = '/proc/x'"),
        (["--prefill", "0"], "[scheduler]\nstrict_pd = true", "--prefill 0: with strict_pd nothing is answered"),
        ([*ALONE, "--strict-pd"], "", "scheduler.strict_pd = True has no effect: there is no decode executor"),
        (
            [*ALONE, "--placement", "by_tokens"],
            "[scheduler]\nlocal_prompt_tokens = 9",
            "scheduler.local_prompt_tokens = 9 has no effect: there is no decode executor",
        ),
        (ALONE, "[scheduler]\nhandoff_slack = 0.5", "scheduler.handoff_slack = 0.5 has no effect"),
        ([], "[http]\napi_keys_file = '/nonexistent'", "/nonexistent cannot be read"),
        ([], "[http]\napi_keys_file = '/tmp'", "/tmp cannot be read"),
    ],
)
def test_a_start_that_cannot_work_is_refused_in_one_line_before_anything_is_started(
    tmp_path: Path,
    started: list[str],
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    config: str,
    told: str,
) -> None:
    (tmp_path / "up.toml").write_text(config)
    given = ["--model", "tiny", "--device", "fake", "--config", str(tmp_path / "up.toml"), *flags]
    assert command.main(given) == EXIT_REFUSED
    said = capsys.readouterr().err
    assert said.startswith("baton up: ")
    assert said.count("\n") == 1
    assert told in said
    assert started == []


def test_c12_a_variable_of_executors_that_are_not_there_is_refused_like_a_section_of_the_file(tmp_path: Path) -> None:
    told = {"BATON_UNIFIED_NUM_SLOTS": "8"}
    with pytest.raises(SettingsInvalid, match=r"environment: \[unified\] has no effect: there is no unified executor"):
        check_start(options(tmp_path), told)
    check_start(options(tmp_path, num_prefill=0, num_decode=0, num_unified=1), told)


def test_c12_how_unified_executors_are_chosen_has_an_effect_without_others(tmp_path: Path) -> None:
    told = options(tmp_path, num_prefill=0, num_decode=0, num_unified=2, placement="always_pd")
    assert check_start(told, {}).host == "127.0.0.1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_in_use_is_refused_and_the_flag_named(
    started: list[str], capsys: pytest.CaptureFixture[str], host: str
) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as taken:
        port = taken.getsockname()[1]
        assert command.main(["--device", "fake", "--host", host, "--port", str(port)]) == EXIT_REFUSED
    said = capsys.readouterr().err
    assert f"{port} (--host, --port): Address already in use" in said
    assert started == []


def test_what_the_file_says_of_the_router_holds_where_no_flag_does(tmp_path: Path) -> None:
    config = "[http]\nhost = '127.0.0.2'\nserved_names = ['a', 'b']\n"
    checked = check_start(options(tmp_path, config), {"BATON_API_KEYS": "k" * 20})
    assert (checked.host, checked.served_names, checked.needs_api_key) == ("127.0.0.2", ("a", "b"), True)
    assert check_start(options(tmp_path, config, host="127.0.0.3"), {}).host == "127.0.0.3"
    assert not check_start(options(tmp_path), {}).needs_api_key


def test_a_stop_is_waited_for_as_long_as_the_settings_let_it_take(tmp_path: Path) -> None:
    config = "[http]\nstop_grace_s = 100.0\n[service]\ndrain_timeout_s = 7.0\n"
    timeouts_s = check_start(options(tmp_path, config), {}).stop_timeouts_s
    assert timeouts_s["router"] == 100.0 + 7.0 + STOP_MARGIN_S
    assert timeouts_s["prefill0"] == timeouts_s["decode0"] == timeouts_s["scheduler"] == 7.0 + STOP_MARGIN_S


def test_the_model_of_the_file_is_the_one_that_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    (tmp_path / "up.toml").write_text("[model]\nfolder = '/models/x'\n")
    assert configured_model(tmp_path / "up.toml", {}) == "/models/x"
    assert configured_model(tmp_path / "up.toml", {"BATON_MODEL_FOLDER": "/models/y"}) == "/models/y"
    assert configured_model(None, {}) == ""
    asked: list[str] = []
    monkeypatch.setattr(command, "fetch", asked.append)
    command.main(["--device", "fake", "--port", "0", "--config", str(tmp_path / "up.toml")])
    assert asked == ["/models/x"]
    assert fetch.DEFAULT_MODEL not in asked
