"""Planted defects: a module is loaded with one piece of its source replaced, before anything else imports it.

A simulator that finds nothing proves nothing until it has shown that it finds what is known to be wrong.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

import msgspec


class Mutation(msgspec.Struct, frozen=True):
    """One defect. `old` must stand in the source exactly `count` times."""

    name: str
    module: str
    old: str
    new: str
    description: str
    count: int = 1  #: how often `old` stands there
    seed: int = 0  #: one that found it; tried first


class MutationMissed(Exception):
    """The text to replace is not there (any more), or the module is loaded already."""


class _PatchedLoader(Loader):
    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self._path = path

    def exec_module(self, module: types.ModuleType) -> None:
        code = compile(self._source, self._path, "exec")
        exec(code, module.__dict__)


class _Finder(MetaPathFinder):
    def __init__(self, module: str, source: str, path: str) -> None:
        self._module = module
        self._source = source
        self._path = path

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        return importlib.util.spec_from_loader(fullname, _PatchedLoader(self._source, self._path), origin=self._path)


def install(*mutations: Mutation) -> None:
    """Plant the defects in this process, in order. Raises MutationMissed, and plants nothing."""
    sources: dict[str, tuple[str, str]] = {}  #: module → its source as planted so far, its file
    for mutation in mutations:
        source, path = sources.get(mutation.module) or _read(mutation.module)
        count = source.count(mutation.old)
        if count != mutation.count:
            raise MutationMissed(f"{mutation.name}: the text stands {count} times in {mutation.module}")
        sources[mutation.module] = source.replace(mutation.old, mutation.new), path
    for module, (source, path) in sources.items():
        sys.meta_path.insert(0, _Finder(module, source, path))


def _read(module: str) -> tuple[str, str]:
    if module in sys.modules:
        raise MutationMissed(f"{module} is loaded already")
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise MutationMissed(f"no module {module}")
    with open(spec.origin, encoding="utf-8") as stream:
        return stream.read(), spec.origin
