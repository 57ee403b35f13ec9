"""A step-time model as a file: where it comes from, what it was fitted on, how far off it is, and what an executor that
it describes can hold."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from baton.core.file_errors import BadFile, what_and_field
from baton.core.layout import DTYPE_BYTES, KvLayout
from baton.core.sim.step_time.model import StepModel

FORMAT_VERSION = 1
FOLDER = "baton.core.sim.step_time"

Number = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]


class BadProfile(BadFile):
    """The file is no profile. Says the file, and the field if it is one."""


class KvGeometry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one token's KV, on the whole executor."""

    num_kv_layers: Number
    num_kv_heads: Number
    head_dim: Number
    dtype: str = "float16"

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"dtype: {self.dtype!r} is none of {', '.join(DTYPE_BYTES)}")

    def layout(self, block_size: int, model: str) -> KvLayout:
        return KvLayout(
            self.num_kv_layers, self.num_kv_heads, self.head_dim, self.dtype, block_size, model, "sim-tokens-1"
        )


class FitError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a kind's model is from the steps that it was fitted on."""

    num_steps: int
    mape: float  #: mean of |model − real| / real
    p95_abs_s: float  #: of |model − real|


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One executor on one kind of machine. Times are seconds."""

    format_version: int = FORMAT_VERSION
    name: str
    source: str  #: whose figures these are, and what was derived here
    kv: KvGeometry
    kv_tokens: Number  #: tokens whose KV it can hold
    steps: StepModel
    fit_errors: dict[str, FitError] = {}  #: by kind of step; empty where others fitted it
    machine: dict[str, str] = {}
    price_per_hour: float = 0.0  #: of one such executor; 0: not said

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format {self.format_version}, this program reads {FORMAT_VERSION}")


_decoder = msgspec.json.Decoder(Profile)


def decode_profile(data: bytes, where: str) -> Profile:
    """`where` names the file in the error. Raises BadProfile."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadProfile(where, *what_and_field(error)) from error


def encode_profile(profile: Profile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n"


def built_in() -> list[str]:
    """Names of the profiles that ship with the package."""
    folder = files(FOLDER) / "profiles"
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def load_profile(name: str) -> Profile:
    """One of the package's by its name, or a file by its path. Raises BadProfile."""
    if name in built_in():
        return decode_profile((files(FOLDER) / "profiles" / f"{name}.json").read_bytes(), f"profile {name}")
    path = Path(name)
    try:
        return decode_profile(path.read_bytes(), name)
    except OSError as error:
        known = ", ".join(built_in())
        raise BadProfile(name, f"{error.strerror}; neither a file nor one of the built-in profiles: {known}") from error
