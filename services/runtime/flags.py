"""Settings as command-line flags: one for each key that the role reads, named after it."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import Any

import msgspec

from baton.core.ids import Role
from baton.services.runtime.effects import has_flag
from baton.services.runtime.secret import Secret
from baton.services.runtime.setting_texts import comments_of, help_text, placeholder
from baton.services.runtime.settings import ROLE_SECTIONS, SECTIONS

#: keys whose flag has a better name than the key
_FLAG_NAMES = {("model", "folder"): "model", ("device", "kind"): "device"}


def service_parser(role: Role) -> argparse.ArgumentParser:
    """A parser whose result `flags_layer` turns into the uppermost layer of settings."""
    name = role.name.lower()
    # Without abbreviations: --api-key SECRET would become --api-keys-file SECRET and be told as its value.
    parser = argparse.ArgumentParser(
        prog=f"baton {name}",
        usage=f"baton {name} [--config FILE] [--SETTING VALUE …]",
        description=f"Run one {name} process. Flags go before variables BATON_SECTION_KEY, which go before the file.",
        allow_abbrev=False,
    )
    sections = ", ".join(ROLE_SECTIONS[role])
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"TOML file with the sections {sections}")
    for section in ROLE_SECTIONS[role]:
        if section in ("prefill", "decode", "unified"):  # the keys of [executor], said again for this role
            continue
        kind = SECTIONS[section]
        group = parser.add_argument_group(f"[{section}]", inspect.getdoc(kind))
        comments = comments_of(kind)
        for field in msgspec.structs.fields(kind):
            if field.type == Secret | None:  # every user of the machine sees command lines
                continue
            if not has_flag(role, section, field.name):
                continue
            flag = _FLAG_NAMES.get((section, field.name), field.name).replace("_", "-")
            group.add_argument(
                f"--{flag}",
                dest=f"{section}.{field.name}",
                metavar=placeholder(field),
                help=help_text(field, comments),
            )
    return parser


def flags_layer(role: Role, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Only what was given. An executor's knobs go to its role's own section, so that a flag beats the file."""
    layer: dict[str, dict[str, Any]] = {}
    for dotted, value in vars(options).items():
        section, dot, key = dotted.partition(".")
        if dot and value is not None:
            own = role.name.lower() if section == "executor" else section
            layer.setdefault(own, {})[key] = value
    return layer
