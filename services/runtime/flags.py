"""Settings as command-line flags: one for each key that the role reads, named after it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from baton.core.ids import Role
from baton.services.runtime.effects import has_flag
from baton.services.runtime.secret import Secret
from baton.services.runtime.settings import ROLE_SECTIONS, SECTIONS

#: keys whose flag has a better name than the key
_FLAG_NAMES = {("model", "folder"): "model", ("device", "kind"): "device"}


def service_parser(role: Role) -> argparse.ArgumentParser:
    """A parser whose result `flags_layer` turns into the uppermost layer of settings."""
    name = role.name.lower()
    # Without abbreviations: --api-key SECRET would become --api-keys-file SECRET and be told as its value.
    parser = argparse.ArgumentParser(prog=f"baton {name}", description=f"Run one {name} process.", allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="TOML file with the sections " + ", ".join(ROLE_SECTIONS[role]))
    for section in ROLE_SECTIONS[role]:
        if section in ("prefill", "decode", "unified"):  # the keys of [executor], said again for this role
            continue
        group = parser.add_argument_group(section)
        for field in msgspec.structs.fields(SECTIONS[section]):
            if field.type == Secret | None:  # every user of the machine sees command lines
                continue
            if not has_flag(role, section, field.name):
                continue
            flag = _FLAG_NAMES.get((section, field.name), field.name).replace("_", "-")
            group.add_argument(f"--{flag}", dest=f"{section}.{field.name}", default=None, metavar=_metavar(field.type))
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


def _metavar(kind: Any) -> str:
    return getattr(kind, "__name__", "VALUE").upper()
