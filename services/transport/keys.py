"""The keys of a deployment: a folder with one CURVE pair for each service and the key of the block hashes.

::

    DIR/public/NAME.key    Z85 text; whoever has one here may connect
    DIR/secret/NAME.key    Z85 text, readable by the owner only
    DIR/hash.key           32 hexadecimal digits, readable by the owner only

Made by `baton keys DIR NAME…`. Whoever connects is known by its key's name, so no service can pass for another; a name
begins with the role of its service, so none can pass for a service of another role.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

import zmq
from zmq.utils import z85

from baton.core.errors import ServingError

DEFAULT_NAMES = ("scheduler", "router", "prefill", "decode", "unified", "launcher")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_KEY_CHARACTERS = 40


class KeysUnusable(ServingError):
    """The key folder lacks something, or holds what is no key."""


def check_name(name: str) -> str:
    """Return `name` if a service may be called so; raise KeysUnusable."""
    if _NAME.fullmatch(name) is None:
        raise KeysUnusable(f"{name!r} is no service name: a letter, then letters, digits or dashes, all lower case")
    return name


def make_keys(folder: Path, names: Iterable[str]) -> list[str]:
    """Add what is missing and keep what is there; return the names that got new keys."""
    made = []
    for part in (folder, folder / "public", folder / "secret"):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "hash.key").exists():
        _write_private(folder / "hash.key", secrets.token_hex(16))
    for name in names:
        check_name(name)
        if (folder / "public" / f"{name}.key").exists():
            continue
        public, secret = zmq.curve_keypair()
        _write_private(folder / "secret" / f"{name}.key", secret.decode("ascii"))
        _write_private(folder / "public" / f"{name}.key", public.decode("ascii"))
        made.append(name)
    return made


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, and never readable by others."""
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    os.replace(draft, path)


class KeyRing:
    """One service's view of the folder: its own pair, the public keys of all others, the hash key."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.name = check_name(name)
        self.public = _read_key(folder / "public" / f"{name}.key")
        self.secret = _read_key(folder / "secret" / f"{name}.key")
        self.hash_key = _read_hash_key(folder / "hash.key")  #: 16 bytes
        self._read_at_ns = -1
        self._names: dict[bytes, str] = {}  #: raw public key → name
        self._read_public()

    def public_key_of(self, name: str) -> bytes:
        """The Z85 public key of the service called `name`. Raises KeysUnusable."""
        return _read_key(self._folder / "public" / f"{check_name(name)}.key")

    def name_of(self, raw_public_key: bytes) -> str | None:
        """Who owns this key of 32 bytes; None for strangers. Keys that were added meanwhile count."""
        if raw_public_key not in self._names:
            self._read_public()
        return self._names.get(raw_public_key)

    def _read_public(self) -> None:
        folder = self._folder / "public"
        changed_at_ns = folder.stat().st_mtime_ns
        if changed_at_ns == self._read_at_ns:
            return
        self._names = {z85.decode(_read_key(path)): path.stem for path in sorted(folder.glob("*.key"))}
        self._read_at_ns = changed_at_ns


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes().strip()
        if len(key) != _KEY_CHARACTERS:
            raise ValueError(f"{len(key)} characters")
        z85.decode(key)
    except OSError as error:
        raise KeysUnusable(f"no key {path}: make it with `baton keys {path.parent.parent} {path.stem}`") from error
    except (ValueError, KeyError) as error:
        raise KeysUnusable(f"{path} holds no CURVE key: {error}") from error
    return key


def _read_hash_key(path: Path) -> bytes:
    try:
        key = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as error:
        raise KeysUnusable(f"no key {path}: make it with `baton keys {path.parent}`") from error
    except ValueError as error:
        raise KeysUnusable(f"{path} holds no hash key: {error}") from error
    if len(key) != 16:
        raise KeysUnusable(f"{path} holds {len(key)} bytes, a hash key has 16")
    return key
