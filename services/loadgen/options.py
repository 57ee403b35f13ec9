"""The command line of `baton bench`: a flag for each field of its settings."""

from __future__ import annotations

import argparse
import enum
import inspect
import re
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from baton.services.loadgen.bench_settings import RunSettings, TargetSettings
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.load_settings import LoadSettings
from baton.services.runtime.setting_texts import comments_of, help_text, placeholder

Settings = TypeVar("Settings", bound=msgspec.Struct)
KINDS: tuple[type[msgspec.Struct], ...] = (TargetSettings, LoadSettings, RunSettings)
NAMES_FIRST = re.compile(r"\w+(, \w+)*(?=[: ])")
DESCRIPTION = """\
Put a load on a server that speaks OpenAI's API, and report what was measured.

  baton bench --num-requests 200 --concurrency 8
  baton bench --url http://host:8000 --rate 4 --duration-s 60 --input-tokens normal:512,64 --slo ttft=2s,itl=50ms
  baton bench --trace conversations.jsonl --speed 2 --sweep rate:1,2,4
  baton bench compare FOLDER FOLDER

Exit codes: 0; 1 too many failures, no success, or files that could not be written; 2 nothing could be run;
130 interrupted, and what was measured until then is reported.
"""


class Options(NamedTuple):
    """All that was asked for."""

    target: TargetSettings
    load: LoadSettings
    run: RunSettings


def bench_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="baton bench",
        usage="baton bench [--OPTION VALUE …]",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for kind in KINDS:
        add_flags(parser, kind)
    return parser


def add_flags(parser: argparse.ArgumentParser, kind: type[msgspec.Struct]) -> None:
    group = parser.add_argument_group(kind.__name__.removesuffix("Settings").lower(), inspect.getdoc(kind))
    comments = comments_of(kind)
    for field in msgspec.structs.fields(kind):
        flag, text = flag_of(field.name), help_text(field, comments)
        if field.type is bool:
            text = text.removesuffix(" (default: False)")
            group.add_argument(flag, dest=field.name, action="store_true", default=None, help=text)
        elif get_origin(field.type) is tuple:
            group.add_argument(flag, dest=field.name, action="append", metavar=metavar(field), help=text)
        else:
            group.add_argument(flag, dest=field.name, metavar=metavar(field), help=text)


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def metavar(field: msgspec.structs.FieldInfo) -> str:
    """What stands for the value: the words that may be given, or its unit."""
    plain = get_args(field.type)[0] if get_origin(field.type) is not None else field.type
    if isinstance(plain, type) and issubclass(plain, enum.Enum):
        return "|".join(str(member.value) for member in plain)
    return placeholder(msgspec.structs.FieldInfo(field.name, field.encode_name, plain))


def parse_options(arguments: list[str]) -> Options:
    """Raises BadLoad, which names the option; exits where argparse does."""
    given = {name: value for name, value in vars(bench_parser().parse_args(arguments)).items() if value is not None}
    return Options(_settings(TargetSettings, given), _settings(LoadSettings, given), _settings(RunSettings, given))


def in_flags(message: str) -> str:
    """A message that begins with names of settings, with their flags in their place."""
    names = {field.name for kind in KINDS for field in msgspec.structs.fields(kind)}
    begin = NAMES_FIRST.match(message)
    if begin is None:
        return message
    words = begin[0].split(", ")
    return ", ".join(flag_of(word) if word in names else word for word in words) + message[begin.end() :]


def _settings(kind: type[Settings], given: dict[str, Any]) -> Settings:
    own = {field.name: given[field.name] for field in msgspec.structs.fields(kind) if field.name in given}
    try:
        return msgspec.convert(own, kind, strict=False)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        name = place.strip("`$.").partition("[")[0]
        raise BadLoad(f"{name}: {own.get(name, '')!r}: {message}") from None
