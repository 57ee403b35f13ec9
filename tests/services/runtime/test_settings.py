"""Settings: three layers, typed, and no key that nobody knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from baton.core.config import ExecutorConfig, SchedulerConfig
from baton.core.ids import Role
from baton.services.runtime.flags import flags_layer, service_parser
from baton.services.runtime.lifecycle import EXIT_REFUSED
from baton.services.runtime.settings import Settings, SettingsInvalid, load_settings
from baton.services.transport.keys import make_keys

FILE = """
[link]
keys = "/keys"
silence_s = 9.0
[executor]
token_budget = 1000
num_slots = 10
[decode]
token_budget = 2000
"""


def load(
    role: Role, tmp_path: Path, text: str = FILE, variables: dict[str, str] | None = None, flags: str = ""
) -> Settings:
    file = tmp_path / "baton.toml"
    file.write_text(text)
    options = service_parser(role).parse_args(flags.split())
    return load_settings(role, file, variables or {}, flags_layer(role, options))


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    variables = {"BATON_LINK_SILENCE_S": "8", "BATON_LINK_HEARTBEAT_S": "0.5", "BATON_DECODE_NUM_SLOTS": "20"}
    settings = load(Role.DECODE, tmp_path, variables=variables, flags="--device fake --silence-s 7")
    assert (settings.link.silence_s, settings.link.heartbeat_s) == (7.0, 0.5)
    assert isinstance(settings.knobs, ExecutorConfig)
    assert (settings.knobs.num_slots, settings.knobs.token_budget) == (20, 2000)


def test_a_roles_own_section_beats_the_common_one_and_leaves_others_alone(tmp_path: Path) -> None:
    prefill = load(Role.PREFILL, tmp_path, flags="--device fake")
    assert prefill.knobs == ExecutorConfig(token_budget=1000, num_slots=10)
    assert load(Role.SCHEDULER, tmp_path).knobs == SchedulerConfig()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[link]\nkeys = 'k'\nlisten_on = 'x'", "link.listen_on"),
        ("[links]\nkeys = 'k'", "links"),
        ("keys = 'k'", "keys"),
        ("[decode]\nnum_slot = 3", "decode.num_slot"),
        ("[link]\nkeys = 3", "keys"),
        ("[link]\nkeys = 'k'\n[executor]\ntoken_budget = 'many'", "token_budget"),
        ("[link]\nkeys = 'k'\n[executor]\ntoken_budget = 0", "token_budget"),
        ("[link]\nkeys = 'k'\nheartbeat_s = 4.0", r"link.silence_s = 3.5: .* link.heartbeat_s = 4"),
        ("[service]\nname = 'x'", "link.keys"),
        ("[link]\nkeys = 'k'\n[service]\nname = 'router2'", "service.name"),
        ("[link", "baton.toml"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(SettingsInvalid, match=named):
        load(Role.PREFILL, tmp_path, text, flags="--device fake")


@pytest.mark.parametrize(
    ("role", "flags", "named"),
    [
        (Role.DECODE, "--device fake --block-size 0", "device.block_size = 0: must be positive"),
        (Role.DECODE, "--device fake --block-size -16", "device.block_size = -16: must not be negative"),
        (Role.DECODE, "--device fake --num-blocks -1", "device.num_blocks = -1: must not be negative"),
        (Role.DECODE, "--device fake --kv-bytes -1", "device.kv_bytes = -1: must not be negative"),
        (Role.DECODE, "--device fake --kv-bytes 0", "device.num_blocks and device.kv_bytes are both 0"),
        (Role.DECODE, "--device fake --step-time-s -0.1", "device.step_time_s = -0.1: must not be negative"),
        (Role.DECODE, "--device fake --admin-port 70000", "service.admin_port = 70000: must be at most 65535"),
        (Role.ROUTER, "--model m --port 70000", "http.port = 70000: must be at most 65535"),
        (Role.ROUTER, "--model m --max-body-bytes 0", "http.max_body_bytes = 0: must be positive"),
        (Role.ROUTER, "--model m --max-open-requests -1", "http.max_open_requests = -1: must not be negative"),
        (Role.ROUTER, "--model m --num-tokenizer-threads 0", "http.num_tokenizer_threads = 0: must be positive"),
        (Role.ROUTER, "--model m --stop-grace-s -1", "http.stop_grace_s = -1.0: must not be negative"),
        (Role.ROUTER, "--model m --stop-grace-s inf", "http.stop_grace_s = inf: must be finite"),
        (Role.ROUTER, "--model m --stall-timeout-s nan", "http.stall_timeout_s = nan: must be finite"),
        (
            Role.ROUTER,
            "--model m --max-timeout-s 5",
            "http.default_timeout_s = 600: longer than http.max_timeout_s = 5",
        ),
        (Role.ROUTER, "--model m --queued-frames 0", "link.queued_frames = 0: must be positive"),
        (
            Role.ROUTER,
            "--model m --max-streams 8193",
            "link.queued_frames = 16384: must be at least twice router.max_streams = 8193",
        ),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(tmp_path: Path, role: Role, flags: str, named: str) -> None:
    with pytest.raises(SettingsInvalid, match=re.escape(named)):
        load(role, tmp_path, flags=flags)


@pytest.mark.parametrize("key", ["stop_grace_s", "keepalive_timeout_s", "max_logprobs", "port"])
def test_a_zero_that_makes_sense_is_taken(tmp_path: Path, key: str) -> None:
    settings = load(Role.ROUTER, tmp_path, flags=f"--model m --{key.replace('_', '-')} 0")
    assert getattr(settings.http, key) == 0


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--kv-bytes 1000", "device.kv_bytes = 1000: 0 KV blocks"),
        ("--num-blocks 1", "device.num_blocks = 1: 1 KV"),
        ("--num-blocks 2147483647", "more than there is memory"),
    ],
)
def test_kv_memory_that_is_too_small_or_too_large_ends_the_start_by_name(
    tmp_path: Path, flags: str, named: str
) -> None:
    make_keys(tmp_path / "keys", ["decode"])
    arguments = ["--device", "fake", "--keys", str(tmp_path / "keys"), *flags.split()]
    command = [sys.executable, "-P", "-m", "baton.services.decode", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == EXIT_REFUSED, done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("role", "variables", "named"),
    [
        (Role.ROUTER, {"BATON_LINK_LISTEN": "tcp://127.0.0.1:1"}, "link.listen has no effect on a router"),
        (Role.ROUTER, {"BATON_LINK_ADVERTISE": "tcp://a:1"}, "link.advertise has no effect on a router"),
        (Role.SCHEDULER, {"BATON_LINK_ADVERTISE": "tcp://a:1"}, "link.advertise has no effect on a scheduler"),
    ],
)
def test_c12_what_a_role_is_told_in_vain_is_refused_and_it_has_no_flag_for_it(
    tmp_path: Path, role: Role, variables: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsInvalid, match=named):
        load(role, tmp_path, variables={"BATON_MODEL_FOLDER": "m", **variables})
    flag = "--" + next(iter(variables)).split("_", 2)[2].lower().replace("_", "-")
    with pytest.raises(SystemExit):
        service_parser(role).parse_args([flag, "1"])


@pytest.mark.parametrize(
    ("role", "text", "named"),
    [
        (Role.PREFILL, "[prefill]\nstep_mode = 'alternate'", "prefill.step_mode = alternate .*where decode runs"),
        (Role.UNIFIED, "[unified]\nprotect_steps = 8", "unified.protect_steps = 8 .*step_mode = alternate"),
        (Role.DECODE, "[executor]\nhold_max_ms = 100", "decode.hold_max_ms = 100.0 .*step_mode = alternate"),
        (Role.UNIFIED, "[unified]\nstep_mode = 'alternate'\nhold_fill = 0.3", "unified.hold_fill .*hold = fill"),
        (Role.UNIFIED, "[unified]\njoin_share = 0.5", "unified.join_share .*decode executor"),
        (Role.DECODE, "[executor]\npiece_bytes = 100", "decode.piece_bytes = 100 .*only on a prefill executor"),
        (Role.DECODE, "[executor]\nnum_slots = 3000", "decode.num_slots = 3000: at most token_budget = 2048"),
        (Role.PREFILL, f"[executor]\ntoken_budget = {10**30}", "prefill.token_budget = 1000.*: must be at most"),
    ],
)
def test_c12_a_policy_knob_that_is_told_in_vain_is_refused(tmp_path: Path, role: Role, text: str, named: str) -> None:
    flags = "--model m --device fake"
    with pytest.raises(SettingsInvalid, match=named):
        load(role, tmp_path, "[link]\nkeys = 'k'\n" + text, flags=flags)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--device fake --num-ranks 2", "device.num_ranks has no effect on a device of kind fake: only on cpu"),
        ("--rank-timeout-s 3", "device.rank_timeout_s has no effect with device.num_ranks = 1"),
        ("--num-ranks 2 --step-mode overlap", "device.num_ranks = 2: ranks compute one step at a time"),
        ("--num-ranks 0", "device.num_ranks = 0: must be positive"),
        ("--num-ranks 65", "device.num_ranks = 65: must be at most 64"),
        ("--num-ranks 2 --rank-timeout-s 0", "device.rank_timeout_s = 0.0: must be positive"),
    ],
)
def test_c12_c25_a_group_of_ranks_that_cannot_be_is_refused(tmp_path: Path, flags: str, named: str) -> None:
    with pytest.raises(SettingsInvalid, match=named):
        load(Role.UNIFIED, tmp_path, "[link]\nkeys = 'k'\n", flags=f"--model m {flags}")


def test_c12_a_policy_knob_that_has_an_effect_is_taken(tmp_path: Path) -> None:
    text = "[link]\nkeys = 'k'\n[unified]\nstep_mode = 'alternate'\nhold = 'fill'\nhold_fill = 0.3\nprotect_steps = 8"
    settings = load(Role.UNIFIED, tmp_path, text, flags="--model m --device fake")
    assert (settings.knobs.hold_fill, settings.knobs.protect_steps) == (0.3, 8)


def test_what_a_file_says_for_other_roles_disturbs_nobody_and_is_no_flag(tmp_path: Path) -> None:
    text = "[link]\nkeys = 'k'\nscheduler = 'foo://x'\n[service]\ndrain_timeout_s = 9.0\n"
    load(Role.SCHEDULER, tmp_path, text)
    with pytest.raises(SystemExit):
        service_parser(Role.SCHEDULER).parse_args(["--scheduler", "tcp://127.0.0.1:1"])


@pytest.mark.parametrize("role", [Role.ROUTER, Role.PREFILL, Role.DECODE, Role.UNIFIED])
@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("foo://x", "neither tcp"),
        ("tcp://127.0.0.1:99999", "no port from 0 to 65535"),
        ("tcp://127.0.0.1", "no port"),
        ("tcp://127.0.0.1:*", "not dialed"),
        ("", "is empty"),
    ],
)
def test_a_scheduler_that_cannot_be_dialed_ends_the_start(tmp_path: Path, role: Role, endpoint: str, why: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"link.scheduler.*{why}"):
        load(role, tmp_path, flags="--model m", variables={"BATON_LINK_SCHEDULER": endpoint})


@pytest.mark.parametrize("key", ["listen", "advertise"])
@pytest.mark.parametrize("endpoint", ["foo://x", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:-1", "tcp://[::1"])
def test_an_address_that_is_none_ends_the_start(tmp_path: Path, key: str, endpoint: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"link.{key}"):
        load(Role.DECODE, tmp_path, flags=f"--model m --{key} {endpoint}")


def test_c12_a_setting_without_effect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"device\.step_time_s has no effect"):
        load(Role.DECODE, tmp_path, flags="--device cpu --model m --step-time-s 0.1")


def test_an_unknown_variable_of_a_section_is_refused_and_a_foreign_one_is_not_ours(tmp_path: Path) -> None:
    load(Role.SCHEDULER, tmp_path, variables={"BATON_DATA": "/somewhere", "BATON": "x", "LINK_FOO": "1"})
    with pytest.raises(SettingsInvalid, match=r"link\.foo"):
        load(Role.SCHEDULER, tmp_path, variables={"BATON_LINK_FOO": "1"})


def test_sec02_every_role_listens_on_loopback_if_nothing_is_said(tmp_path: Path) -> None:
    for role in (Role.SCHEDULER, Role.PREFILL, Role.DECODE, Role.UNIFIED):
        flags = "" if role is Role.SCHEDULER else "--device fake"
        assert load(role, tmp_path, flags=flags).link.listen.startswith("tcp://127.0.0.1:")
    assert load(Role.ROUTER, tmp_path, flags="--model m").http.host == "127.0.0.1"


def test_each_start_has_a_name_and_a_later_epoch(tmp_path: Path) -> None:
    first, second = (load(Role.SCHEDULER, tmp_path).service for _ in range(2))
    assert first.name == "scheduler"
    assert 0 < first.epoch <= second.epoch


def test_lists_come_from_text_with_commas(tmp_path: Path) -> None:
    settings = load(Role.ROUTER, tmp_path, flags="--model m --served-names a,b")
    assert settings.http.served_names == ("a", "b")
