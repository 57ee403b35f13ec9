"""`--help` of every service: each flag is explained, with its unit and its default, under its section."""

from __future__ import annotations

import argparse

import msgspec
import pytest

from baton.core.ids import Role
from baton.services.runtime.flags import service_parser
from baton.services.runtime.setting_texts import comments_of, default_text, help_text, placeholder
from baton.services.runtime.settings import ROLE_SECTIONS, SECTIONS


class Base(msgspec.Struct):
    """Below another one."""

    told: int = 1  #: of the base
    kept: str = ""  #: kept from the base


class Sample(Base):
    """What a section may look like."""

    #: above, and 100 %
    #: in two lines
    above: float = 2.5
    told: int = 3  #: told again
    max_bytes: int = 8 << 20  #: large
    odd_bytes: int = 1000
    wait_s: float = 0.25  # no explanation
    names: tuple[str, ...] = ("a", "b")
    spread: int = 3  #: beside its value


def fields() -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(Sample)}


def test_the_comments_of_a_struct_are_those_beside_and_above_its_fields() -> None:
    assert comments_of(Sample) == {
        "kept": "kept from the base",
        "above": "above, and 100 % in two lines",
        "told": "told again",
        "max_bytes": "large",
        "spread": "beside its value",
    }


def test_a_help_text_has_the_comment_and_the_default_and_survives_argparse() -> None:
    texts = {name: help_text(field, comments_of(Sample)) for name, field in fields().items()}
    assert texts["above"] == "above, and 100 %% in two lines (default: 2.5)"
    assert texts["kept"] == "kept from the base"
    assert texts["wait_s"] == "(default: 0.25)"
    assert default_text(fields()["max_bytes"]) == "8388608, 8 MiB"
    assert default_text(fields()["odd_bytes"]) == "1000"
    assert default_text(fields()["names"]) == "a,b"


def test_a_placeholder_is_the_unit_or_the_kind_of_value() -> None:
    found = {name: placeholder(field) for name, field in fields().items()}
    assert (found["wait_s"], found["max_bytes"], found["told"], found["kept"]) == ("SECONDS", "BYTES", "N", "TEXT")


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_explained_where_it_stands(section: str) -> None:
    kind = SECTIONS[section]
    assert {field.name for field in msgspec.structs.fields(kind)} == set(comments_of(kind))


@pytest.mark.parametrize("role", ROLE_SECTIONS)
def test_every_flag_of_a_service_is_explained_under_its_section(role: Role) -> None:
    parser = service_parser(role)
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    assert all(action.help for action in actions)
    shown = parser.format_help()
    for section in ROLE_SECTIONS[role]:
        assert f"[{section}]:" in shown or section in ("prefill", "decode", "unified")
    assert "--heartbeat-s SECONDS" in shown
    assert "how often each side of a link says that it lives" in " ".join(shown.split())
